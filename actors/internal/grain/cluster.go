package grain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

// Cluster is this process's part of the cluster: the views, its activations, and the transport to the
// other members. It runs once, from Start to Stop.
type Cluster struct {
	kind        string
	log         *slog.Logger
	timeout     time.Duration
	membership  Membership
	alone       bool // no listener
	place       place
	expiry      *expiryWatch // nil without files
	keys        keys         // nil before Start, and always if insecure
	insecure    bool
	settle      time.Duration // time that Release considers a change of the view
	connects    time.Duration // connect timeout of a link, at either end
	onNode      func(proto.Message) proto.Message
	viewChanged func(View)
	linkDown    func(address string)

	system    *actor.ActorSystem
	lib       *cluster.Cluster
	lookup    *lookup
	requester *requester
	calls     *calls
	pings     *pinger
	node      *actor.PID             // nil until Start
	address   atomic.Pointer[string] // nil until it listens

	running atomic.Bool // requests are accepted

	lifecycle chan struct{} // capacity 1; the token guards the fields below
	phase     phase
	links     *links
	remote    *remote.Remote // nil until it listens
	creds     *serverCreds   // credentials of remote
	joined    bool           // Join was called
	stopErr   error
}

// aloneAddress is the address of a member without a listener.
const aloneAddress = "alone:0"

type phase int

const (
	phaseNew phase = iota
	phaseStarted
	phaseStopped
)

// New returns a cluster of actors of one kind; all members use the same kind. NewActor creates the
// actor of one identity. It runs on the placement goroutine and must not block or do I/O. The actor
// receives *actor.Started and then *cluster.ClusterInit, which names its identity.
//
// New starts no goroutine and opens no socket. It reads the TLS files; its error names the unusable
// file and the remedy.
func New(kind string, newActor func() actor.Actor, opts *Options) (*Cluster, error) {
	switch {
	case kind == "":
		return nil, errors.New("create cluster: kind is empty")
	case newActor == nil:
		return nil, fmt.Errorf("create cluster %q: newActor is nil", kind)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("create cluster %q: %w", kind, err)
	}
	c := &Cluster{
		kind: kind, log: o.Logger, timeout: o.RequestTimeout, membership: o.Membership,
		alone: o.Alone, insecure: o.Insecure, settle: settleTime, connects: connectTimeout,
		onNode: o.Node, viewChanged: o.ViewChanged, linkDown: o.LinkDown,
		lifecycle: make(chan struct{}, 1),
	}
	if c.place, err = o.place(); err != nil {
		return nil, fmt.Errorf("create cluster %q: %w", kind, err)
	}
	if o.TLS != nil && !o.Alone {
		files, err := newKeyFiles(*o.TLS, c.log)
		if err != nil {
			return nil, fmt.Errorf("create cluster %q: %w", kind, err)
		}
		c.keys, c.expiry = files, &expiryWatch{files: files, log: c.log, every: watchEvery}
	}
	c.assemble(newActor, &o)
	return c, nil
}

// assemble wires the library's parts and ours. All of it is idle until Start.
func (c *Cluster) assemble(newActor func() actor.Actor, o *Options) {
	c.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return newLibraryLog(c.log) }),
		actor.WithDeadLetterRequestLogging(false),
		// The library's dead-letter throttle keeps a goroutine for this interval. Its log line is
		// dropped.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	compactRegistry(c.system.ProcessRegistry)
	kind := cluster.NewKind(c.kind, actor.PropsFromProducer(newActor,
		actor.WithMailbox(bouncing(c.log)),
		actor.WithReceiverMiddleware(guard(c.log)),
	))
	cache := newPIDCache(maxCachedPIDs)
	c.lookup = &lookup{
		kind: c.kind, log: c.log, system: c.system, props: kind.Props, cache: cache,
		handOver: o.HandOver, cedes: cededFor,
		ready: make(chan struct{}),
	}
	c.lookup.view.Store(newView(nil, time.Now()))
	c.calls = newCalls(c.system, c.lookup.isUp)
	c.lookup.calls = c.calls
	c.requester = &requester{kind: c.kind, lookup: c.lookup, calls: c.calls, cache: cache, wait: o.OwnerWait}
	c.pings = newPinger(c.calls, c.others)
	c.lib = cluster.New(c.system, cluster.Configure("parley", nil, c.lookup, nil,
		cluster.WithKinds(kind),
		cluster.WithRequestTimeout(c.timeout),
		cluster.WithClusterContextProducer(func(lib *cluster.Cluster) cluster.Context {
			c.requester.lib = lib
			return c.requester
		}),
	))
	c.lib.IdentityLookup = c.lookup
	watchDeadLetters(c.system, c.log)
	c.system.EventStream.Subscribe(func(evt any) {
		if t, ok := evt.(*cluster.ActivationTerminating); ok {
			cache.remove(t.ClusterIdentity.GetIdentity(), t.Pid)
		}
	})
}

// registryTables is the number of tables to keep in the library's process registry. A table is 32 maps
// with a lock each.
const registryTables = 8

// compactRegistry removes most of the 1024 tables of a registry. Empty, they take 3 MB, and in time
// nearly each of the 32,768 maps permanently holds its first slots.
func compactRegistry(r *actor.ProcessRegistryValue) {
	all := r.LocalPIDs.LocalPIDs
	r.LocalPIDs = &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryTables])}
	for _, table := range all { // the library has registered processes of its own
		if table.IsEmpty() {
			continue // Items starts 65 goroutines per table.
		}
		for id, process := range table.Items() {
			table.Remove(id)
			r.LocalPIDs.GetBucket(id).Set(id, process)
		}
	}
}

