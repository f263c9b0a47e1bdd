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

// CallsTo returns the number of pending calls to the member at address.
func (c *Cluster) CallsTo(address string) int {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return len(c.calls.remote[address])
}

// QueuedFor returns the number of messages in the mailbox of pid.
func (c *Cluster) QueuedFor(pid *actor.PID) int {
	p, _ := c.system.ProcessRegistry.Get(pid)
	// The library does not export a process's mailbox.
	f := reflect.ValueOf(p).Elem().FieldByName("mailbox")
	m := *(*actor.Mailbox)(unsafe.Pointer(f.UnsafeAddr()))
	return m.UserMessageCount()
}

// Keys is one key pair shared by several members, as real members share an authority.
type Keys struct{ set *keySet }

func NewKeys() (*Keys, error) {
	set, err := newKeys()
	return &Keys{set: set}, err
}

// Client returns a dialing member's TLS configuration.
func (k *Keys) Client() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{k.set.cert}, RootCAs: k.set.pool, ServerName: memberName}
}

// UseKeys makes Start use k instead of generated keys.
func (c *Cluster) UseKeys(k *Keys) { c.keys = k.set }

// Certificate returns the certificate that a handshake would use now.
func (c *Cluster) Certificate() tls.Certificate { return c.keys.current().cert }

// ResetRefusals starts a new second of the refusal log.
func (c *Cluster) ResetRefusals() {
	r := c.creds.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Time{}
}

// SettleAfter sets the time that Release considers a change of the view.
func (c *Cluster) SettleAfter(d time.Duration) { c.settle = d }

// CedeFor sets the time that a requested identity is not activated here.
func (c *Cluster) CedeFor(d time.Duration) { c.lookup.cedes = d }

// ConnectFor sets the connect timeout of links, at either end; before Start.
func (c *Cluster) ConnectFor(d time.Duration) { c.connects = d }

// Ranked returns the members that Release asks.
func (c *Cluster) Ranked(id string, most int) []string {
	return c.lookup.view.Load().ranked(id, c.system.Address(), most, false)
}

// MayRun returns the members that Release asks while the view is new.
func (c *Cluster) MayRun(id string) []string {
	return c.lookup.view.Load().mayRun(id, c.system.Address(), false)
}

// OpenLinks returns the number of links to other members, connected or not.
func (c *Cluster) OpenLinks() int {
	c.links.mu.Lock()
	defer c.links.mu.Unlock()
	n := 0
	for _, open := range c.links.open {
		n += len(open)
	}
	return n
}

// Owner returns the rendezvous choice for id among members of equal weight at these addresses.
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

// LowestOfEqual returns the winner of several equal scores.
func LowestOfEqual(addresses ...string) string {
	best := choice{at: -1}
	for i, a := range addresses {
		best = best.or(i, a, 1)
	}
	return best.address
}

// CertificateWatch is the certificate watch of a cluster with TLS files.
type CertificateWatch struct{ w *expiryWatch }

// Watch starts a watch with an interval of ten minutes, because the tests cover months of virtual
// time.
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

// Expiry returns the expiry of a cluster with the files.
func (c *CertificateWatch) Expiry() Expiry {
	e, _ := (&Cluster{keys: c.w.files}).Expiry()
	return e
}
