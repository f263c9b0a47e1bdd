package grain

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// maxCachedPIDs bounds the cache of one process. A miss costs one message to the owner.
const maxCachedPIDs = 65_536

// pidCache caches the PIDs of activations. A stale entry is harmless: its PID answers with a dead
// letter, and the request that used it removes it.
type pidCache struct {
	max int

	mu   sync.RWMutex
	pids map[string]*actor.PID // by identity; Invariant: len ≤ max
}

func newPIDCache(max int) *pidCache {
	return &pidCache{max: max, pids: make(map[string]*actor.PID)}
}

func (c *pidCache) get(id string) (*actor.PID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	pid, ok := c.pids[id]
	return pid, ok
}

// put stores pid. If the cache is full, it evicts an arbitrary entry. There is no LRU order, because
// it would turn every hit into a write.
func (c *pidCache) put(id string, pid *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pids[id]; !ok && len(c.pids) >= c.max {
		for victim := range c.pids {
			delete(c.pids, victim)
			break
		}
	}
	c.pids[id] = pid
}

// remove removes id if it still maps to pid; a newer activation's entry stays.
func (c *pidCache) remove(id string, pid *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cur, ok := c.pids[id]; ok && cur.Equal(pid) {
		delete(c.pids, id)
	}
}

// retain removes every activation that is not at its owner.
func (c *pidCache) retain(owner func(id string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, pid := range c.pids {
		if pid.Address != owner(id) {
			delete(c.pids, id)
		}
	}
}

// removeAddress removes the activations of the process that was at address.
func (c *pidCache) removeAddress(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, pid := range c.pids {
		if pid.Address == address {
			delete(c.pids, id)
		}
	}
}

func (c *pidCache) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.pids)
}
