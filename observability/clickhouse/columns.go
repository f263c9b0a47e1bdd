package clickhouse

import (
	"strings"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/conversation"
)

// column is a column of events_raw and how it is filled.
type column struct {
	name   string
	append func(to driver.BatchColumn, rows []row) error
}

func col[T any](name string, value func(*row) T) column {
	var spare spares[T]
	return column{name, func(to driver.BatchColumn, rows []row) error {
		values := spare.get(len(rows))
		defer spare.put(values)
		for i := range rows {
			(*values)[i] = value(&rows[i])
		}
		return to.Append(*values)
	}}
}

// spares keeps the slices that columns are filled from for the next insert: the driver
// copies what is in them.
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
	clear(*values) // It holds no event.
	s.pool.Put(values)
}

// dictionary fills a LowCardinality column. The driver takes every value of it as an
// interface, so one that repeats is converted once.
func dictionary(name string, value func(*row) string) column {
	var spare spares[any]
	return column{name, func(to driver.BatchColumn, rows []row) error {
		values := spare.get(len(rows))
		defer spare.put(values)
		known := map[string]any{}
		for i := range rows {
			s := value(&rows[i])
			v, ok := known[s]
			if !ok {
				v = s
				known[s] = v
			}
			(*values)[i] = v
		}
		return to.Append(*values)
	}}
}

// columns lists what an insert fills.
func columns() []column {
	return append(append(envelopeColumns(), workColumns()...), modelColumns()...)
}

func envelopeColumns() []column {
	return []column{
		col("event_id", func(r *row) string { return r.ID }),
		col("event_index", func(r *row) int64 { return r.Index }),
		col("seq", func(r *row) int64 { return r.Seq }),
		col("live", func(r *row) bool { return r.Live() }),
		col("ts", func(r *row) int64 { return stored(r.At) }),
		dictionary("type", func(r *row) string { return string(r.Type) }),
		col("v", func(r *row) uint8 { return uint8(r.Version) }),
		dictionary("agent", func(r *row) string { return r.Agent }),
		col("instance_id", func(r *row) string { return r.Instance }),
		col("conversation_id", func(r *row) string { return string(r.Conversation) }),
		col("submission_id", func(r *row) string { return string(r.Submission) }),
		col("session", func(r *row) string { return r.Session }),
		col("parent_session", func(r *row) string { return r.ParentSession }),
		col("task_id", func(r *row) string { return r.Task }),
		dictionary("harness", func(r *row) string { return r.Harness }),
		col("operation_id", func(r *row) string { return r.Operation }),
		col("turn_id", func(r *row) string { return string(r.Turn) }),
		col("trace_id", func(r *row) string { return r.traceID }),
		col("payload", func(r *row) string { return r.payload }),
	}
}

func workColumns() []column {
	return []column{
		dictionary("kind", func(r *row) string { return r.kind }),
		dictionary("message_kind", func(r *row) string { return r.messageKind }),
		dictionary("outcome", func(r *row) string { return r.outcome }),
		dictionary("reason", func(r *row) string { return r.reason }),
		dictionary("purpose", func(r *row) string { return r.purpose }),
		dictionary("recovery", func(r *row) string { return r.recovery }),
		dictionary("level", func(r *row) string { return r.level }),
		col("is_error", func(r *row) bool { return r.isError }),
		dictionary("error_type", func(r *row) string { return r.errorType }),
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
		col("queued_ms", func(r *row) *int64 { return r.queuedMs }),
		col("first_token_ms", func(r *row) *int64 { return r.firstTokenMs }),
	}
}

func modelColumns() []column {
	return []column{
		dictionary("provider", func(r *row) string { return r.provider }),
		dictionary("model", func(r *row) string { return r.model }),
		dictionary("response_model", func(r *row) string { return r.responseModel }),
		dictionary("api", func(r *row) string { return r.api }),
		dictionary("finish_reason", func(r *row) string { return r.finishReason }),
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
		dictionary("tool", func(r *row) string { return r.tool }),
		col("tool_call_id", func(r *row) string { return r.toolCall }),
		dictionary("task_agent", func(r *row) string { return r.taskAgent }),
		col("messages_before", func(r *row) uint32 { return count32(r.messagesBefore) }),
		col("messages_after", func(r *row) uint32 { return count32(r.messagesAfter) }),
		col("estimated_tokens", func(r *row) uint64 { return count64(r.estimatedTokens) }),
		col("bytes", func(r *row) uint64 { return count64(int64(r.bytes)) }),
	}
}

func names(cs []column) string {
	var list []string
	for _, c := range cs {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

// moment is how a time of ours is written in a query; it takes one argument.
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
