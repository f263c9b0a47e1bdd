package agenthost

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
)

// WithCall returns a context with the facts of a call, for [agent.CallFrom]. [agent.Tool.Run] requires
// it.
func WithCall(ctx context.Context, c agent.Call) context.Context {
	return withInitialData(context.WithValue(ctx, seam.Call{}, c), c.InitialData)
}

// WithResumed returns the context of a call that may have run before: new fields of its input get
// their zero value.
func WithResumed(ctx context.Context) context.Context {
	return context.WithValue(ctx, seam.Resumed{}, true)
}

// withInitialData returns a context from which [agent.InitialData] reads raw.
func withInitialData(ctx context.Context, raw json.RawMessage) context.Context {
	return context.WithValue(ctx, seam.InitialData{}, raw)
}

// WithData returns a context in which data writers call write.
func WithData(ctx context.Context, write func(ctx context.Context, name string, data json.RawMessage) error) context.Context {
	return context.WithValue(ctx, seam.Data{}, write)
}

// WithRoom returns a context in which a tool calls wait after its function has returned a value of
// about size bytes. The value is encoded after wait returns, and done is called after that. An error
// of wait is that of the call.
func WithRoom(ctx context.Context, wait func(size int64) (done func(), err error)) context.Context {
	return context.WithValue(ctx, seam.Room{}, wait)
}

// Dispatcher admits the messages of tools and hooks. Every [conversation.Dispatcher] is one.
// Implementations are safe for concurrent use.
type Dispatcher interface {
	// Admit admits a delivery durably.
	Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error)
}

// WithDispatcher returns a context in which [agent.Dispatch] sends through d.
func WithDispatcher(ctx context.Context, d Dispatcher) context.Context {
	return context.WithValue(ctx, seam.Dispatcher{}, d)
}

// WithLog returns a context in which [agent.Log] calls log, which must not block. Attributes are
// copies of the JSON types nil, bool, int64, uint64, float64, string, []any and map[string]any.
func WithLog(ctx context.Context, log func(level slog.Level, message string, attributes map[string]any)) context.Context {
	return context.WithValue(ctx, seam.Log{}, log)
}

// Store stores the state of one conversation. Implementations are safe for concurrent use.
type Store interface {
	// Get returns the JSON stored under a name and whether it exists. The bytes are shared and must
	// not be changed.
	Get(name string) (json.RawMessage, bool, error)
	// Update calls fn once with the stored value, nil for none, while no other Update of the
	// conversation runs, and stores its result: JSON to store, the value null to remove, nil to leave
	// the value unchanged. An error of fn is returned unchanged and nothing is stored. A panic of fn
	// passes through and leaves the store usable.
	//
	// The context identifies the writer: the write of a call ([agent.CallFrom]) becomes durable in the
	// batch with its outcome, not before. The reason is that a durable tool that runs again writes
	// again.
	Update(ctx context.Context, name string, fn func(old json.RawMessage) (json.RawMessage, error)) error
}

// WithState returns a context with a store of state. Tools, hooks and [SetupFor] require it.
func WithState(ctx context.Context, s Store) context.Context {
	return context.WithValue(ctx, seam.State{}, s)
}

// StepRecorder records the steps of one call. If it is also a [Suspender] or a [Clock], it decides about
// sleeps; if it is a [Waiter], calls may wait for signals. Implementations are safe for concurrent
// use.
type StepRecorder interface {
	// Recorded returns the result of a step that this or an earlier run of the call recorded, and
	// whether there is one. The bytes are shared and must not be changed.
	Recorded(name string) (json.RawMessage, bool)
	// Record makes a result durable before it returns. The context has the call's values but not the
	// tool's limit; the recorder ends with its run. After an error the result may be durable.
	Record(ctx context.Context, name string, output json.RawMessage) error
}

// Suspender is a [StepRecorder] that can suspend a call while it sleeps. Without it every sleep blocks.
type Suspender interface {
	// Suspend reports whether the run of the call must end because it would sleep until a time, which
	// has a monotonic reading. If not, the sleep blocks.
	Suspend(until time.Time) bool
}

// Clock is a [StepRecorder] with a clock for sleeps. Without it they use the wall clock of the
// machine.
type Clock interface {
	Now() time.Time
}

// Waiting is a wait of a call: for a signal of a name whose value fits a schema, until a time, which
// has a monotonic reading.
type Waiting = seam.Waiting

// Waiter is a [StepRecorder] with which a call waits for signals. Without it [agent.Wait] fails.
type Waiter interface {
	// Wait returns the value of the signal that ended the wait, in this or an earlier run of the call.
	// The error is [agent.ErrWaitTimeout]; [agent.ErrSuspended] if the run of the call must end; or
	// the reason why it cannot wait. The schema and the time of the first run apply.
	Wait(ctx context.Context, w Waiting) (json.RawMessage, error)
}

// Asker is a [StepRecorder] with which a call asks other conversations. Without it [agent.Ask] fails.
type Asker interface {
	// Ask admits a delivery whose reply resolves a wait of the call. The error is that of
	// [Dispatcher.Admit], or [agent.ErrSuspended] if the run of the call must end.
	Ask(ctx context.Context, a conversation.Admission) (conversation.Receipt, error)
}

// Posting is a post of a call. Step is the step of a durable call that is recorded with it, under any
// result; empty for none.
type Posting = seam.Posting

// Poster enqueues the posts of calls. Implementations are safe for concurrent use.
type Poster interface {
	// Post makes a post durable unless its id exists. The error is [agent.ErrOutboxFull],
	// [agent.ErrSuspended] if the run of the call must end, or any other.
	Post(ctx context.Context, p Posting) error
}

// WithPoster returns a context in which [agent.Post] posts through p.
func WithPoster(ctx context.Context, p Poster) context.Context {
	return context.WithValue(ctx, seam.Poster{}, p)
}

// FitSignal decodes the body of a signal for the schema of a wait: as JSON, or else as a text. The
// error is that of [agent.Schema.Validate], or reports an invalid schema.
func FitSignal(ctx context.Context, schema json.RawMessage, body string) (json.RawMessage, error) {
	s, err := agent.NewSchema(schema)
	if err != nil {
		return nil, err
	}
	text, err := conversation.EncodeJSON(body)
	if err != nil {
		return nil, err
	}
	value := json.RawMessage(body)
	if !json.Valid(value) {
		return text, s.Validate(ctx, text)
	}
	err = s.Validate(ctx, value)
	var unfit *agent.SchemaError
	if errors.As(err, &unfit) && s.Validate(ctx, text) == nil {
		return text, nil
	}
	return value, err
}

// WithSteps returns a context in which [agent.Step] records to r. Each run of a durable tool's call
// needs its own.
func WithSteps(ctx context.Context, r StepRecorder) context.Context {
	return context.WithValue(ctx, seam.Steps{}, &seam.Run{Recorder: r})
}
