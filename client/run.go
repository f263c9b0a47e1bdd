package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Runs are the workflows of a server, and their runs. It is safe for concurrent use.
type Runs struct{ c *Conversation }

// NewRuns returns the workflows at a URL below which "/workflows/<name>" and "/runs/<id>" are: that of the server, or of
// its beta line. Nothing is requested yet.
func NewRuns(rawURL string, o *Options) (*Runs, error) {
	at, err := parse(rawURL, "server")
	if err != nil {
		return nil, fmt.Errorf("%w; the URL of a server looks like http://127.0.0.1:5173", err)
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Runs{&Conversation{at: at, opts: opts}}, nil
}

// BeginOptions are the optional facts of a run that begins. Nil means the defaults.
type BeginOptions struct {
	// Key makes the run safe to begin again: the same key of a workflow is the same run, for as long as its log is there. It
	// is 1 to 256 characters of printable ASCII, without a space at either end. Empty means a fresh one.
	Key string
}

// Begun says that a run has begun, now or before.
type Begun struct {
	RunID conversation.RunID `json:"runId"`
	// StreamURL is where the server says the events of the run are, and Offset where they begin.
	StreamURL string              `json:"streamUrl"`
	Offset    conversation.Offset `json:"offset"`
	// Key is the idempotency key that the run began under. The server does not repeat it, so it is not part of the JSON form.
	Key string `json:"-"`
}

// Begin begins a run of a workflow with an input, which is encoded as JSON: when it returns without an error, the run is
// durable and will end once. It is asked for again, under the same key, while its outcome is in doubt.
//
// Errors are those of [Conversation.Send]: an [*Error] says workflow_not_found, invalid_request for an input that does not
// fit, or submission_conflict for a key that began a run with another one.
func (r *Runs) Begin(ctx context.Context, workflow string, input any, o *BeginOptions) (Begun, error) {
	begun := Begun{Key: rand.Text()}
	if o != nil && o.Key != "" {
		begun.Key = o.Key
	}
	at, body, err := r.invocation(workflow, begun.Key, input)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Begun{}, fmt.Errorf("begin workflow %q: %w", workflow, err)
	}
	err = r.c.deliver(ctx, begun.Key, func() error {
		a, err := r.c.do(ctx, request{
			method: http.MethodPost, url: at, accept: "application/json", body: body, key: begun.Key, silence: r.c.opts.AnswerWithin,
		})
		if err == nil {
			err = a.decode(&begun, r.c.opts.MaxAnswerBytes)
		}
		if err == nil && !begun.RunID.Valid() {
			err = badAnswer("it names no run")
		}
		return err
	})
	if err != nil {
		return Begun{}, fmt.Errorf("begin workflow %q at %s: %w", workflow, r.c.name(), err)
	}
	return begun, nil
}

// invocation is what begins a run.
func (r *Runs) invocation(workflow, key string, input any) (at string, body *payload, err error) {
	printable := !strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' })
	if len(key) > 256 || !printable || strings.TrimSpace(key) != key {
		return "", nil, errors.New("the key is not 1 to 256 characters of printable ASCII, without a space at either end")
	}
	if workflow == "" {
		return "", nil, errors.New("the workflow has no name")
	}
	raw, err := conversation.EncodeJSON(input)
	if err != nil {
		return "", nil, fmt.Errorf("encode input: %w", err)
	}
	body, err = compose(raw, nil)
	return JoinID(r.c.below("/workflows"), workflow), body, err
}

// Run returns a run by its id. Nothing is requested yet.
func (r *Runs) Run(id conversation.RunID) *Run {
	at := withPath(r.c.at, r.c.at.EscapedPath()+"/runs/"+url.PathEscape(string(id)))
	return &Run{id: id, c: &Conversation{at: at, opts: r.c.opts}}
}

// Run is a run of a workflow. It is safe for concurrent use.
type Run struct {
	id conversation.RunID
	c  *Conversation
}

// ID returns the id of the run.
func (r *Run) ID() conversation.RunID { return r.id }

// URL returns where the run is.
func (r *Run) URL() string { return r.c.URL() }

// RunState is how a run stands.
type RunState string

// The states of a run. The last three are for good.
const (
	RunActive    RunState = "active"
	RunCompleted RunState = "completed"
	RunErrored   RunState = "errored"
	RunAborted   RunState = "aborted"
)

// RunStatus is what a server says of a run.
type RunStatus struct {
	ID       conversation.RunID `json:"runId"`
	Workflow string             `json:"workflowName"`
	State    RunState           `json:"status"`
	// Input is that of the run, and Result what its function has returned, nil unless it is completed.
	Input     json.RawMessage   `json:"input,omitempty"`
	Result    json.RawMessage   `json:"result,omitempty"`
	StartedAt conversation.Time `json:"startedAt"`
	// EndedAt and DurationMs are 0 as long as the run goes on.
	EndedAt    conversation.Time `json:"endedAt,omitempty"`
	DurationMs int64             `json:"durationMs,omitempty"`
	// IsError says that it has ended otherwise than completed, Error why.
	IsError bool      `json:"isError,omitempty"`
	Error   *RunError `json:"error,omitempty"`
}

// Ended reports whether the run has ended.
func (s *RunStatus) Ended() bool { return s.State != RunActive }

// Err is a [*RunError] for a run that has ended otherwise than completed, else nil.
func (s *RunStatus) Err() error {
	outcome := conversation.OutcomeFailed
	switch s.State {
	case RunActive, RunCompleted:
		return nil
	case RunAborted:
		outcome = conversation.OutcomeAborted
	}
	e := RunError{Run: s.ID, Outcome: outcome}
	if s.Error != nil {
		e.Type, e.Message = s.Error.Type, s.Error.Message
	}
	return &e
}

