package otel

import (
	"context"
	"crypto/sha256"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// maxTraceState bounds a forwarded tracestate, in bytes.
const maxTraceState = 512

// taskSession is the prefix of the session of a subagent, before its task id.
const taskSession = "task:"

// work is the state of one submission, or of work without one.
type work struct {
	caller  trace.SpanContext // from the traceparent, invalid if there is none
	root    trace.SpanContext // context of the operation's span, invalid until needed
	began   conversation.Time // the operation, 0 if not seen
	attempt int               // last attempt that began, 0 if none was seen
}

// lineage determines the trace and parent of spans.
type lineage struct {
	tracer trace.Tracer
	works  *recent[string, work]
	// detached are the compactions that are operations of their own, by operation. The events of one
	// are in one batch.
	detached *recent[string, bool]
}

// maxDetached is the maximum number of them.
const maxDetached = 256

// workOf returns the key of the work that an event belongs to.
func workOf(e *observability.Event) string {
	switch {
	case e.Submission != "":
		return string(e.Submission)
	case e.Operation != "":
		return e.Operation
	case e.Conversation != "":
		return string(e.Conversation)
	}
	return e.ID
}

// learn records the trace context and state of a submission. The first trace context wins.
func (l *lineage) learn(e *observability.Event) {
	var parent, state string
	var began conversation.Time
	attempt := 0
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		parent, state = p.Traceparent, p.Tracestate
	case *observability.SubmissionRunning:
		parent, state, attempt = p.Traceparent, p.Tracestate, p.Attempt
	case *observability.OperationStart:
		if p.Kind == observability.OperationCompact {
			l.detached.put(e.Operation, true)
			return
		}
		if e.Task != "" {
			return
		}
		began = e.At
	default:
		return
	}
	key := workOf(e)
	w := l.works.at(key)
	w.attempt = max(w.attempt, attempt)
	if w.began == 0 {
		w.began = began
	}
	if caller := callerOf(parent, state); caller.IsValid() && !w.caller.IsValid() {
		w.caller, w.root = caller, trace.SpanContext{}
	}
	l.works.put(key, w)
}

// of returns the state of the work of an event, with the context of its operation.
func (l *lineage) of(e *observability.Event) work {
	key := workOf(e)
	w := l.works.at(key)
	if w.root.IsValid() {
		return w
	}
	// The sampler decides by the operation's span, which may be created last and on another node. So
	// start a span with the same ids here for its flags, and discard it.
	_, span := l.tracer.Start(l.rootContext(key, w), spanAgent)
	w.root = span.SpanContext()
	l.works.put(key, w)
	return w
}

// rootContext returns the context in which the operation's span starts.
func (l *lineage) rootContext(key string, w work) context.Context {
	ctx := withIDs(context.Background(), ids{trace: traceID(key), span: spanID("operation", key)})
	if w.caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, w.caller)
	}
	return ctx
}

// parentOf returns the parent of the span of an event: the operation of the submission, the task if it
// is not empty, or a compaction that is an operation of its own.
func (l *lineage) parentOf(e *observability.Event, task string, w work) trace.SpanContext {
	_, whole := e.Payload.(*observability.Operation)
	switch {
	case !whole && l.detached.at(e.Operation):
		return w.root.WithSpanID(spanID("operation", e.Operation))
	case task != "":
		return w.root.WithSpanID(taskSpan(workOf(e), task))
	}
	return w.root
}

// childContext returns the context in which a span with an id starts below a parent.
func childContext(parent trace.SpanContext, id trace.SpanID) context.Context {
	ctx := withIDs(context.Background(), ids{trace: parent.TraceID(), span: id})
	return trace.ContextWithSpanContext(ctx, parent)
}

// taskSpan returns the id of the span of a task.
func taskSpan(key, task string) trace.SpanID { return spanID("task", key, task) }

// requesterOf returns the task that requested the task of an event, "" if the conversation did.
func requesterOf(e *observability.Event) string {
	task, ok := strings.CutPrefix(e.ParentSession, taskSession)
	if !ok {
		return ""
	}
	return task
}

// callerOf parses a W3C trace context. The result is invalid if the parent is.
func callerOf(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": parent}
	if len(state) <= maxTraceState {
		carrier["tracestate"] = state
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}

// ids are the ids of the next span.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

func withIDs(ctx context.Context, i ids) context.Context { return context.WithValue(ctx, idsKey{}, i) }

// generator returns the ids in the context of a span's start.
type generator struct{}

// NewIDs implements the SDK's IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	i := ctx.Value(idsKey{}).(ids)
	return i.trace, i.span
}

// NewSpanID implements the SDK's IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(idsKey{}).(ids).span
}

func traceID(key string) (id trace.TraceID) {
	copy(id[:], digest("trace", key))
	if !id.IsValid() {
		id[0] = 1
	}
	return id
}

func spanID(parts ...string) (id trace.SpanID) {
	copy(id[:], digest("span", parts...))
	if !id.IsValid() {
		id[0] = 1
	}
	return id
}

func digest(kind string, parts ...string) []byte {
	sum := sha256.Sum256([]byte("parley\x00" + kind + "\x00" + strings.Join(parts, "\x00")))
	return sum[:]
}
