// Package seam has what package agent finds in the contexts of tools and hooks, for package agenthost,
// which puts it there. Package agent calls it too. It keeps nothing that outlives a context.
package seam

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// The keys of what a host gives. Values are of the types that package agenthost names.
type (
	Call        struct{}
	Data        struct{}
	Dispatcher  struct{}
	InitialData struct{} // a json.RawMessage
	Log         struct{}
	Poster      struct{}
	ReadOnly    struct{} // anything: state can only be read
	Resumed     struct{} // anything: the call may have run before
	State       struct{}
	Steps       struct{} // a *Run

	origin struct{} // an *Origin
)

// WithReadOnly returns a context whose state can only be read.
func WithReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, ReadOnly{}, true)
}

// Origin is one run of what sends messages, which a later run of the same resumes under the same
// name. It is safe for concurrent use.
type Origin struct {
	Name string // of the call or hook; empty if nothing can run again
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

// Next counts the messages to an address, from 1.
func (o *Origin) Next(to any) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[to]++
	return o.sent[to]
}

// Run is one run of a durable call: where its steps are recorded, and which have begun. It is safe
// for concurrent use.
type Run struct {
	Recorder any

	mu    sync.Mutex
	begun map[string]bool
}

// Begin reports whether a step of that name has not begun yet in this run, and marks it.
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

// Forget lets a step of that name begin again.
func (r *Run) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.begun, name)
}

// Waiting is what a call waits for.
type Waiting struct {
	Name   string
	Schema json.RawMessage
	Until  time.Time // with a monotonic reading
	Begin  bool      // the wait is to begin, and nothing is to be put away for it
}

// Posting is what a call posts. Step is that of a durable call which records it, empty for none.
type Posting struct {
	ID     string // a conversation.PostID
	Target string
	Body   json.RawMessage
	Step   string
}
