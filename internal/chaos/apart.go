package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
)

// What happens at one nanosecond happens in the order in which goroutines are
// scheduled, which no seed decides. So nothing that could tell the difference
// happens at the same nanosecond: every request, message, answer and deed of a
// client is a little late, by a time that depends on the seed, on its name and on
// how many of that name there were before, and not on the order of arrival.

// tremble bounds the delay of what has no duration of its own.
const tremble = time.Millisecond

// begin lets pass the nanosecond in which something was asked for. What is taken
// back before it is over did not happen, whether it was noticed or not.
func begin(ctx context.Context) error { return schedule.Sleep(ctx, 1) }

// callerKey is the key of a context's caller.
type callerKey struct{}

// as names the caller in a context, so that two who ask for the same at the same
// time are told apart wherever their requests go.
func as(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// callerOf returns the caller in a context, "" if nobody is named.
func callerOf(ctx context.Context) string {
	s, _ := ctx.Value(callerKey{}).(string)
	return s
}

// counter counts by name.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

// next returns how often it was called with the name before.
func (c *counter) next(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
	return c.n[name] - 1
}

// apart lets a moment pass which nobody else has.
func (w *world) apart(what ...any) {
	name := fmt.Sprintln(what...)
	time.Sleep(schedule.Between(schedule.Draw(w.seed, "apart", name, w.moments.next(name)), 1, tremble))
}

// message decides the course of a message to the owner of a conversation.
func (w *world) message(ctx context.Context, member, conv, what string) Course {
	if begin(ctx) != nil {
		return Course{}
	}
	if strings.Contains(what, "PokeRequest") {
		w.shown.Add(didPoke)
	}
	name := fmt.Sprintln(member, conv, what, callerOf(ctx))
	id := fmt.Sprintln(name, w.messages.next(name))
	w.net.mu.Lock()
	rate := w.net.rate
	w.net.mu.Unlock()
	return Course{
		There: schedule.Between(schedule.Draw(w.seed, "message there", id), 0, tremble),
		Back:  schedule.Between(schedule.Draw(w.seed, "message back", id), 0, tremble),
		Lost:  schedule.Share(schedule.Draw(w.seed, "message lost", id)) < rate/3,
	}
}