// RunError says that a run has ended otherwise than completed. errors.Is finds [ErrFailed] or [ErrAborted] in it.
type RunError struct {
	Run     conversation.RunID   `json:"-"`
	Outcome conversation.Outcome `json:"-"`
	// Type is why, such as conversation.CodeRunFailed, and Message what its function has said.
	Type    conversation.Code `json:"name"`
	Message string            `json:"message"`
}

// Error implements error.
func (e *RunError) Error() string {
	s := fmt.Sprintf("run %s: %s", e.Run, e.Outcome)
	if e.Type != "" {
		s += ": " + string(e.Type)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Is implements the errors.Is of ErrFailed and ErrAborted.
func (e *RunError) Is(target error) bool {
	return (&SettledError{Outcome: e.Outcome}).Is(target)
}

// Status returns how the run stands. A run that was never begun is an [*Error] of conversation.CodeRunNotFound.
func (r *Run) Status(ctx context.Context) (*RunStatus, error) {
	var status RunStatus
	err := r.c.repeat(ctx, func() error {
		a, err := r.c.do(ctx, request{
			method: http.MethodGet, url: r.c.at.String() + "?meta", accept: "application/json", silence: r.c.opts.AnswerWithin,
		})
		if err != nil {
			return err
		}
		status = RunStatus{}
		if err := a.decode(&status, r.c.opts.MaxAnswerBytes); err != nil {
			return err
		}
		switch status.State {
		case RunActive, RunCompleted, RunErrored, RunAborted:
			return nil
		}
		return badAnswer("it does not say how the run stands")
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.c.name(), err)
	}
	return &status, nil
}

// Await returns the run once it has ended, for as long as ctx lives, whatever connections break and servers die meanwhile.
// The result is decoded from JSON into the value that result points to, unless it is nil. A run that failed or was aborted
// is a [*RunError], beside its status.
func (r *Run) Await(ctx context.Context, result any) (*RunStatus, error) {
	fail := func(err error) error { return fmt.Errorf("await run %s: %w", r.id, err) }
	status, err := r.Status(ctx)
	if err == nil && !status.Ended() {
		if err = r.end(ctx); err == nil {
			status, err = r.Status(ctx)
		}
	}
	if err != nil {
		return nil, fail(err)
	}
	if err := status.Err(); err != nil {
		return status, err
	}
	if result != nil {
		if err := json.Unmarshal(status.Result, result); err != nil {
			return status, fail(fmt.Errorf("decode result: %w", err))
		}
	}
	return status, nil
}

// end returns when the run has ended. It reads the events from now on.
func (r *Run) end(ctx context.Context) error {
	head, err := r.c.Head(ctx)
	if err != nil {
		return err
	}
	for _, err := range r.Events(ctx, head) {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// RunEvent is an event of a run. Which members it has beside these depends on its type.
type RunEvent struct {
	Type      string            `json:"type"`
	Index     int64             `json:"eventIndex"`
	Timestamp conversation.Time `json:"timestamp"`
	// JSON is the whole event.
	JSON json.RawMessage `json:"-"`
}

// Offset is where to go on after the event, also in another process.
func (e RunEvent) Offset() conversation.Offset { return conversation.Offset(e.Index) }

// Events yields the events of the run after an offset, which is conversation.Start or that of an event: each once and in
// order, and ends after the last one of a run that has ended. Else it ends as [Conversation.Observe] does, for whose
// pauses and reconnections it has the same rules.
func (r *Run) Events(ctx context.Context, after conversation.Offset) iter.Seq2[RunEvent, error] {
	events := flow[RunEvent]{decode: decodeEvents, at: func(e RunEvent) conversation.Position { return conversation.Position{Batch: e.Offset()} }}
	return func(yield func(RunEvent, error) bool) {
		f := newFollow(r.c, events, after, func(u found[RunEvent]) bool {
			for _, e := range u.items {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		})
		if err := f.run(ctx); !over(err) {
			yield(RunEvent{}, fmt.Errorf("follow %s: %w", r.c.name(), err))
		}
	}
}

// decodeEvents appends the events of a JSON array.
func decodeEvents(list []RunEvent, b []byte) ([]RunEvent, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return list, badAnswer("decode events: %w", err)
	}
	for _, one := range raw {
		e := RunEvent{Index: -1, JSON: one}
		if err := json.Unmarshal(one, &e); err != nil || e.Index < 0 {
			return list, badAnswer("decode event %.80q: it has no index, or %w", one, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// Signal says a value to the run, which waits for a name, or will; see [Conversation.Signal].
func (r *Run) Signal(ctx context.Context, name string, value any) (Receipt, error) {
	return r.c.Signal(ctx, name, value)
}

// Send sends the run a signal, such as one of [SignalFor] with a key of the caller's; see [Conversation.Send].
func (r *Run) Send(ctx context.Context, m Message) (Receipt, error) { return r.c.Send(ctx, m) }

// Abort ends the run, and reports whether it was under way. It is not repeated, as [Conversation.Abort] is not.
func (r *Run) Abort(ctx context.Context) (bool, error) { return r.c.Abort(ctx) }

// AbortTree is Abort, and aborts what the run has dispatched; see [Conversation.AbortTree].
func (r *Run) AbortTree(ctx context.Context) (conversation.TreeAborted, error) {
	return r.c.AbortTree(ctx)
}
