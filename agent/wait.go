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

// ErrWaitTimeout is returned when a wait ends without a signal.
var ErrWaitTimeout = errors.New("wait timed out without a signal")

// WaitOptions are the options of [Wait].
type WaitOptions struct {
	// Timeout bounds the wait, from the first run that reaches it: up to 30 days; 0 means 30 days.
	Timeout time.Duration

	// Schema replaces the schema of the Go type, and Open accepts members that are not fields, as in
	// [ToolOptions].
	Schema json.RawMessage
	Open   bool
}

// Wait suspends a call of a durable tool until a signal of that name arrives, and returns its value.
// Use it for decisions of people or other systems. Anyone with access to the conversation may send the
// signal: [Signal] by [Dispatch], a client's Signal, the command "parley signal", or a POST with
//
//	{"kind":"signal","type":"parley.wait","attributes":{"name":"approval-7"},"body":"true"}
//
// The body is JSON that fits T, or a text if T is a string. A body that does not fit is refused with
// invalid_request, and the call continues to wait. The first that fits resolves the wait; later ones
// are refused with already_decided. A signal that arrives before the wait is stored for 7 days, up to
// 64 in a conversation, so the two may race. The first call of the conversation that waits for the
// name takes it. So a name should identify one decision, for example by an order's number, and not a
// kind of decision. After a wait is over, its name may be used again.
//
// As in a long [Sleep] the run of the function ends: Wait returns [ErrSuspended], the function must
// return within 5 seconds, and the conversation is suspended. After the signal, the function runs
// again from its start, with its recorded steps, and Wait returns the same value in every later run.
// Messages that arrive during the wait are answered as during a Sleep. Clients see the wait as a data
// part of the response of type "data-wait-<call id>", with its name, state and end. The state is
// "waiting", "signal" or "timeout", or "ended" if the call has its outcome first, as after an abort.
// The part shows the wait of the call that changed last, and an open one if there is any.
//
// The name is one of the names of the call's steps. The error is [ErrWaitTimeout]; ErrSuspended; or a
// [*StepError]: [ErrNoSteps], [ErrSleepInStep], [ErrStepsFull], a name that is used twice, invalid
// options, or a signal that does not decode into T although it fits the schema.
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

// waiter returns the host's waiter after it has checked that the call may wait for timeout.
func (s *steps) waiter(ctx context.Context, timeout time.Duration) (waiter, error) {
	w, ok := s.recorder.(waiter)
	switch {
	case !ok:
		return nil, ErrNoSteps
	case ctx.Value(inStepKey{}) != nil:
		return nil, ErrSleepInStep
	case timeout < 0 || timeout > conversation.MaxWait:
		return nil, fmt.Errorf("the timeout is %v, the maximum is 30 days", timeout)
	}
	return w, nil
}

// waitEnd returns the end of a wait that begins now.
func waitEnd(timeout time.Duration) time.Time {
	return time.Now().Add(cmp.Or(timeout, conversation.MaxWait))
}

// waited returns the author's error of a wait.
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

// Signal returns a message that resolves the wait of that name with a value; see [Wait].
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
