package actors

import (
	"sync"
	"sync/atomic"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// activations are the conversations in memory, and the writers of those that were. They are
// safe for concurrent use.
type activations struct {
	machines machine.Config // of all of them
	resting  *resting
	draining atomic.Bool // they are to end

	fences, handedOver atomic.Int64
	owed               atomic.Int64 // submissions; a gauge

	mu    sync.Mutex
	byKey map[conversation.Key]running
	quiet chan struct{} // non-nil while somebody waits for byKey to become empty
}

// running is an activation on this node.
type running struct {
	nonce storage.Nonce
	send  func(any)
	tip   *atomic.Int64 // its newest batch, -1 until its claim is verified
}

// enter registers an activation before it opens its log.
func (l *activations) enter(key conversation.Key, a running) {
	l.mu.Lock()
	l.byKey[key] = a
	l.mu.Unlock()
	if l.draining.Load() {
		a.send(machine.Drain{})
	}
}

// leave removes an activation that stopped.
func (l *activations) leave(key conversation.Key, nonce storage.Nonce) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey[key].nonce == nonce {
		delete(l.byKey, key)
	}
	if len(l.byKey) == 0 {
		l.byKey = map[conversation.Key]running{} // a map never shrinks
	}
	l.checkQuiet()
}

// drain has every activation end, and returns a channel that is closed when none is left.
func (l *activations) drain() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	quiet := make(chan struct{})
	l.quiet = quiet
	for _, a := range l.byKey {
		a.send(machine.Drain{})
	}
	l.checkQuiet()
	return quiet
}

// checkQuiet tells who waits for it that no activation is left. The caller holds mu.
func (l *activations) checkQuiet() {
	if l.quiet != nil && len(l.byKey) == 0 {
		close(l.quiet)
		l.quiet = nil
	}
}

// of returns the activation of a conversation here.
func (l *activations) of(key conversation.Key) (a running, here bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, here = l.byKey[key]
	return a, here
}

// count is how many there are.
func (l *activations) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.byKey))
}

// writes reports whether a writer runs on this node, or rests. One that rests owes
// nothing: its entry is about to leave the journal.
func (l *activations) writes(key conversation.Key, nonce storage.Nonce) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key].nonce == nonce || l.resting.has(key, nonce)
}
