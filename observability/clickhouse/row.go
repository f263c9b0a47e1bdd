package clickhouse

import (
	"fmt"
	"math"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// row is an event in the table: columns for queries, and the unchanged payload.
type row struct {
	*observability.Envelope
	payload string
	end     int // end of the payload in those of all rows
	traceID string

	kind, messageKind, outcome, reason, purpose, recovery, level string
	isError                                                      bool
	errorType, errorMessage                                      string

	attempt, maxAttempts, retries int
	recovered, fenced, dropped    bool

	// Nil if unknown, or if events of the type have none.
	durationMs, workMs, totalMs, admissionMs, queuedMs, firstTokenMs *int64

	provider, model, responseModel, api, finishReason string
	usage                                             observability.Usage

	tool, toolCall, taskAgent     string
	messagesBefore, messagesAfter int
	estimatedTokens               int64
	bytes                         int
}

// fillRows converts events, to which rows keep pointers. It returns buf for reuse with the next
// payloads.
func fillRows(rows []row, events []observability.Event, enc *observability.Encoder, buf []byte) ([]byte, error) {
	buf = buf[:0]
	for i := range events {
		e, r := &events[i], &rows[i]
		if e.Payload == nil || e.Payload.EventType() != e.Type {
			return buf, fmt.Errorf("store event %s: its payload is not of type %q", e.ID, e.Type)
		}
		var err error
		if buf, err = enc.AppendPayload(buf, e.Payload); err != nil {
			return buf, fmt.Errorf("store event %s: %w", e.ID, err)
		}
		*r = row{Envelope: &e.Envelope, end: len(buf)}
		// Events of other types have only their payload.
		r.submission(e.Payload)
		r.work(e.Payload)
		r.message(e.Payload)
	}
	// One string for all payloads, because most are short.
	text, begin := string(buf), 0
	for i := range events {
		rows[i].payload, begin = text[begin:rows[i].end], rows[i].end
	}
	return buf, nil
}

// brief reports whether the columns of brief inserts hold events of a type completely. Nearly all live
// events are of such types.
func brief(t observability.Type) bool {
	switch t {
	case observability.TypeTurnRequest, observability.TypeTurnMessages, observability.TypeMessageStart, observability.TypeMessageEnd,
		observability.TypeTextDelta, observability.TypeThinkingStart, observability.TypeThinkingDelta, observability.TypeThinkingEnd,
		observability.TypeToolcallDelta, observability.TypeLog:
		return true
	}
	return false
}

func (r *row) submission(p observability.Payload) {
	switch p := p.(type) {
	case *observability.SubmissionQueued:
		r.kind, r.messageKind, r.traceID = p.Kind, p.MessageKind, traceID(p.Traceparent)
		r.content(p.Body)
	case *observability.SubmissionRunning:
		r.kind, r.traceID = p.Kind, traceID(p.Traceparent)
		r.attempt, r.maxAttempts, r.recovered = p.Attempt, p.MaxAttempts, p.Recovered
		if !p.Resumed {
			r.queuedMs = &p.QueuedMs
		}
	case *observability.SubmissionRecovery:
		r.recovery, r.outcome, r.fenced = p.Operation, p.Outcome, p.Fenced
		r.attempt, r.maxAttempts = p.Attempt, p.MaxAttempts
		r.failed(p.Error)
	case *observability.SubmissionSettled:
		r.kind, r.outcome, r.attempt = p.Kind, p.Outcome, p.Attempt
		r.workMs, r.totalMs, r.admissionMs = &p.WorkMs, &p.TotalMs, known(&p.AdmissionMs)
		r.failed(p.Error)
	}
}

func (r *row) work(p observability.Payload) {
	switch p := p.(type) {
	case *observability.OperationStart:
		r.kind = p.Kind
	case *observability.Operation:
		r.kind, r.durationMs, r.isError = p.Kind, &p.DurationMs, p.IsError
		r.failed(p.Error)
		r.used(p.Usage)
	case *observability.AgentStart:
		r.attempt = p.Attempt
	case *observability.AgentEnd:
		r.reason, r.durationMs = p.Reason, known(&p.DurationMs)
	case *observability.TurnStart:
		r.purpose = p.Purpose
		// Model is "provider/model", and model names may contain slashes.
		r.provider, r.model, _ = strings.Cut(p.Model, "/")
	case *observability.TurnRequest:
		r.purpose, r.bytes = p.Purpose, p.Request.InputBytes
		r.asked(&p.Request)
	case *observability.Turn:
		r.purpose, r.isError, r.dropped, r.retries = p.Purpose, p.IsError, p.Dropped, p.Retries
		r.durationMs, r.firstTokenMs = &p.DurationMs, known(&p.FirstTokenMs)
		r.asked(&p.Request)
		r.responseModel, r.finishReason = p.Response.Model, p.Response.FinishReason
		r.failed(p.Response.Error)
		r.used(p.Response.Usage)
	case *observability.ToolStart:
		r.tool, r.toolCall = p.ToolName, string(p.ToolCallID)
		r.content(p.Args)
	case *observability.Tool:
		r.tool, r.toolCall, r.isError, r.durationMs = p.ToolName, string(p.ToolCallID), p.IsError, &p.DurationMs
		r.content(p.Result)
	case *observability.WaitStart:
		r.tool, r.toolCall = p.ToolName, string(p.ToolCallID)
	case *observability.Wait:
		r.tool, r.toolCall, r.reason, r.durationMs = p.ToolName, string(p.ToolCallID), p.Reason, &p.DurationMs
	case *observability.Post:
		r.outcome, r.isError, r.durationMs, r.retries = p.Outcome, p.Outcome != observability.PostDelivered, &p.DurationMs, p.Attempts-1
	case *observability.TaskStart:
		r.taskAgent, r.toolCall = p.Agent, string(p.ToolCallID)
		r.content(p.Prompt)
	case *observability.Task:
		r.taskAgent, r.toolCall, r.outcome = p.Agent, string(p.ToolCallID), p.Outcome
		r.isError, r.durationMs = p.IsError, &p.DurationMs
		r.used(p.Usage)
	case *observability.CompactionStart:
		r.reason, r.estimatedTokens = p.Reason, p.EstimatedTokens
	case *observability.Compaction:
		r.reason = p.Reason
		r.messagesBefore, r.messagesAfter = p.MessagesBefore, p.MessagesAfter
		r.isError, r.durationMs = p.IsError, &p.DurationMs
		r.failed(p.Error)
		r.used(p.Usage)
	}
}

func (r *row) message(p observability.Payload) {
	switch p := p.(type) {
	case *observability.TurnMessages:
		r.purpose = p.Purpose
		r.addMessage(&p.Message)
	case *observability.MessageStart:
		r.addMessage(&p.Message)
	case *observability.MessageEnd:
		r.addMessage(&p.Message)
	case *observability.TextDelta:
		r.bytes = p.Bytes
	case *observability.ThinkingDelta:
		r.bytes = p.Bytes
	case *observability.ThinkingEnd:
		r.bytes = p.Bytes
	case *observability.ToolcallDelta:
		r.tool, r.toolCall, r.bytes = p.ToolName, p.ToolCallID, p.Bytes
	case *observability.Log:
		r.level = p.Level
	}
}

func (r *row) failed(e *observability.Error) {
	if e != nil {
		r.errorType, r.errorMessage = e.Type, e.Message
	}
}

func (r *row) used(u *observability.Usage) {
	if u != nil {
		r.usage = *u
	}
}

func (r *row) asked(q *observability.ModelRequest) {
	r.provider, r.model, r.api = q.Provider, q.Model, q.API
}

func (r *row) addMessage(m *observability.Message) {
	r.kind, r.tool, r.toolCall, r.isError, r.bytes = m.Role, m.ToolName, m.ToolCallID, m.IsError, m.Bytes
}

func (r *row) content(c *observability.Content) {
	if c != nil {
		r.bytes = c.Bytes
	}
}

// known returns nil for a duration of 0, which is unknown.
func known(ms *int64) *int64 {
	if *ms == 0 {
		return nil
	}
	return ms
}

// traceID returns the trace id of a W3C traceparent, "" if it is invalid.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// Range of the server's hours.
const (
	firstMoment conversation.Time = 0
	lastMoment  conversation.Time = 4291747199999 // 2105-12-31T23:59:59.999Z
)

func stored(t conversation.Time) int64 { return int64(min(max(t, firstMoment), lastMoment)) }

// day returns the partition of a time.
func day(t conversation.Time) int64 { return stored(t) / (24 * 60 * 60 * 1000) }

// count32 clamps a count to its column.
func count32(n int) uint32   { return uint32(min(max(n, 0), math.MaxUint32)) }
func count64(n int64) uint64 { return uint64(max(n, 0)) }
