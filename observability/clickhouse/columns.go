package clickhouse

import (
	"slices"
	"strings"
	"sync"

	drivercolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/parleyrun/parley/conversation"
)

// column is a column of events_raw and its source: exactly one function is set.
type column struct {
	name string
	// append adds the values of rows to a column of the driver.
	append func(to drivercolumn.Interface, rows []row) error
	// word returns the value of a row in a LowCardinality column.
	word func(*row) string
}

func col[T any](name string, value func(*row) T) column {
	var spare spares[T]
	return column{name: name, append: func(to drivercolumn.Interface, rows []row) error {
		values := spare.get(len(rows))
		defer spare.put(values)
		for i := range rows {
			(*values)[i] = value(&rows[i])
		}
		_, err := to.Append(*values)
		return err
	}}
}

func words(name string, word func(*row) string) column { return column{name: name, word: word} }

// spares pools the slices from which columns are filled; the driver copies their content.
type spares[T any] struct{ pool sync.Pool }

func (s *spares[T]) get(n int) *[]T {
	values, ok := s.pool.Get().(*[]T)
	if !ok || cap(*values) < n {
		return new(make([]T, n, max(n, chunkRows)))
	}
	*values = (*values)[:n]
	return values
}

func (s *spares[T]) put(values *[]T) {
	clear(*values) // Release the events.
	s.pool.Put(values)
}

// briefColumns returns the columns of an insert of brief events. All other columns get the server's
// defaults.
func briefColumns() []column {
	return []column{
		col("event_id", func(r *row) string { return r.ID }),
		col("event_index", func(r *row) int64 { return r.Index }),
		col("seq", func(r *row) int64 { return r.Seq }),
		col("live", func(r *row) bool { return r.Live() }),
		col("ts", func(r *row) int64 { return stored(r.At) }),
		words("type", func(r *row) string { return string(r.Type) }),
		col("v", func(r *row) uint8 { return uint8(r.Version) }),
		words("agent", func(r *row) string { return r.Agent }),
		col("instance_id", func(r *row) string { return r.Instance }),
		col("conversation_id", func(r *row) string { return string(r.Conversation) }),
		col("submission_id", func(r *row) string { return string(r.Submission) }),
		col("session", func(r *row) string { return r.Session }),
		col("parent_session", func(r *row) string { return r.ParentSession }),
		col("task_id", func(r *row) string { return r.Task }),
		words("harness", func(r *row) string { return r.Harness }),
		col("operation_id", func(r *row) string { return r.Operation }),
		col("turn_id", func(r *row) string { return string(r.Turn) }),
		col("payload", func(r *row) string { return r.payload }),

		words("kind", func(r *row) string { return r.kind }),
		words("purpose", func(r *row) string { return r.purpose }),
		words("level", func(r *row) string { return r.level }),
		col("is_error", func(r *row) bool { return r.isError }),
		words("provider", func(r *row) string { return r.provider }),
		words("model", func(r *row) string { return r.model }),
		words("api", func(r *row) string { return r.api }),
		words("tool", func(r *row) string { return r.tool }),
		col("tool_call_id", func(r *row) string { return r.toolCall }),
		col("bytes", func(r *row) uint64 { return count64(int64(r.bytes)) }),
	}
}

// columns returns the columns of an insert of any events.
func columns() []column {
	return slices.Concat(briefColumns(), workColumns(), modelColumns())
}

func workColumns() []column {
	return []column{
		col("trace_id", func(r *row) string { return r.traceID }),
		words("message_kind", func(r *row) string { return r.messageKind }),
		words("outcome", func(r *row) string { return r.outcome }),
		words("reason", func(r *row) string { return r.reason }),
		words("recovery", func(r *row) string { return r.recovery }),
		words("error_type", func(r *row) string { return r.errorType }),
		col("error_message", func(r *row) string { return r.errorMessage }),
		col("attempt", func(r *row) uint32 { return count32(r.attempt) }),
		col("max_attempts", func(r *row) uint32 { return count32(r.maxAttempts) }),
		col("recovered", func(r *row) bool { return r.recovered }),
		col("fenced", func(r *row) bool { return r.fenced }),
		col("dropped", func(r *row) bool { return r.dropped }),
		col("retries", func(r *row) uint32 { return count32(r.retries) }),
		col("duration_ms", func(r *row) *int64 { return r.durationMs }),
		col("work_ms", func(r *row) *int64 { return r.workMs }),
		col("total_ms", func(r *row) *int64 { return r.totalMs }),
		col("admission_ms", func(r *row) *int64 { return r.admissionMs }),
		col("queued_ms", func(r *row) *int64 { return r.queuedMs }),
		col("first_token_ms", func(r *row) *int64 { return r.firstTokenMs }),
	}
}

func modelColumns() []column {
	return []column{
		words("response_model", func(r *row) string { return r.responseModel }),
		words("finish_reason", func(r *row) string { return r.finishReason }),
		col("input_tokens", func(r *row) uint64 { return count64(r.usage.Input) }),
		col("output_tokens", func(r *row) uint64 { return count64(r.usage.Output) }),
		col("cache_read_tokens", func(r *row) uint64 { return count64(r.usage.CacheRead) }),
		col("cache_write_tokens", func(r *row) uint64 { return count64(r.usage.CacheWrite) }),
		col("reasoning_tokens", func(r *row) uint64 { return count64(r.usage.Reasoning) }),
		col("total_tokens", func(r *row) uint64 { return count64(r.usage.Total) }),
		col("cost_input", func(r *row) float64 { return r.usage.Cost.Input }),
		col("cost_output", func(r *row) float64 { return r.usage.Cost.Output }),
		col("cost_cache_read", func(r *row) float64 { return r.usage.Cost.CacheRead }),
		col("cost_cache_write", func(r *row) float64 { return r.usage.Cost.CacheWrite }),
		col("cost", func(r *row) float64 { return r.usage.Cost.Total }),
		words("task_agent", func(r *row) string { return r.taskAgent }),
		col("messages_before", func(r *row) uint32 { return count32(r.messagesBefore) }),
		col("messages_after", func(r *row) uint32 { return count32(r.messagesAfter) }),
		col("estimated_tokens", func(r *row) uint64 { return count64(r.estimatedTokens) }),
	}
}

func names(cs []column) string {
	var list []string
	for _, c := range cs {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

// moment is the SQL of a time parameter; it takes one argument.
const moment = "fromUnixTimestamp64Milli(toInt64(?), 'UTC')"

// between returns the conditions of a time range, 0 being no bound, and its arguments.
func between(since, until conversation.Time) (conditions []string, args []any) {
	if since != 0 {
		conditions, args = append(conditions, "ts >= "+moment), append(args, int64(since))
	}
	if until != 0 {
		conditions, args = append(conditions, "ts < "+moment), append(args, int64(until))
	}
	return conditions, args
}
