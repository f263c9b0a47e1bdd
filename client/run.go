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

// Runs gives access to the workflows of a server and their runs. It is safe for concurrent use.
type Runs struct{ c *Conversation }

// NewRuns returns the workflows at the base URL of "/workflows/<name>" and "/runs/<id>": that of the
// server, or of its beta line. It sends no request.
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

// BeginOptions are the options of [Runs.Begin]. Nil means the defaults.
type BeginOptions struct {
	// Key is the idempotency key: the same key of a workflow is the same run, for as long as its log
	// exists. It is 1 to 256 characters of printable ASCII, without a space at either end. Empty means
	// a new one.
	Key string
}

// Begun is the receipt of a run that has begun, now or before.
type Begun struct {
	RunID conversation.RunID `json:"runId"`
	// StreamURL is the URL of the run's events, and Offset their beginning.
	StreamURL string              `json:"streamUrl"`
	Offset    conversation.Offset `json:"offset"`
	// Key is the idempotency key that the run began under. The server does not repeat it, so it is not part of the JSON form.
	Key string `json:"-"`
}

// Begin begins a run of a workflow with an input, which is encoded as JSON. When it returns without an
// error, the run is durable and will end once. The request is repeated under the same key while its
// outcome is uncertain.
//
// Errors are those of [Conversation.Send]: the type of an [*Error] is workflow_not_found,
// invalid_request for an invalid input, or submission_conflict for a key that began a run with another
// input.
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

// invocation returns the request that begins a run.
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

// Run returns a run by its id. It sends no request.
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

// URL returns the run's URL.
func (r *Run) URL() string { return r.c.URL() }

// RunState is the state of a run.
type RunState string

// States of a run. The last three are final.
const (
	RunActive    RunState = "active"
	RunCompleted RunState = "completed"
	RunErrored   RunState = "errored"
	RunAborted   RunState = "aborted"
)

// RunStatus is the server's status of a run.
type RunStatus struct {
	ID       conversation.RunID `json:"runId"`
	Workflow string             `json:"workflowName"`
	State    RunState           `json:"status"`
	// Input is the input of the run, and Result the result of its function, nil unless it is
	// completed.
	Input     json.RawMessage   `json:"input,omitempty"`
	Result    json.RawMessage   `json:"result,omitempty"`
	StartedAt conversation.Time `json:"startedAt"`
	// EndedAt and DurationMs are 0 while the run is active.
	EndedAt    conversation.Time `json:"endedAt,omitempty"`
	DurationMs int64             `json:"durationMs,omitempty"`
	// IsError is set if the run failed or was aborted; Error is the reason.
	IsError bool      `json:"isError,omitempty"`
	Error   *RunError `json:"error,omitempty"`
}

// Ended reports whether the run has ended.
func (s *RunStatus) Ended() bool { return s.State != RunActive }

// Err returns a [*RunError] for a run that failed or was aborted, else nil.
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

// RunError is the failure or abort of a run. errors.Is matches [ErrFailed] or [ErrAborted].
type RunError struct {
	Run     conversation.RunID   `json:"-"`
	Outcome conversation.Outcome `json:"-"`
	// Type is the reason, such as conversation.CodeRunFailed, and Message the text of the function's
	// error.
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

// Is matches ErrFailed and ErrAborted.
func (e *RunError) Is(target error) bool {
	return (&SettledError{Outcome: e.Outcome}).Is(target)
}

// Status returns the status of the run. A run that was never begun is an [*Error] of
// conversation.CodeRunNotFound.
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

// Await returns the status of the run after it has ended; it retries until ctx ends, also over
// restarts of the server. The result is decoded from JSON into result, unless that is nil. For a run
// that failed or was aborted the error is a [*RunError], and the status is returned too.
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

// end returns when the run has ended. It follows the events from now on.
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

// RunEvent is an event of a run. Its further members depend on its type.
type RunEvent struct {
	Type      string            `json:"type"`
	Index     int64             `json:"eventIndex"`
	Timestamp conversation.Time `json:"timestamp"`
	// JSON is the whole event.
	JSON json.RawMessage `json:"-"`
}

// Offset returns the offset after the event, to continue from, also in another process.
func (e RunEvent) Offset() conversation.Offset { return conversation.Offset(e.Index) }

// Events yields the events of the run after an offset, conversation.Start or that of an event: each
// once and in order. It ends after the last event of an ended run, or like [Conversation.Observe],
// whose rules for retries apply.
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

// Signal resolves a present or future wait of the run with a value; see [Conversation.Signal].
func (r *Run) Signal(ctx context.Context, name string, value any) (Receipt, error) {
	return r.c.Signal(ctx, name, value)
}

// Send sends a signal to the run, such as one of [SignalFor] with a key of the caller; see
// [Conversation.Send].
func (r *Run) Send(ctx context.Context, m Message) (Receipt, error) { return r.c.Send(ctx, m) }

// Abort aborts the run and reports whether it was active. Like [Conversation.Abort] it is not
// repeated.
func (r *Run) Abort(ctx context.Context) (bool, error) { return r.c.Abort(ctx) }

// AbortTree aborts the run and all that it dispatched; see [Conversation.AbortTree].
func (r *Run) AbortTree(ctx context.Context) (conversation.TreeAborted, error) {
	return r.c.AbortTree(ctx)
}
