package observability

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parleyrun/parley/internal/contain"
)

// Callbacks is a sink of functions, one per type of event, each of which may be nil. They are called
// sequentially, in order. They may keep the envelope; the payload is read-only. A function that panics
// or does not return is logged, and the others are still called.
type Callbacks struct {
	// Any is called for every event, before the function of its type.
	Any func(Event)

	SubmissionQueued   func(*Envelope, *SubmissionQueued)
	SubmissionRunning  func(*Envelope, *SubmissionRunning)
	SubmissionRecovery func(*Envelope, *SubmissionRecovery)
	SubmissionSettled  func(*Envelope, *SubmissionSettled)
	OperationStart     func(*Envelope, *OperationStart)
	Operation          func(*Envelope, *Operation)
	AgentStart         func(*Envelope, *AgentStart)
	AgentEnd           func(*Envelope, *AgentEnd)
	Idle               func(*Envelope, *Idle)
	TurnStart          func(*Envelope, *TurnStart)
	TurnRequest        func(*Envelope, *TurnRequest)
	Turn               func(*Envelope, *Turn)
	TurnMessages       func(*Envelope, *TurnMessages)
	MessageStart       func(*Envelope, *MessageStart)
	MessageEnd         func(*Envelope, *MessageEnd)
	TextDelta          func(*Envelope, *TextDelta)
	ThinkingStart      func(*Envelope, *ThinkingStart)
	ThinkingDelta      func(*Envelope, *ThinkingDelta)
	ThinkingEnd        func(*Envelope, *ThinkingEnd)
	ToolcallDelta      func(*Envelope, *ToolcallDelta)
	ToolStart          func(*Envelope, *ToolStart)
	Tool               func(*Envelope, *Tool)
	WaitStart          func(*Envelope, *WaitStart)
	Wait               func(*Envelope, *Wait)
	Post               func(*Envelope, *Post)
	TaskStart          func(*Envelope, *TaskStart)
	Task               func(*Envelope, *Task)
	CompactionStart    func(*Envelope, *CompactionStart)
	Compaction         func(*Envelope, *Compaction)
	Log                func(*Envelope, *Log)

	// Logger logs panics. Nil discards.
	Logger *slog.Logger
}

// Name implements [Sink].
func (*Callbacks) Name() string { return "observer" }

// Write implements [Sink]. It fails only if the context has ended before it starts: functions cannot
// be interrupted, and must not see events twice.
func (o *Callbacks) Write(ctx context.Context, events []Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("observe events: %w", err)
	}
	for i := range events {
		if o.Any != nil {
			o.contain(&events[i], func() { o.Any(events[i]) })
		}
		o.observe(&events[i])
	}
	return nil
}

func (o *Callbacks) observe(e *Event) {
	switch p := e.Payload.(type) {
	case *SubmissionQueued:
		call(o, o.SubmissionQueued, e, p)
	case *SubmissionRunning:
		call(o, o.SubmissionRunning, e, p)
	case *SubmissionRecovery:
		call(o, o.SubmissionRecovery, e, p)
	case *SubmissionSettled:
		call(o, o.SubmissionSettled, e, p)
	case *OperationStart:
		call(o, o.OperationStart, e, p)
	case *Operation:
		call(o, o.Operation, e, p)
	case *AgentStart:
		call(o, o.AgentStart, e, p)
	case *AgentEnd:
		call(o, o.AgentEnd, e, p)
	case *Idle:
		call(o, o.Idle, e, p)
	case *TurnStart:
		call(o, o.TurnStart, e, p)
	case *TurnRequest:
		call(o, o.TurnRequest, e, p)
	case *Turn:
		call(o, o.Turn, e, p)
	case *TurnMessages:
		call(o, o.TurnMessages, e, p)
	case *MessageStart:
		call(o, o.MessageStart, e, p)
	case *MessageEnd:
		call(o, o.MessageEnd, e, p)
	case *TextDelta:
		call(o, o.TextDelta, e, p)
	case *ThinkingStart:
		call(o, o.ThinkingStart, e, p)
	case *ThinkingDelta:
		call(o, o.ThinkingDelta, e, p)
	case *ThinkingEnd:
		call(o, o.ThinkingEnd, e, p)
	case *ToolcallDelta:
		call(o, o.ToolcallDelta, e, p)
	case *ToolStart:
		call(o, o.ToolStart, e, p)
	case *Tool:
		call(o, o.Tool, e, p)
	case *WaitStart:
		call(o, o.WaitStart, e, p)
	case *Wait:
		call(o, o.Wait, e, p)
	case *Post:
		call(o, o.Post, e, p)
	case *TaskStart:
		call(o, o.TaskStart, e, p)
	case *Task:
		call(o, o.Task, e, p)
	case *CompactionStart:
		call(o, o.CompactionStart, e, p)
	case *Compaction:
		call(o, o.Compaction, e, p)
	case *Log:
		call(o, o.Log, e, p)
	}
}

// call passes a copy of the envelope, because the slice of events is valid only during the Write.
func call[P Payload](o *Callbacks, f func(*Envelope, P), e *Event, p P) {
	if f == nil {
		return
	}
	env := e.Envelope
	o.contain(e, func() { f(&env, p) })
}

func (o *Callbacks) contain(e *Event, f func()) {
	err := contain.Run("observer", func() error { f(); return nil })
	if err == nil || o.Logger == nil {
		return
	}
	log := contain.Logger(o.Logger).With("event", e.ID, "type", e.Type)
	var crash *contain.PanicError
	if errors.As(err, &crash) {
		log.Error("observer panicked", "err", crash.Value, "stack", string(crash.Stack))
		return
	}
	log.Error("observer failed", "err", err)
}
