package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// ErrSuspended is returned when a long wait ends the run of a call: return it or any other error. The
// function's result is ignored. The call runs again when its wait is over.
var ErrSuspended = errors.New("the call is suspended; it runs again when its wait is over")

// ErrSleepInStep is returned for a sleep or wait within a step, whose effect would be without a record
// for all that time. Sleep between the steps.
var ErrSleepInStep = errors.New("a step must not sleep; sleep between the steps")

// Sleep suspends the call like [SleepUntil], until d after the first run of the call reaches it.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	return SleepUntil(ctx, name, time.Now().Add(d))
}

// SleepUntil suspends a call of a durable tool until a time, for days if necessary. The time is
// recorded when the call first reaches it; later runs of the call wait for the same time and skip a
// sleep that is over. A sleep never ends early by the clock of the node. While the process runs, the
// monotonic clock counts, so setting the clock does not move a sleep; time during which the machine
// was suspended does not count. Another process uses its own clock.
//
// A wait of less than 30 seconds blocks. A longer one ends the run of the function: SleepUntil returns
// [ErrSuspended], ctx is cancelled, and the function must return within 5 seconds, together with its
// goroutines; otherwise the call fails. When all calls of the turn wait or have ended, the
// conversation is suspended and costs only storage. At the time, on any node, the function runs again
// from its start, with its recorded steps. So code before a sleep belongs into a [Step], as for a
// crash, and state that was written before it is written again.
//
// A sleep counts neither for the tool's timeout nor for [Durability.Timeout], and is no attempt.
// Messages that arrive during it are answered first, unless [Agent.AnswerInOrder] is set; an abort
// ends it.
//
// The name is one of the names of the call's steps. Every error except ErrSuspended and that of ctx is
// a [*StepError]: [ErrNoSteps], [ErrSleepInStep], a name that is used twice, a time after the year
// 9998, or one that cannot be recorded.
func SleepUntil(ctx context.Context, name string, until time.Time) error {
	fail := func(err error) error { return &StepError{Step: name, Err: err} }
	s := stepsFrom(ctx)
	switch {
	case s == nil:
		return fail(ErrNoSteps)
	case ctx.Value(inStepKey{}) != nil:
		return fail(ErrSleepInStep)
	}
	if err := s.begin(name); err != nil {
		return fail(err)
	}
	at, err := s.dueTime(ctx, name, until)
	if err != nil {
		return fail(err)
	}
	end := time.Now()
	end = end.Add(at.Sub(s.now())) // by the monotonic clock
	if p, ok := s.recorder.(suspender); ok && p.Suspend(end) {
		return ErrSuspended
	}
	return wait(ctx, end)
}

// now returns the time of the clock for sleeps.
func (s *steps) now() time.Time {
	if c, ok := s.recorder.(clock); ok {
		return c.Now().Round(0)
	}
	return time.Now().Round(0)
}

// inStepKey is the context key that marks a step.
type inStepKey struct{}

// dueTime returns the recorded time of a sleep, or records it.
func (s *steps) dueTime(ctx context.Context, name string, until time.Time) (time.Time, error) {
	raw, ok := s.Recorded(name)
	if !ok {
		if y := until.UTC().Year(); y < 0 || y > 9998 {
			return until, fmt.Errorf("the year %d is out of range", y)
		}
		ahead := s.now().Sub(time.Now().Round(0)).Round(time.Millisecond) // 0 unless a test set the clock
		// Round up to a millisecond, so that no sleep is too short.
		at := conversation.TimeOf(until.Add(ahead + time.Millisecond - 1))
		raw, _ = json.Marshal(at) // a time always encodes
		if err := s.Record(context.WithoutCancel(ctx), name, raw); err != nil {
			return until, fmt.Errorf("record time: %w", err)
		}
	}
	var at conversation.Time
	if err := json.Unmarshal(raw, &at); err != nil {
		return until, fmt.Errorf("recorded result is not a time: %w", err)
	}
	return time.UnixMilli(int64(at)), nil
}

// wait blocks until a time of the monotonic clock.
func wait(ctx context.Context, until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// suspender is agenthost.Suspender, and clock agenthost.Clock.
type (
	suspender interface{ Suspend(until time.Time) bool }
	clock     interface{ Now() time.Time }
)
