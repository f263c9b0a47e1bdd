package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/parleyrun/parley/agent/internal/seam"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
)

// maxStepName is the maximum length of a step's name, in bytes.
const maxStepName = 128

// ErrNoSteps is returned by [Step] outside a call of a durable tool.
var ErrNoSteps = errors.New("steps cannot be recorded: set Durable in the tool's options and use the context of its call")

// ErrStepsFull is returned by [Step] if the calls of the response have reached [Limits.OutputBytes],
// so that its result cannot be recorded.
var ErrStepsFull = errors.New("step quota exceeded: the tool calls of this response have reached Limits.OutputBytes")

// StepError is a failure of a step itself, as opposed to its function.
type StepError struct {
	Step string
	Err  error
}

// Error implements error.
func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", shorten(e.Step), e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Step runs a part of a durable tool that must not be repeated once it is done. Examples are a call
// with effects elsewhere, and one that costs money. It calls fn once per call and name, and records
// the result, which is durable when Step returns. A call that runs again after a crash gets the
// recorded result without calling fn.
//
// A process may crash after the effect of fn and before its record is durable; then fn is called
// again. Where that matters, pass the other service an idempotency key made of the call's id and the
// step's name (see [CallFrom]).
//
// T must survive JSON. The result is always decoded from JSON, also the first time, so that a repeated
// call gets the same value. A result is recorded under the rules of [conversation.CheckPayload]. An
// error of fn is returned unchanged and not recorded, and the name may be used again; a panic of fn is
// a [*PanicError]. The name, 1 to 128 bytes, is stored: a renamed step runs again.
//
// Steps of one call may run concurrently and may be nested. State is read-only in a step
// ([ErrReadOnly]): return the value and write it after the step, so that a repeated call writes it
// again.
//
// Every other error is a [*StepError]: [ErrNoSteps], a name that is used twice in one call, a result
// that cannot be recorded, or a recorded result that does not decode into T.
func Step[T any](ctx context.Context, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var zero T
	fail := func(err error) (T, error) { return zero, &StepError{Step: name, Err: err} }

	s := stepsFrom(ctx)
	if s == nil {
		return fail(ErrNoSteps)
	}
	if err := s.begin(name); err != nil {
		return fail(err)
	}
	raw, ok := s.Recorded(name)
	if !ok {
		result, err := runStep(ctx, s, name, fn)
		if err != nil {
			return zero, err
		}
		if raw, err = contain.Encode("result", result); err == nil {
			err = conversation.CheckPayload(raw)
		}
		if err != nil {
			return fail(fmt.Errorf("result cannot be recorded: %w", err))
		}
		// The effect of fn has happened, so an expired context must not prevent its record; the
		// recorder has a limit of its own.
		if err := s.Record(context.WithoutCancel(ctx), name, raw); err != nil {
			return fail(fmt.Errorf("record result: %w", err))
		}
	}
	var result T
	if err := contain.Decode("result", raw, &result); err != nil {
		return fail(fmt.Errorf("recorded result does not fit %T, and the step took effect before: %w", zero, err))
	}
	return result, nil
}

// runStep calls a step's function. After a failure the name is free again.
func runStep[T any](ctx context.Context, s *steps, name string, fn func(ctx context.Context) (T, error)) (result T, err error) {
	done := false
	defer func() {
		if !done {
			s.run.Reopen(name)
		}
	}()
	var own error // unchanged, for the author
	called := false
	result, err = contain.Do("step "+shorten(name), func() (result T, _ error) {
		result, own = fn(context.WithValue(withStepOrigin(seam.WithReadOnly(ctx), name), inStepKey{}, true))
		called = true
		return result, nil
	})
	if called {
		err = own
	}
	done = err == nil
	return result, err
}

// recorder is agenthost.StepRecorder.
type recorder interface {
	Recorded(name string) (json.RawMessage, bool)
	Record(ctx context.Context, name string, output json.RawMessage) error
}

// steps are the steps of one run of a call.
type steps struct {
	recorder
	run *seam.Run
}

// stepsFrom returns the steps of a context, or nil.
func stepsFrom(ctx context.Context) *steps {
	run, _ := ctx.Value(seam.Steps{}).(*seam.Run)
	if run == nil {
		return nil
	}
	r, ok := run.Recorder.(recorder)
	if !ok {
		return nil
	}
	return &steps{r, run}
}

// withoutSteps returns a context without steps.
func withoutSteps(ctx context.Context) context.Context {
	if ctx.Value(seam.Steps{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, seam.Steps{}, (*seam.Run)(nil))
}

func (s *steps) begin(name string) error {
	if name == "" || len(name) > maxStepName || !utf8.ValidString(name) {
		return fmt.Errorf("name must be UTF-8 of 1 to %d bytes", maxStepName)
	}
	if !s.run.Begin(name) {
		return errors.New("name is used twice in one call; give every step its own")
	}
	return nil
}
