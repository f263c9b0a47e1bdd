// Package otel is a sink that converts events to OpenTelemetry traces and metrics and exports them to
// a collector by OTLP over HTTP.
//
// Package cmd creates a [Sink] and passes it to actors. The sink uses the OpenTelemetry SDK, but no
// type of the SDK is in its signatures, and no global is read or set.
//
// A span is created from the event that ends it, which has its duration; no span is ever open. The
// span invoke_agent is the operation of a submission, or a task. The span chat is a model call, and
// execute_tool a tool call. The span parley.wait is the wait of a tool call for a signal, parley.post
// an attempt to deliver a post, and parley.compaction a compaction. The call of the task tool has no
// span of its own, because the span of the task replaces it.
//
// Guarantees:
//
//  1. The ids of a span are functions of the ids of its event. Nodes that each saw a part of a
//     submission write one trace, and an event written twice gives the same span. The trace is that
//     of the submission's traceparent, or else derived from its id.
//  2. invoke_agent of a submission is the child of the caller's span. chat, execute_tool,
//     parley.wait, parley.compaction and invoke_agent of a task are children of their operation or
//     task.
//  3. Write returns nil only when the collector has answered for all spans. Permanent rejections
//     (400, 413, 422, a partial success) are counted, so that they do not block the rest. After an
//     error, a Write without spans resends one of the failed spans. So nil means that the collector
//     has recovered, and an outage has one start and one end.
//  4. A repeated event adds nothing to metrics, if fewer than 32,768 others came in between.
//  5. Content is in no span unless [Options.Content] is set, and at most 57,344 bytes of it in one,
//     with parley.content.truncated if it was truncated.
//  6. Memory is bounded for any events: see [Options].
//
// A submission's traceparent is in submission_queued and in each submission_running. A sink that has
// seen neither, or has evicted it, writes into the trace derived from the id of the submission.
//
// The sink is an [observability.Batcher]: behind a buffer, events wait up to 5 s, or
// OTEL_BSP_SCHEDULE_DELAY, so that one request has the spans of many submissions.
//
// A caller's sampling decision is respected, as are OTEL_TRACES_SAMPLER and the other variables of the
// SDK; metrics count everything.
//
// A Sink is safe for concurrent use; writes are serialized. The first Write starts the goroutine that
// exports metrics, every 60 s or OTEL_METRIC_EXPORT_INTERVAL, and Close ends it. Metrics that a
// collector missed are in the next export.
//
// After a crash the exporter resends events from its cursor: spans are the same as before, and the
// metrics of the new process start at zero and count the events again.
package otel
