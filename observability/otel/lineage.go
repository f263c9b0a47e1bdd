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

// maxTraceState is the longest tracestate that is passed on, in bytes.
const maxTraceState = 512

// taskSession is how the session of a subagent begins; its task id follows.
const taskSession = "task:"

// work is what is known of one submission, or of what runs without one.
type work struct {
	caller  trace.SpanContext // of the traceparent, invalid if there is none
	root    trace.SpanContext // of the operation's span, invalid until it is needed
	began   conversation.Time // the operation, 0 if that was not seen
	attempt int               // the last that began, 0 if none was seen
}

// lineage knows which trace and which parent a span has.
type lineage struct {
	tracer trace.Tracer
	works  *recent[string, work]
	// detached are the compactions that are operations of their own, by the operation. The
	// events of one are of one batch.
	detached *recent[string, bool]
}

// maxDetached is how many of them are remembered.
const maxDetached = 256

// workOf names what an event belongs to.
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

// learn takes what an event says about its submission. The first trace context holds.
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

// of returns what is known of the work of an event, with the context of its operation.
func (l *lineage) of(e *observability.Event) work {
	key := workOf(e)
	w := l.works.at(key)
	if w.root.IsValid() {
		return w
	}
	// The sampler decides by the operation's span, which may be made last and on another
	// node. So a span of the same ids is begun here, for its flags, and thrown away.
	_, span := l.tracer.Start(l.rootContext(key, w), spanAgent)
	w.root = span.SpanContext()
	l.works.put(key, w)
	return w
}

// rootContext is the context in which the operation's span begins.
func (l *lineage) rootContext(key string, w work) context.Context {
	ctx := withIDs(context.Background(), ids{trace: traceID(key), span: spanID("operation", key)})
	if w.caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, w.caller)
	}
	return ctx
}

// parentOf is what the span of an event belongs to: the operation of the submission, the
// task if it is not empty, or a compaction that is an operation of its own.
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

// childContext is the context in which the span of an id begins below a parent.
func childContext(parent trace.SpanContext, id trace.SpanID) context.Context {
	ctx := withIDs(context.Background(), ids{trace: parent.TraceID(), span: id})
	return trace.ContextWithSpanContext(ctx, parent)
}

// taskSpan returns the id of the span of a task.
func taskSpan(key, task string) trace.SpanID { return spanID("task", key, task) }

// requesterOf returns the task that has asked for the task of an event, "" if the
// conversation itself did.
func requesterOf(e *observability.Event) string {
	task, ok := strings.CutPrefix(e.ParentSession, taskSession)
	if !ok {
		return ""
	}
	return task
}

// callerOf reads a W3C trace context. The result is invalid if the parent is.
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

// ids are those that the next span gets.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

func withIDs(ctx context.Context, i ids) context.Context { return context.WithValue(ctx, idsKey{}, i) }

// generator gives a span the ids that stand in the context of its start.
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
