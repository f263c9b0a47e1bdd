package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
)

// perConversation approximates the memory cost, in bytes, of an activation with an empty conversation:
// its actor, machine and writer.
const perConversation = 16 << 10

// outputsShare is the fraction of the node's memory that unrecorded tool outputs may use: one eighth.
// Further tool calls wait for room.
const outputsShare = 8

// accounts holds the runtime's accounts in the node's memory budget.
type accounts struct {
	conversations *memory.Account // conversation states and their latest prompts
	calls         *memory.Account // encoded model requests in flight
	outputs       *memory.Account // tool outputs not recorded yet
	events        *memory.Account // durable events queued for sinks
	writes        *memory.Account // encoded batches and checkpoints that are being stored

	idle      *memory.Idle  // shared with the followers and the idle writers
	idleShelf *memory.Shelf // idle activations

	checks    chan struct{} // semaphore of schema checks
	unchecked *atomic.Int64 // checks that exceeded a bound
}

func newAccounts(b *memory.Budget, idleBytes int64, checks int) accounts {
	idle := b.Idle(idleBytes)
	return accounts{
		conversations: b.Account("conversations", 0), calls: b.Account("model calls", 0),
		outputs: b.Account("tool outputs", b.Limit()/outputsShare), events: b.Account("events", 0), writes: b.Account("writes", 0),
		idle: idle, idleShelf: idle.Shelf("conversations"),
		checks: make(chan struct{}, checks), unchecked: new(atomic.Int64),
	}
}

// room rejects new work while the node's memory budget is exhausted. Admitted work continues.
func (a *accounts) room() *conversation.Error {
	err := a.conversations.Full()
	if err == nil {
		return nil
	}
	a.idle.Trim()
	out := conversation.Unavailable(retryAfter, err)
	out.Details = fmt.Sprintf("This node accepts no new messages now: %v. Retry after the time given.", err)
	return out
}

// share is one activation's use of the node: charged memory and pending submissions. It belongs to the
// activation's goroutine.
type share struct {
	charged   int64        // bytes
	unsettled int64        // submissions queued or running
	kept      *memory.Kept // non-nil while idle
}

// hold sets the memory and the pending submissions of the activation.
func (s *share) hold(r *Runtime, bytes, unsettled int64, idle bool) {
	r.active.unsettled.Add(unsettled - s.unsettled)
	s.unsettled = unsettled
	if !idle {
		s.kept.Take()
	}
	r.accounts.conversations.Add(bytes - s.charged)
	s.kept.Add(bytes - s.charged)
	s.charged = bytes
	r.accounts.idle.Trim()
}

// shelve makes the idle activation evictable; leave is called to evict it.
func (s *share) shelve(r *Runtime, leave func()) {
	s.kept.Take()
	s.kept = r.accounts.idleShelf.Keep(s.charged, leave)
}

// end releases everything that the activation was charged.
func (s *share) end(r *Runtime) {
	r.active.unsettled.Add(-s.unsettled)
	s.kept.Take()
	r.accounts.conversations.Add(-s.charged)
	s.unsettled, s.charged = 0, 0
}
