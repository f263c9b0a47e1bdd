package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability/stats"
)

// Summary computes [stats.Summarize] on the server. Events that arrive during the queries may be
// counted in some parts only.
func (d *Database) Summary(ctx context.Context, f stats.Filter) (*stats.Summary, error) {
	q := &question{db: d, ctx: timeless{ctx}}
	conditions, args := between(f.Since, f.Until)
	if f.Agent != "" {
		conditions, args = append(conditions, "agent = ?"), append(args, f.Agent)
	}
	q.where, q.args = strings.Join(append(conditions, "(NOT live OR type = 'submission_recovery')"), " AND "), args
	s := &stats.Summary{Errors: []stats.ErrorRow{}, Models: []stats.ModelRow{}, Tools: []stats.ToolRow{}, Hours: []stats.HourRow{}, Recent: []stats.Recent{}}
	for _, part := range []func(*question, *stats.Summary) error{totals, latencies, failures, models, tools, hours, recent} {
		if err := part(q, s); err != nil {
			return nil, fmt.Errorf("summarize events: %w", d.explain("SELECT FROM events", err))
		}
	}
	return s, nil
}

// question holds the common parts of the queries of a summary.
type question struct {
	db    *Database
	ctx   context.Context
	where string
	args  []any
}

// rows runs a query, with the conditions in place of the word WHERE, and visits its rows.
func (q *question) rows(query string, visit func(driver.Rows) error) error {
	rows, err := q.db.conn.Query(q.ctx, strings.Replace(query, "WHERE", "WHERE "+q.where, 1), q.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const settled = "toInt64(countIf(type = 'submission_settled' AND outcome = "

// outcomes are the columns of stats.Submissions.
const outcomes = `toInt64(countIf(type = 'submission_queued')),
	` + settled + `'completed')), ` + settled + `'failed')), ` + settled + `'aborted'))`

// tokens are the columns of stats.Tokens.
const tokens = `toInt64(sumIf(input_tokens, type = 'turn')), toInt64(sumIf(output_tokens, type = 'turn')),
	toInt64(sumIf(cache_read_tokens, type = 'turn')), toInt64(sumIf(cache_write_tokens, type = 'turn')),
	toInt64(sumIf(reasoning_tokens, type = 'turn')), sumIf(cost, type = 'turn')`

func outcomesOf(s *stats.Submissions) []any {
	return []any{&s.Queued, &s.Completed, &s.Failed, &s.Aborted}
}

func tokensOf(t *stats.Tokens) []any {
	return []any{&t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.Reasoning, &t.Cost}
}

func totals(q *question, s *stats.Summary) error {
	const query = `SELECT toInt64(count()), toUnixTimestamp64Milli(min(ts)), toUnixTimestamp64Milli(max(ts)),
	toInt64(uniqExactIf((agent, instance_id), instance_id != '')),
	` + outcomes + `,
	toInt64(countIf(type = 'submission_running' AND recovered)), toInt64(countIf(type = 'submission_recovery')),
	toInt64(countIf(type = 'submission_recovery' AND fenced)),
	toInt64(countIf(type = 'compaction')), toInt64(countIf(type = 'compaction' AND is_error))
	FROM events WHERE`
	return q.rows(query, func(r driver.Rows) error {
		into := append([]any{&s.Events, (*int64)(&s.First), (*int64)(&s.Last), &s.Conversations}, outcomesOf(&s.Submissions)...)
		return r.Scan(append(into, &s.Recovered, &s.Recoveries, &s.Fences, &s.Compactions, &s.CompactionErrors)...)
	})
}

// latencyOf returns the SQL for count, quantiles and maximum of a column where counts holds, as an
// array.
func latencyOf(column, counts string) string {
	ms := "ifNull(" + column + ", 0)"
	return "arrayConcat([toInt64(countIf(" + counts + "))], quantilesExactIf(0.5, 0.9, 0.99)(" + ms + ", " + counts + "), [maxIf(" + ms + ", " + counts + ")])"
}

// latency decodes the array of latencyOf.
func latency(values []int64) stats.Latency {
	if len(values) != 5 || values[0] == 0 {
		return stats.Latency{}
	}
	return stats.Latency{Count: values[0], P50: values[1], P90: values[2], P99: values[3], Max: values[4]}
}

func latencies(q *question, s *stats.Summary) error {
	query := "SELECT " + strings.Join([]string{
		latencyOf("admission_ms", "type = 'submission_settled' AND admission_ms IS NOT NULL"),
		latencyOf("queued_ms", "type = 'submission_running' AND queued_ms IS NOT NULL"),
		latencyOf("first_token_ms", "type = 'turn' AND first_token_ms > 0"),
		latencyOf("duration_ms", "type = 'turn' AND NOT is_error AND NOT "+cutOff),
		latencyOf("total_ms", "type = 'submission_settled'"),
	}, ", ") + " FROM events WHERE AND type IN ('submission_running', 'turn', 'submission_settled')"
	return q.rows(query, func(r driver.Rows) error {
		var admission, queue, first, turn, settlement []int64
		if err := r.Scan(&admission, &queue, &first, &turn, &settlement); err != nil {
			return err
		}
		s.Admission, s.Queue, s.FirstToken = latency(admission), latency(queue), latency(first)
		s.Turn, s.Settlement = latency(turn), latency(settlement)
		return nil
	})
}

func failures(q *question, s *stats.Summary) error {
	const query = `SELECT toString(type) AS event, toString(error_type) AS error, toInt64(count()) FROM events
	WHERE AND error_type != '' AND type IN ('submission_settled', 'turn', 'compaction')
	GROUP BY event, error ORDER BY event, error`
	return q.rows(query, func(r driver.Rows) error {
		var row stats.ErrorRow
		err := r.Scan((*string)(&row.Event), &row.Type, &row.Count)
		s.Errors = append(s.Errors, row)
		return err
	})
}

// cutOff is [observability.Turn.CutOff] as a condition.
const cutOff = "finish_reason IN ('aborted', 'handover', 'interrupted')"

func models(q *question, s *stats.Summary) error {
	const query = `SELECT toString(agent) AS a, toString(provider) AS p, toString(model) AS m,
	toInt64(count()), toInt64(countIf(is_error)), toInt64(countIf(` + cutOff + `)), toInt64(sumIf(retries, NOT dropped)), ` + tokens + ` FROM events
	WHERE AND type = 'turn' GROUP BY a, p, m ORDER BY a, p, m`
	return q.rows(query, func(r driver.Rows) error {
		var row stats.ModelRow
		into := []any{&row.Agent, &row.Provider, &row.Model, &row.Turns, &row.Errors, &row.CutOff, &row.Retries}
		err := r.Scan(append(into, tokensOf(&row.Tokens)...)...)
		s.Models = append(s.Models, row)
		return err
	})
}

func tools(q *question, s *stats.Summary) error {
	query := "SELECT toString(tool) AS name, toInt64(count()), toInt64(countIf(is_error)), " + latencyOf("duration_ms", "NOT is_error") +
		" FROM events WHERE AND type = 'tool' GROUP BY name ORDER BY name"
	return q.rows(query, func(r driver.Rows) error {
		var row stats.ToolRow
		var took []int64
		err := r.Scan(&row.Name, &row.Calls, &row.Errors, &took)
		row.Latency = latency(took)
		s.Tools = append(s.Tools, row)
		return err
	})
}

func hours(q *question, s *stats.Summary) error {
	query := "SELECT toInt64(toUnixTimestamp(toStartOfHour(ts))) * 1000 AS hour, " + outcomes + ", toInt64(countIf(type = 'turn')), " + tokens +
		" FROM events WHERE AND type IN ('submission_queued', 'submission_settled', 'turn') GROUP BY hour ORDER BY hour"
	return q.rows(query, func(r driver.Rows) error {
		var row stats.HourRow
		into := append([]any{(*int64)(&row.Hour)}, outcomesOf(&row.Submissions)...)
		into = append(append(into, &row.Turns), tokensOf(&row.Tokens)...)
		err := r.Scan(into...)
		s.Hours = append(s.Hours, row)
		return err
	})
}

func recent(q *question, s *stats.Summary) error {
	query := `SELECT toUnixTimestamp64Milli(min(ts)) AS begun, submission_id,
	anyIf(toString(agent), type != 'turn'), anyIf(instance_id, type != 'turn'),
	anyIf(toString(outcome), type = 'submission_settled'), toInt64(ifNull(anyIf(total_ms, type = 'submission_settled'), 0)),
	anyIf(toString(error_type), type = 'submission_settled'), anyIf(error_message, type = 'submission_settled'),
	toInt64(countIf(type = 'turn')), ` + tokens + ` FROM events
	WHERE AND submission_id != '' AND type IN ('submission_queued', 'submission_running', 'submission_settled', 'turn')
	GROUP BY submission_id ORDER BY begun DESC, submission_id DESC LIMIT ` + strconv.Itoa(stats.RecentCount)
	return q.rows(query, func(r driver.Rows) error {
		var row stats.Recent
		into := []any{(*int64)(&row.Begun), (*string)(&row.Submission), &row.Agent, &row.Instance, &row.Outcome, &row.TotalMs, &row.Error, &row.Message, &row.Turns}
		err := r.Scan(append(into, tokensOf(&row.Tokens)...)...)
		s.Recent = append(s.Recent, row)
		return err
	})
}

// Newest returns the id of the submission with the latest event, "" if there is none.
func (d *Database) Newest(ctx context.Context) (id conversation.SubmissionID, err error) {
	q := &question{db: d, ctx: timeless{ctx}, where: "type = 'submission_queued' AND NOT live"}
	err = q.rows("SELECT submission_id FROM events WHERE ORDER BY ts DESC, submission_id DESC LIMIT 1", func(r driver.Rows) error {
		return r.Scan((*string)(&id))
	})
	if err != nil {
		err = fmt.Errorf("find the newest submission: %w", d.explain("SELECT FROM events", err))
	}
	return id, err
}

// aggregates returns the names of the hourly views.
func aggregates() []string {
	return []string{"usage_hourly", "latency_hourly", "outcomes_hourly", "queue_hourly", "recoveries_hourly", "active_hourly"}
}

// Refresh updates the hourly aggregates and waits for that, for use after a bulk import. The server
// refreshes them every ten minutes.
func (d *Database) Refresh(ctx context.Context) error {
	for _, view := range aggregates() {
		for _, statement := range []string{"SYSTEM REFRESH VIEW " + view, "SYSTEM WAIT VIEW " + view} {
			if err := d.exec(ctx, statement); err != nil {
				return fmt.Errorf("refresh %s: %w", view, err)
			}
		}
	}
	return nil
}
