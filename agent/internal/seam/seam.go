// Package seam has what package agent finds in the contexts of tools and hooks, for package agenthost,
// which puts it there. Package agent calls it too. It keeps nothing that outlives a context.
package seam

import "sync"

// The keys of what a host gives. Values are of the types that package agenthost names.
type (
	Call       struct{}
	Data       struct{}
	Dispatcher struct{}
	Log        struct{}
	State      struct{}
	Steps      struct{} // a *Run
)

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
