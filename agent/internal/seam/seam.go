// Package seam defines the context values through which package agenthost passes the host's functions
// to package agent. It keeps nothing that outlives a context.
package seam

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// Keys of the host's values. The types of the values are those in package agenthost.
type (
	Call        struct{}
	Data        struct{}
	Dispatcher  struct{}
	InitialData struct{} // a json.RawMessage
	Log         struct{}
	Poster      struct{}
	ReadOnly    struct{} // any value: state is read-only
	Resumed     struct{} // any value: the call may have run before
	State       struct{}
	Steps       struct{} // a *Run

	origin struct{} // an *Origin
)

// WithReadOnly returns a context with read-only state.
func WithReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, ReadOnly{}, true)
}

// Origin identifies one run of a sender of messages; a later run of the same sender has the same name.
// It is safe for concurrent use.
type Origin struct {
	Name string // name of the call or hook; empty if it cannot run again
	Step string // "/" and a digest of the step's name; empty outside of steps

	mu   sync.Mutex
	sent map[any]int
}

// WithOrigin returns a context of a new run.
func WithOrigin(ctx context.Context, name, step string) context.Context {
	return context.WithValue(ctx, origin{}, &Origin{Name: name, Step: step, sent: map[any]int{}})
}

// OriginFrom returns the run of a context; nil if there is none.
func OriginFrom(ctx context.Context) *Origin {
	o, _ := ctx.Value(origin{}).(*Origin)
	return o
}

// Next returns the number of the next message to an address, from 1.
func (o *Origin) Next(to any) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[to]++
	return o.sent[to]
}

// Run is one run of a durable call: its recorder, and the steps that have begun. It is safe for
// concurrent use.
type Run struct {
	Recorder any

	mu    sync.Mutex
	begun map[string]bool
}

// Begin marks the step of that name as begun and reports whether it was new in this run.
func (r *Run) Begin(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun[name] {
		return false
	}
	if r.begun == nil {
		r.begun = map[string]bool{}
	}
	r.begun[name] = true
	return true
}

// Reopen allows a step of that name to begin again.
func (r *Run) Reopen(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.begun, name)
}

// Waiting is a wait of a call.
type Waiting struct {
	Name   string
	Schema json.RawMessage
	Until  time.Time // with a monotonic reading
	Begin  bool      // begin the wait without suspending the call
}

// Posting is a post of a call. Step is the step of a durable call that records it, empty for none.
type Posting struct {
	ID     string // a conversation.PostID
	Target string
	Body   json.RawMessage
	Step   string
}
