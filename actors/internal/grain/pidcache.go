package grain

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// maxCachedPIDs bounds the cache of one process. A miss costs one message to the owner.
const maxCachedPIDs = 65_536

// pidCache remembers where activations were found. A stale entry is harmless: its PID answers with a
// dead letter, and the request that met it removes it.
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

// put stores pid and, when the cache is full, drops an arbitrary other entry. Use order is not kept:
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

// remove forgets id if it still maps to pid; a newer activation's entry stays.
func (c *pidCache) remove(id string, pid *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cur, ok := c.pids[id]; ok && cur.Equal(pid) {
		delete(c.pids, id)
	}
}

// retain forgets every activation that is not where owner says its identity belongs.
func (c *pidCache) retain(owner func(id string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, pid := range c.pids {
		if pid.Address != owner(id) {
			delete(c.pids, id)
		}
	}
}

// removeAddress forgets every activation of the process that was at address.
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
