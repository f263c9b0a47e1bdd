package events

import (
	"sync"

	"github.com/parleyrun/parley/conversation"
)

// maxAddresses bounds the addresses that a node remembers.
const maxAddresses = 4096

// addresses are those of conversations that were active on this node lately, for events of conversations whose logs
// cannot be read: a sweep knows only the key. Its zero value is ready and safe for concurrent use.
type addresses struct {
	mu   sync.Mutex
	list map[conversation.Key]conversation.Address
}

// put remembers an address. One that does not fit replaces all.
func (a *addresses) put(key conversation.Key, at conversation.Address) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.list[key]; a.list == nil || !known && len(a.list) >= maxAddresses {
		a.list = map[conversation.Key]conversation.Address{}
	}
	a.list[key] = at
}

// get returns the address of a conversation, or the zero one.
func (a *addresses) get(key conversation.Key) conversation.Address {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list[key]
}
