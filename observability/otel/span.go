package otel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// maxText bounds a string attribute that is not content, in bytes.
const maxText = 1_024

// draft describes a span to be created.
type draft struct {
	name  string
	kind  trace.SpanKind
	ctx   context.Context // has its ids and its parent
	ms    int64
	attrs []attribute.KeyValue
	err   *observability.Error // nil for success
}

// draftOf returns the span that an event ends, false if there is none.
func (l *lineage) draftOf(e *observability.Event) (draft, bool) {
	d := draft{kind: trace.SpanKindInternal}
	task := e.Task
	id := spanID("event", e.ID)
	switch p := e.Payload.(type) {
	case *observability.Operation:
		switch {
		case e.Task != "" && p.Kind != observability.OperationCompact:
			return d, false // the event task has more fields, above all the agent's name
		case e.Task == "" && (p.Kind != observability.OperationCompact || e.Submission == ""):
			return l.root(e, p), true
		}
		id = spanID("operation", e.Operation)
		d.operation(e, p)
	case *observability.Turn:
		d.turn(p)
	case *observability.Tool:
		if p.ToolName == conversation.TaskTool {
			return d, false
		}
		d.tool(p)
	case *observability.Wait:
		d.wait(p)
	case *observability.Post:
		d.post(p)
	case *observability.Task:
		task, id = requesterOf(e), taskSpan(workOf(e), e.Task)
		d.task(p)
	case *observability.Compaction:
		d.compaction(p)
	default:
		return d, false
	}
	w := l.of(e)
	d.err = failure(e)
	d.ctx = childContext(l.parentOf(e, task, w), id)
	d.common(e, w)
	return d, true
}

// root returns the span of an operation, which is the root of its trace or the child of the caller's
// span.
func (l *lineage) root(e *observability.Event, p *observability.Operation) draft {
	d := draft{kind: trace.SpanKindInternal, err: failure(e)}
	d.operation(e, p)
	w := l.of(e)
	if w.began != 0 && p.Kind != observability.OperationCompact {
		// Its duration is the time of its attempts; include crashes and pauses between them.
		d.ms = max(d.ms, int64(e.At-w.began))
	}
	d.ctx = l.rootContext(workOf(e), w)
	d.common(e, w)
	return d
}

func (d *draft) operation(e *observability.Event, p *observability.Operation) {
	d.name, d.ms = strings.TrimSpace(spanAgent+" "+short(e.Agent, maxText)), p.DurationMs
	if p.Kind == observability.OperationCompact {
		d.name = spanOperation + " " + p.Kind
	} else {
		d.text(keyOperation, spanAgent)
	}
	d.text(keyOperationKind, p.Kind)
	d.text(keyAgent, e.Agent)
	d.usage(p.Usage)
}

func (d *draft) turn(p *observability.Turn) {
	d.name, d.kind, d.ms = strings.TrimSpace(spanChat+" "+short(p.Request.Model, maxText)), trace.SpanKindClient, p.DurationMs
	d.attrs = append(d.attrs, modelAttributes(p)...)
	d.text(keyReasoningLevel, p.Request.Reasoning)
	d.text(keyResponseID, p.Response.ID)
	d.text(keyPurpose, p.Purpose)
	if reason := finishReason(p.Response.FinishReason); reason != "" {
		d.attrs = append(d.attrs, attribute.StringSlice(keyFinishReasons, []string{short(reason, maxText)}))
	}
	if p.Request.Compacted {
		d.attrs = append(d.attrs, attribute.Bool(keyCompacted, true))
	}
	if p.FirstTokenMs > 0 {
		d.attrs = append(d.attrs, attribute.Float64(keyFirstToken, seconds(p.FirstTokenMs)))
	}
	if p.CutOff() {
		d.text(keyCutOff, p.Response.FinishReason)
	}
	if p.Dropped {
		d.attrs = append(d.attrs, attribute.Bool(keyDropped, true))
	}
	d.number(keyRetries, int64(p.Retries))
	d.usage(p.Response.Usage)
}

func (d *draft) tool(p *observability.Tool) {
	d.name, d.ms = strings.TrimSpace(spanTool+" "+short(p.ToolName, maxText)), p.DurationMs
	d.text(keyOperation, spanTool)
	d.text(keyToolName, p.ToolName)
	d.text(keyToolType, toolFunction)
	d.text(keyToolCall, string(p.ToolCallID))
}

func (d *draft) wait(p *observability.Wait) {
	d.name, d.ms = spanWait, p.DurationMs
	d.text(keyWait, p.Name)
	d.text(keyWaitReason, p.Reason)
	d.text(keyWaitSignal, string(p.Signal))
	d.text(keyToolName, p.ToolName)
	d.text(keyToolCall, string(p.ToolCallID))
}

func (d *draft) post(p *observability.Post) {
	d.name, d.ms = spanPost, p.DurationMs
	d.text(keyPost, string(p.PostID))
	d.text(keyPostTarget, p.Target)
	d.text(keyPostOutcome, p.Outcome)
}

