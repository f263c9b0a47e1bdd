package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/parleyrun/parley/agent/internal/seam"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// ErrWaitTimeout says that the time of a wait is over and no signal has come.
var ErrWaitTimeout = errors.New("no signal has come in time")

// WaitOptions are the optional facts of a wait.
type WaitOptions struct {
	// Timeout is how long the call waits, counted from when it comes to the wait first: up
	// to 30 days, and 0 for as long.
	Timeout time.Duration

	// Schema is in place of that of the Go type, and Open lets members through that are no
	// field, as in [ToolOptions].
	Schema json.RawMessage
	Open   bool
}

// Wait lets a call of a durable tool wait for a signal of that name, and returns what it says:
// for what a person decides, or another system. Whoever reaches the conversation sends one:
// [Signal] by [Dispatch], a client's Signal, the command "parley signal", or a POST with
//
//	{"kind":"signal","type":"parley.wait","attributes":{"name":"approval-7"},"body":"true"}
//
// The body is JSON that fits T, or a text for a T that is one. One that does not fit is
// refused with invalid_request, and the call goes on waiting. The first that fits decides;
// another one is refused with already_decided. A signal that comes before the wait is kept for
// it, for 7 days and up to 64 of them in a conversation, so the two may race. It is taken by
// the call that first waits for the name, wherever in the conversation: let names be of what
// is decided, as by an order's number, and not of a kind of decision. A name of which a wait
// was over is free again for the next.
//
// As in a long [Sleep] the run of the function ends: Wait returns [ErrSuspended], the function
// has 5 seconds to return, the conversation is put away and costs nothing but storage.
// With the signal the function is run again from its start, with its recorded steps. What it
// has heard stays the same in every later run. Messages that come meanwhile are answered as
// during a Sleep. Clients see the wait as data of the response,
// a part of type "data-wait-<call id>" with its name, its state ("waiting", "signal",
// "timeout") and until when.
//
// The name is one of the names of the call's steps. The error is [ErrWaitTimeout]; ErrSuspended;
// or a [*StepError]: [ErrNoSteps], [ErrSleepInStep], [ErrStepsFull], a name that is used twice,
// options that cannot be, or a signal that is no T although it fits the schema.
func Wait[T any](ctx context.Context, name string, o *WaitOptions) (T, error) {
	var result T
	raw, err := waitFor(ctx, name, reflect.TypeFor[T](), o)
	if err == nil {
		if err = contain.Decode("signal", raw, &result); err != nil {
			err = &StepError{Step: name, Err: fmt.Errorf("the signal does not fit %T: %w", result, err)}
		}
	}
	return result, err
}

func waitFor(ctx context.Context, name string, t reflect.Type, o *WaitOptions) (json.RawMessage, error) {
	fail := func(err error) (json.RawMessage, error) { return nil, &StepError{Step: name, Err: err} }
	if o == nil {
		o = &WaitOptions{}
	}
	s := stepsFrom(ctx)
	if s == nil {
		return fail(ErrNoSteps)
	}
	w, err := s.waiter(ctx, o.Timeout)
	if err != nil {
		return fail(err)
	}
	schema, err := schemaBy(t, o.Schema, reads, o.Open)
	if err == nil {
		err = s.begin(name)
	}
	if err != nil {
		return fail(err)
	}
	raw, err := w.Wait(ctx, seam.Waiting{Name: name, Schema: schema.JSON(), Until: waitEnd(o.Timeout)})
	return raw, s.waited(name, err)
}

// waiter returns what lets the call wait, for a time that it may.
func (s *steps) waiter(ctx context.Context, timeout time.Duration) (waiter, error) {
	w, ok := s.recorder.(waiter)
	switch {
	case !ok:
		return nil, ErrNoSteps
	case ctx.Value(inStepKey{}) != nil:
		return nil, ErrSleepInStep
	case timeout < 0 || timeout > conversation.MaxWait:
		return nil, fmt.Errorf("the timeout is %v, at most 30 days are waited", timeout)
	}
	return w, nil
}

// waitEnd is when a wait that begins now times out.
func waitEnd(timeout time.Duration) time.Time {
	return time.Now().Add(cmp.Or(timeout, conversation.MaxWait))
}

// waited is the error of a wait as the author gets it.
func (s *steps) waited(name string, err error) error {
	if err == nil || errors.Is(err, ErrWaitTimeout) || errors.Is(err, ErrSuspended) {
		return err
	}
	return &StepError{Step: name, Err: err}
}

// waiter is agenthost.Waiter.
type waiter interface {
	Wait(ctx context.Context, w seam.Waiting) (json.RawMessage, error)
}

// Signal is a message that ends a wait of that name with a value; see [Wait].
func Signal(name string, value any) (Message, error) {
	if _, text := value.(string); !text {
		raw, err := contain.Encode("value of a signal", value)
		if err != nil {
			return Message{}, conversation.Errorf(conversation.CodeInvalidRequest, "The value of a signal has no JSON form: %v.", err)
		}
		value = raw
	}
	d, err := conversation.SignalFor(name, value)
	return Message{Delivery: d}, err
}
