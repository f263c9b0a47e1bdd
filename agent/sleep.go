package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// ErrSuspended says that a call waits for so long that its run has ended: return, with this
// error or any other. What the function returns is ignored, and nobody is told of it. At
// the time it waits for, the call is run again.
var ErrSuspended = errors.New("the call waits; it is run again when its time has come")

// ErrSleepInStep says that a step would wait. Its effect would be there without its
// record for all that time: let the function sleep between its steps.
var ErrSleepInStep = errors.New("a step must not sleep; sleep between the steps")

// Sleep is [SleepUntil] a time that is d away when the call comes here first.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	return SleepUntil(ctx, name, time.Now().Add(d))
}

// SleepUntil lets a call of a durable tool wait until a time, for days if need be. The
// time is fixed and durable once the call has come here first; later runs of the call
// wait for that same time, and pass a sleep that is over. It is never over before its
// time by the clock of the node. Setting that clock moves no sleep while the process
// lives that began it: what has passed counts, without times in which the machine was
// suspended. Another process goes by its own clock.
//
// A wait of less than 30 seconds just blocks. For a longer one the run of the function
// ends: SleepUntil returns [ErrSuspended], ctx is cancelled, and the function has 5 seconds to
// return, without goroutines of its own; otherwise the call fails. When all calls of the
// step wait or have ended, the conversation is put away and costs nothing but storage. At
// the time, on whichever node is there, the function is run again from its start, with its
// recorded steps. So what stands before a sleep belongs into a [Step], as for a crash, and
// state that was written before it is written again.
//
// Time spent in this way counts neither as the tool's time nor as the submission's
// ([Durability.Timeout]), and is no attempt. Messages that come meanwhile are answered first,
// unless [Agent.AnswerInOrder] says otherwise; an abort ends it.
//
// The name is one of the names of the call's steps. Every error but ErrSuspended and that of
// ctx is a [*StepError]: [ErrNoSteps], [ErrSleepInStep], a name that is used twice, a
// time beyond the year 9998, or one that cannot be recorded.
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
	if p, ok := s.recorder.(parker); ok && p.Suspend(end) {
		return ErrSuspended
	}
	return wait(ctx, end)
}

// now is the time by the clock that sleeps go by.
func (s *steps) now() time.Time {
	if c, ok := s.recorder.(clock); ok {
		return c.Now().Round(0)
	}
	return time.Now().Round(0)
}

// inStepKey is the context key that marks a step.
type inStepKey struct{}

// dueTime returns what was recorded for a sleep, or records it.
func (s *steps) dueTime(ctx context.Context, name string, until time.Time) (time.Time, error) {
	raw, ok := s.Recorded(name)
	if !ok {
		if y := until.UTC().Year(); y < 0 || y > 9998 {
			return until, fmt.Errorf("the year %d is out of range", y)
		}
		ahead := s.now().Sub(time.Now().Round(0)).Round(time.Millisecond) // 0 unless one was set
		// A part of a millisecond is a whole one, so that no sleep is too short.
		at := conversation.TimeOf(until.Add(ahead + time.Millisecond - 1))
		raw, _ = json.Marshal(at) // a time has its JSON
		if err := s.Record(context.WithoutCancel(ctx), name, raw); err != nil {
			return until, fmt.Errorf("record time: %w", err)
		}
	}
	var at conversation.Time
	if err := json.Unmarshal(raw, &at); err != nil {
		return until, fmt.Errorf("recorded result is no time: %w", err)
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

// parker is agenthost.Parker, and clock agenthost.Clock.
type (
	parker interface{ Suspend(until time.Time) bool }
	clock  interface{ Now() time.Time }
)
