package actors

import (
	"fmt"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
)

// perConversation is about what a conversation in memory costs that has said nothing yet,
// in bytes: its actor, machine and writer.
const perConversation = 16 << 10

// accounts are what the runtime takes of the node's memory.
type accounts struct {
	conversations *memory.Account // states, and what their models were shown last
	calls         *memory.Account // what models are being shown, in a vendor's encoding
	events        *memory.Account // durable events that wait for sinks

	idle *memory.Idle  // also of the followers, and of the writers at rest
	rest *memory.Shelf // conversations with nothing to do
}

func newAccounts(b *memory.Budget, idleBytes int64) accounts {
	idle := b.Idle(idleBytes)
	return accounts{
		conversations: b.Account("conversations", 0), calls: b.Account("model calls", 0), events: b.Account("events", 0),
		idle: idle, rest: idle.Shelf("conversations"),
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

// charge counts what the activation holds by now.
func (a *activation) charge() {
	held := int64(perConversation + a.machine.Bytes())
	if a.archive != nil {
		held += a.archive.Weight()
	}
	a.rt.accounts.conversations.Add(held - a.charged)
	a.kept.Add(held - a.charged)
	a.charged = held
}

// rest counts the activation among those with nothing to do. If it has to give way, its
// timer fires before its time.
func (a *activation) rest(fired timerFired) {
	a.kept.Take()
	a.kept = a.rt.accounts.rest.Keep(a.charged, func() { a.tell(fired) })
}

// discharge counts nothing any more.
func (a *activation) discharge() {
	a.rt.accounts.conversations.Add(-a.charged)
	a.charged = 0
}
