package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
)

// perConversation is about what a conversation in memory costs that has said nothing yet,
// in bytes: its actor, machine and writer.
const perConversation = 16 << 10

// outputsShare is the part of the node's memory that outputs of tools may take: more calls begin once there is room.
const outputsShare = 8

// accounts are what the runtime takes of the node's memory.
type accounts struct {
	conversations *memory.Account // states, and what their models were shown last
	calls         *memory.Account // what models are being shown, in a vendor's encoding
	outputs       *memory.Account // what tools have returned that is not recorded yet
	events        *memory.Account // durable events that wait for sinks
	writes        *memory.Account // encoded batches and checkpoints that are being stored

	idle *memory.Idle  // also of the followers, and of the writers at rest
	rest *memory.Shelf // conversations with nothing to do

	checks    chan struct{} // has as much room as checks of initial data may run at once
	unchecked *atomic.Int64 // those that went beyond a bound
}

func newAccounts(b *memory.Budget, idleBytes int64, checks int) accounts {
	idle := b.Idle(idleBytes)
	return accounts{
		conversations: b.Account("conversations", 0), calls: b.Account("model calls", 0),
		outputs: b.Account("tool outputs", b.Limit()/outputsShare), events: b.Account("events", 0), writes: b.Account("writes", 0),
		idle: idle, rest: idle.Shelf("conversations"),
		checks: make(chan struct{}, checks), unchecked: new(atomic.Int64),
	}
}

// room refuses new work while the node has no memory for more. What runs goes on.
func (a *accounts) room() *conversation.Error {
	err := a.conversations.Full()
	if err == nil {
		return nil
	}
	a.idle.Trim()
	out := conversation.Unavailable(retryAfter, err)
	out.Details = fmt.Sprintf("This node takes no new message right now: %v. Retry after the time given.", err)
	return out
}

// share is what an activation has of the node: bytes of its memory, and of what it owes. It
// belongs to the activation.
type share struct {
	charged int64        // bytes
	owed    int64        // submissions that wait or run
	kept    *memory.Kept // while it has nothing to do
}

// hold counts what the activation holds and owes by now.
func (s *share) hold(r *Runtime, bytes, owed int64, idle bool) {
	r.active.owed.Add(owed - s.owed)
	s.owed = owed
	if !idle {
		s.kept.Take()
	}
	r.accounts.conversations.Add(bytes - s.charged)
	s.kept.Add(bytes - s.charged)
	s.charged = bytes
	r.accounts.idle.Trim()
}

// rest counts the activation among those with nothing to do, which leave when they have to.
func (s *share) rest(r *Runtime, leave func()) {
	s.kept.Take()
	s.kept = r.accounts.rest.Keep(s.charged, leave)
}

// end counts nothing any more.
func (s *share) end(r *Runtime) {
	r.active.owed.Add(-s.owed)
	s.kept.Take()
	r.accounts.conversations.Add(-s.charged)
	s.owed, s.charged = 0, 0
}