// Start listens, joins the membership and returns once the first view with this member is installed.
// From then on requests are served. If Start fails, it has stopped everything it started and the
// cluster cannot be started again. ctx bounds Start only.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return fmt.Errorf("start cluster %q: %w", c.kind, err)
	}
	defer c.release()
	if c.phase != phaseNew {
		return fmt.Errorf("start cluster %q: already started or stopped", c.kind)
	}
	c.phase = phaseStarted
	if err := c.start(ctx); err != nil {
		c.phase = phaseStopped
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		c.stopErr = c.teardown(cleanup)
		return fmt.Errorf("start cluster %q: %w", c.kind, errors.Join(err, c.stopErr))
	}
	c.running.Store(true)
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	if c.alone {
		c.system.ProcessRegistry.Address = aloneAddress
	} else if err := c.startRemote(ctx); err != nil {
		return err
	}
	own := c.system.Address()
	c.address.Store(&own)
	c.lookup.Setup(c.lib, []string{c.kind}, false)
	c.spawnNode()
	host, port, err := splitAddress(c.system.Address())
	if err != nil {
		return fmt.Errorf("read own address: %w", err)
	}
	c.joined = true
	self := Member{ID: c.system.ID, Host: host, Port: port, Weight: 1}
	if err := c.membership.Join(ctx, self, c.publish); err != nil {
		return fmt.Errorf("join membership: %w", err)
	}
	select {
	case <-c.lookup.ready:
	case <-ctx.Done():
		return fmt.Errorf("wait for first view: %w", ctx.Err())
	}
	c.pings.start()
	if c.expiry != nil {
		c.expiry.start()
	}
	return nil
}

func (c *Cluster) publish(members []Member) {
	v := newView(members, time.Now())
	c.lookup.install(v)
	c.pings.viewChanged()
	if c.viewChanged != nil {
		c.viewChanged(v.View)
	}
}

// Stop rejects new requests, stops the activations and waits for them. It then leaves the membership
// and closes the listener. Each activation receives *actor.Stopping and may finish there.
//
// If ctx ends first, Stop continues without waiting for activations, and its error counts those still
// running. Closing the links may take another second. A peer cannot delay it. Later calls wait for the
// first and return its result. Requests that wait for a reply end with ErrOutcomeUnknown.
func (c *Cluster) Stop(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return fmt.Errorf("stop cluster %q: %w", c.kind, err)
	}
	defer c.release()
	if c.phase != phaseStopped {
		c.phase = phaseStopped
		c.stopErr = c.teardown(ctx)
	}
	if c.stopErr != nil {
		return fmt.Errorf("stop cluster %q: %w", c.kind, c.stopErr)
	}
	return nil
}

func (c *Cluster) teardown(ctx context.Context) error {
	c.running.Store(false)
	var drained, left error
	if c.lookup.placement != nil {
		drained = c.lookup.drain(ctx)
	}
	if c.joined {
		if left = c.membership.Leave(ctx); left != nil {
			left = fmt.Errorf("leave membership: %w", left)
		}
	}
	c.pings.close()
	c.expiry.close()
	close(c.calls.closed)
	switch {
	case c.lookup.placement == nil:
	case drained == nil:
		c.lookup.Shutdown()
	default:
		c.lookup.abandon()
	}
	if c.node != nil {
		c.system.Root.Stop(c.node)
	}
	if c.remote != nil {
		c.stopRemote()
	}
	c.system.Shutdown()
	return errors.Join(drained, left)
}

func (c *Cluster) acquire(ctx context.Context) error {
	select {
	case c.lifecycle <- struct{}{}: // even if ctx has ended: select would choose at random
		return nil
	default:
	}
	select {
	case c.lifecycle <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Cluster) release() { <-c.lifecycle }

// Request delivers m to the activation of id, which is created if necessary, and returns its reply.
// For at most OwnerWait it looks for an owner that accepts m. It retries attempts that reached no
// actor, with a backoff of 5 to 200 ms. After the handover it waits for the reply until ctx's
// deadline, or for RequestTimeout if ctx has none.
//
// It returns ErrNoOwner, ErrOutcomeUnknown or ErrPanicked, wrapped. The first two also wrap ctx's
// error if that ended the wait. The caller and the actor share m and the reply; neither may be
// changed.
func (c *Cluster) Request(ctx context.Context, id string, m proto.Message) (proto.Message, error) {
	if id == "" || m == nil {
		return nil, errors.New("request: identity or message is missing")
	}
	if !c.running.Load() {
		return nil, fmt.Errorf("request %q: %w: %w", id, ErrNoOwner, errStopped)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	reply, err := c.requester.request(ctx, id, m)
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", id, err)
	}
	p, ok := reply.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("request %q: reply of type %T is no protobuf message", id, reply)
	}
	return p, nil
}

// bounded adds a deadline to ctx if it has none.
func (c *Cluster) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// MemberID returns the ID of this process among the members. It is new for every Cluster.
func (c *Cluster) MemberID() string { return c.system.ID }

// System returns the actor system, for actors that send to themselves from other goroutines. The
// Cluster starts and stops it.
func (c *Cluster) System() *actor.ActorSystem { return c.system }

// ActiveCount returns the number of activations in this process, including stopping ones.
func (c *Cluster) ActiveCount() int { return int(c.lookup.active.Load()) }