func (d *draft) task(p *observability.Task) {
	d.name, d.ms = strings.TrimSpace(spanAgent+" "+short(p.Agent, maxText)), p.DurationMs
	d.text(keyOperation, spanAgent)
	d.text(keyAgent, p.Agent)
	d.text(keyToolCall, string(p.ToolCallID))
	d.text(keyTaskOutcome, p.Outcome)
	d.usage(p.Usage)
}

func (d *draft) compaction(p *observability.Compaction) {
	d.name, d.ms = spanCompaction, p.DurationMs
	d.attrs = append(d.attrs,
		attribute.Int(keyMessagesBefore, p.MessagesBefore), attribute.Int(keyMessagesAfter, p.MessagesAfter))
	d.usage(p.Usage)
}

// common adds the attributes of every span.
func (d *draft) common(e *observability.Event, w work) {
	d.text(keySubmission, string(e.Submission))
	d.number(keyAttempt, int64(w.attempt))
	d.text(keyInstance, e.Instance)
	d.text(keyConversation, string(e.Conversation))
	d.text(keySession, e.Session)
	d.text(keyOperationID, e.Operation)
	d.text(keyTurn, string(e.Turn))
	d.text(keyTask, e.Task)
	d.text(keyEvent, e.ID)
	if d.err != nil {
		d.text(keyError, d.err.Type)
	}
}

func (d *draft) usage(u *observability.Usage) {
	if u == nil {
		return
	}
	d.attrs = append(d.attrs,
		attribute.Int64(keyInputTokens, u.Input+u.CacheRead+u.CacheWrite), attribute.Int64(keyOutputTokens, u.Output),
		attribute.Int64(keyCacheRead, u.CacheRead), attribute.Int64(keyCacheCreation, u.CacheWrite),
		attribute.Int64(keyTotalTokens, u.Total), attribute.Float64(keyCost, u.Cost.Total))
	d.number(keyReasoning, u.Reasoning)
}

func (d *draft) text(key, value string) {
	if value != "" {
		d.attrs = append(d.attrs, attribute.String(key, short(value, maxText)))
	}
}

func (d *draft) number(key string, value int64) {
	if value != 0 {
		d.attrs = append(d.attrs, attribute.Int64(key, value))
	}
}

// end creates the span, whose end is the time of the event.
func (d *draft) end(t trace.Tracer, at conversation.Time) {
	end := time.UnixMilli(int64(at))
	start := end.Add(-time.Duration(max(d.ms, 0)) * time.Millisecond)
	_, span := t.Start(d.ctx, d.name, trace.WithSpanKind(d.kind), trace.WithTimestamp(start), trace.WithAttributes(d.attrs...))
	if d.err != nil {
		span.SetStatus(codes.Error, short(d.err.Message, maxText))
	}
	span.End(trace.WithTimestamp(end))
}

// modelAttributes returns the requested and the answering model.
func modelAttributes(p *observability.Turn) []attribute.KeyValue {
	provider := p.Request.ProviderName
	if provider == "" {
		provider = p.Request.Provider
	}
	var d draft
	d.text(keyOperation, spanChat)
	d.text(keyProvider, provider)
	d.text(keyRequestModel, p.Request.Model)
	d.text(keyResponseModel, p.Response.Model)
	d.text(keyServer, p.Request.Server)
	if p.Request.Server != "" {
		d.number(keyPort, int64(p.Request.Port))
	}
	return d.attrs
}

// finishReason maps a reason to the conventions.
func finishReason(reason string) string {
	switch reason {
	case "toolUse":
		return "tool_call"
	case "aborted", conversation.ReasonInterrupted, conversation.ReasonHandover:
		return "error" // The conventions have no other value for them.
	}
	return reason
}

// failure returns the error of an event, nil for success. Its type is never empty.
func failure(e *observability.Event) *observability.Error {
	switch p := e.Payload.(type) {
	case *observability.Operation:
		return failed(p.IsError, p.Error, "")
	case *observability.Turn:
		return failed(p.IsError && !p.CutOff(), p.Response.Error, "")
	case *observability.Tool:
		return failed(p.IsError, nil, toolError)
	case *observability.Task:
		kind := p.Outcome
		if kind == "completed" {
			kind = ""
		}
		return failed(p.IsError, nil, kind)
	case *observability.Compaction:
		return failed(p.IsError, p.Error, "")
	case *observability.SubmissionSettled:
		return failed(p.Error != nil, p.Error, "")
	}
	return nil
}

func failed(isError bool, err *observability.Error, kind string) *observability.Error {
	if !isError {
		return nil
	}
	if kind == "" {
		kind = otherError
	}
	if err == nil {
		return &observability.Error{Type: kind}
	}
	if err.Type == "" {
		return &observability.Error{Type: kind, Message: err.Message}
	}
	return err
}

// short returns valid UTF-8 of at most limit bytes, because exporters reject other text.
func short(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }
