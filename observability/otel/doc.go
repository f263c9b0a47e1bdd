// Package otel is a sink that turns events into OpenTelemetry traces and metrics and
// sends them to a collector by OTLP over HTTP.
//
// Package cmd makes a [Sink] and hands it to actors. The sink calls the OpenTelemetry
// SDK, of which nothing stands in its signatures, and no global of it is read or set.
//
// A span is made of the event that ends it, which has its duration; no span is ever
// open. invoke_agent stands for the operation of a submission, or for a task, chat for
// a model call, execute_tool for a tool call, parley.wait for its wait for a signal, parley.post for an attempt to deliver a post,
// parley.compaction for a compaction. The call of the task tool has no span of its own:
// the span of the task stands in.
//
// Guarantees:
//
//  1. The ids of a span are functions of the ids of its event. Nodes that each saw a
//     part of a submission write one trace, and what is written twice is the same
//     span. The trace is that of the traceparent of the submission; if it has none,
//     one that follows from the id of the submission.
//  2. invoke_agent of a submission is the child of the caller's span. chat,
//     execute_tool, parley.wait, parley.compaction and invoke_agent of a task are children of
//     the operation, or of the task, that they belong to.
//  3. Write returns nil only when the collector has answered for all spans. What it
//     does not take however often it comes (400, 413, 422, a partial success) is
//     counted as rejected, so that it does not hold up the rest. After an error, a Write
//     that ends no span sends one of those that were not taken: nil says that the
//     collector is back, and an outage has one beginning and one end.
//  4. An event that comes again adds nothing to metrics, as long as fewer than 32,768
//     others came meanwhile.
//  5. Content is in no span unless [Options.Content] is set, and at most 57,344 bytes of
//     it in one, with parley.content.truncated where something was cut.
//  6. Memory is bounded, whatever the events are: see [Options].
//
// A submission's traceparent is in submission_queued and in each submission_running. A
// sink that has seen neither, or so many other submissions since that it forgot, writes
// into the trace that follows from the id of the submission.
//
// The sink is an [observability.Batcher]: behind a buffer, events wait up to 5 s, or
// OTEL_BSP_SCHEDULE_DELAY, so that one request has the spans of many submissions.
//
// A caller's decision not to sample is respected, and so are OTEL_TRACES_SAMPLER and
// the other variables of the SDK; metrics count everything.
//
// A Sink is safe for concurrent use; writes wait for each other. The first Write starts
// the goroutine that exports metrics, every 60 s or OTEL_METRIC_EXPORT_INTERVAL, and
// Close ends it. Metrics that a collector missed are in the next export.
//
// After a crash the exporter brings events again from where its cursor stood: spans are
// the same as before, metrics of the new process begin at zero and count them again.
package otel
