package grain

import (
	"crypto/tls"
	"log/slog"
	"reflect"
	"testing"
	"time"
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
func (c *pidCache) Retain(owner func(string) string) { c.retain(owner) }
func (c *pidCache) Len() int                         { return c.len() }

func (c *Cluster) Cached(id string) (*actor.PID, bool) { return c.requester.cache.get(id) }
func (c *Cluster) Cache(id string, pid *actor.PID)     { c.requester.cache.put(id, pid) }
func (c *Cluster) PlacementPID() *actor.PID            { return c.lookup.placement }
func (c *Cluster) Library() *cluster.Cluster           { return c.lib }

// StopPings leaves the calls to other members to the test.
func (c *Cluster) StopPings() { c.pings.close() }

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
type Keys struct{ set *keySet }

func NewKeys() (*Keys, error) {
	set, err := newKeys()
	return &Keys{set: set}, err
}

// Client is what a member shows when it dials.
func (k *Keys) Client() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{k.set.cert}, RootCAs: k.set.pool, ServerName: memberName}
}

// UseKeys makes Start use k instead of keys of its own.
func (c *Cluster) UseKeys(k *Keys) { c.keys = k.set }

// Certificate is what a handshake would show now.
func (c *Cluster) Certificate() tls.Certificate { return c.keys.current().cert }

// ForgetRefusals begins a new second for the log of refusals.
func (c *Cluster) ForgetRefusals() {
	r := c.door.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Time{}
}

// SettleAfter sets how long Release heeds a change of the view.
func (c *Cluster) SettleAfter(d time.Duration) { c.settle = d }

// CedeFor sets for how long what another member has asked for is not activated here.
func (c *Cluster) CedeFor(d time.Duration) { c.lookup.cedes = d }

// ConnectFor sets for how long a link connects, at either end; before Start.
func (c *Cluster) ConnectFor(d time.Duration) { c.connects = d }

// Ranked are the members that Release asks.
func (c *Cluster) Ranked(id string, most int) []string {
	return c.lookup.view.Load().ranked(id, c.system.Address(), most, false)
}

// MayRun are the members that Release asks while the view is new.
func (c *Cluster) MayRun(id string) []string {
	return c.lookup.view.Load().mayRun(id, c.system.Address(), false)
}

// OpenLinks is how many links to other members there are, connected or not.
func (c *Cluster) OpenLinks() int {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	n := 0
	for _, open := range c.links.open {
		n += len(open)
	}
	return n
}

// Owner is the rendezvous choice of id among members of equal weight at these addresses.
func Owner(addresses []string, id string) string {
	var members []Member
	for _, a := range addresses {
		host, port, err := splitAddress(a)
		if err != nil {
			panic(err)
		}
		members = append(members, Member{ID: a, Host: host, Port: port, Weight: 1})
	}
	return newView(members, time.Time{}).owner(id)
}

// LowestOfEqual is which of several equal claims wins.
func LowestOfEqual(addresses ...string) string {
	best := choice{at: -1}
	for i, a := range addresses {
		best = best.or(i, a, 1)
	}
	return best.address
}

// CertificateWatch is what a cluster runs over its TLS files.
type CertificateWatch struct{ w *expiryWatch }

// Watch starts one that looks every ten minutes: in months of virtual time a minute is short.
func Watch(tb testing.TB, files TLSFiles, log *slog.Logger) *CertificateWatch {
	tb.Helper()
	k, err := newKeyFiles(files, log)
	if err != nil {
		tb.Fatal(err)
	}
	w := &expiryWatch{files: k, log: log, every: 10 * time.Minute}
	w.start()
	return &CertificateWatch{w}
}

func (c *CertificateWatch) Close() { c.w.close() }

// Expiry is that of a cluster with the files.
func (c *CertificateWatch) Expiry() Expiry {
	e, _ := (&Cluster{keys: c.w.files}).Expiry()
	return e
}
