package grain

import (
	"crypto/tls"
	"reflect"
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

var Mix64 = mix64

type PIDCache = pidCache

func NewPIDCache(max int) *PIDCache { return newPIDCache(max) }

func (c *pidCache) Get(id string) (*actor.PID, bool) { return c.get(id) }
func (c *pidCache) Put(id string, pid *actor.PID)    { c.put(id, pid) }
func (c *pidCache) Remove(id string, pid *actor.PID) { c.remove(id, pid) }
func (c *pidCache) RemoveAddress(address string)     { c.removeAddress(address) }
func (c *pidCache) Len() int                         { return c.len() }

func (c *Cluster) Cached(id string) (*actor.PID, bool) { return c.requester.cache.get(id) }
func (c *Cluster) Cache(id string, pid *actor.PID)     { c.requester.cache.put(id, pid) }
func (c *Cluster) PlacementPID() *actor.PID            { return c.lookup.placement }
func (c *Cluster) Library() *cluster.Cluster           { return c.lib }

// CallsTo is how many calls to the member at address wait for a reply.
func (c *Cluster) CallsTo(address string) int {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return len(c.calls.remote[address])
}

// QueuedFor is how many messages wait in the mailbox behind pid.
func (c *Cluster) QueuedFor(pid *actor.PID) int {
	p, _ := c.system.ProcessRegistry.Get(pid)
	// The library keeps a process's mailbox to itself.
	f := reflect.ValueOf(p).Elem().FieldByName("mailbox")
	m := *(*actor.Mailbox)(unsafe.Pointer(f.UnsafeAddr()))
	return m.UserMessageCount()
}

// Keys is one key pair that several members share, as members of a real cluster share an authority.
type Keys struct{ pair *keyPair }

func NewKeys() (*Keys, error) {
	pair, err := newKeyPair(listenHost)
	return &Keys{pair: pair}, err
}

// Client is what a member shows when it dials.
func (k *Keys) Client() *tls.Config { return k.pair.client.Clone() }

// UseKeys makes Start use k instead of keys of its own.
func (c *Cluster) UseKeys(k *Keys) {
	c.newKeys = func(string) (*keyPair, error) { return k.pair, nil }
}

// Owner is the rendezvous choice of id among addresses.
func Owner(addresses []string, id string) string {
	v := &view{}
	for _, a := range addresses {
		v.nodes = append(v.nodes, node{address: a, hash: hash64(a)})
	}
	return v.owner(id)
}
