package actors

import (
	"sync"
	"sync/atomic"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// activations holds the active conversations of this node and its idle writers. It is safe for
// concurrent use.
type activations struct {
	machines    machine.Config // shared by all machines
	writerCache *writerCache
	draining    atomic.Bool // activations are to stop

	fences, handedOver atomic.Int64
	unsettled          atomic.Int64 // unsettled submissions; a gauge

	mu    sync.Mutex
	byKey map[conversation.Key]running
	quiet chan struct{} // closed once byKey is empty; nil without a waiter
}

// running is one activation on this node.
type running struct {
	nonce storage.Nonce
	send  func(any)
	tip   *atomic.Int64 // newest batch, -1 until the claim is verified
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

// leave removes a stopped activation.
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

// drain stops all activations. The returned channel is closed when none is left.
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

// checkQuiet closes quiet if no activation is left. The caller holds mu.
func (l *activations) checkQuiet() {
	if l.quiet != nil && len(l.byKey) == 0 {
		close(l.quiet)
		l.quiet = nil
	}
}

// of returns the local activation of a conversation.
func (l *activations) of(key conversation.Key) (a running, here bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, here = l.byKey[key]
	return a, here
}

// count returns the number of activations.
func (l *activations) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.byKey))
}

// writes reports whether a writer is active or idle on this node. An idle writer has no pending
// work; its entry is about to leave the journal.
func (l *activations) writes(key conversation.Key, nonce storage.Nonce) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key].nonce == nonce || l.writerCache.has(key, nonce)
}
