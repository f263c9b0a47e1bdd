package events

import (
	"sync"

	"github.com/parleyrun/parley/conversation"
)

// maxAddresses is the number of addresses in each of the two generations of [Addresses]: about 1 MB with usual ids.
const maxAddresses = 4096

// Addresses holds the addresses of conversations that this node used recently, for events and log records where only the
// key is known. Use NewAddresses. It is safe for concurrent use.
type Addresses struct {
	mu           sync.Mutex
	newer, older map[conversation.Key]conversation.Address
}

// NewAddresses returns an empty set.
func NewAddresses() *Addresses {
	return &Addresses{newer: map[conversation.Key]conversation.Address{}}
}

// Put adds an address and returns its key. A full generation replaces the one before it.
func (a *Addresses) Put(at conversation.Address) conversation.Key {
	key := at.Key()
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.newer[key]; known {
		return key
	}
	if len(a.newer) == maxAddresses {
		a.newer, a.older = make(map[conversation.Key]conversation.Address, maxAddresses), a.newer
	}
	a.newer[key] = at
	return key
}

// Get returns the address of a conversation, and false if it is not known.
func (a *Addresses) Get(key conversation.Key) (conversation.Address, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.newer[key]
	if !ok {
		at, ok = a.older[key]
	}
	return at, ok
}
