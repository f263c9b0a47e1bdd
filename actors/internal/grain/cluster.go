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

const defaultRequestTimeout = 5 * time.Second

// Options are the optional parts of a Cluster. Nil and zero fields mean the defaults.
type Options struct {
	// Logger gets warnings and errors, and dead letters at debug. Nil discards them.
	Logger *slog.Logger
	// RequestTimeout bounds a Request whose context has no deadline. Zero is 5 s.
	RequestTimeout time.Duration
	// Membership says who else is a member. Nil is Single.
	Membership Membership
}

// Cluster is this process's part in the cluster: its members' views, its activations and the way to
// those of others. It runs once: from Start to Stop.
type Cluster struct {
	kind       string
	log        *slog.Logger
	timeout    time.Duration
	membership Membership
	newKeys    func(host string) (*keyPair, error)

	system    *actor.ActorSystem
	lib       *cluster.Cluster
	lookup    *lookup
	requester *requester
	calls     *calls

	running atomic.Bool // requests are taken

	life    chan struct{} // capacity 1; holding its token is holding the fields below
	phase   phase
	remote  *remote.Remote // nil until it listens
	joined  bool           // Join was called
	stopErr error
}

type phase int

const (
	phaseNew phase = iota
	phaseStarted
	phaseStopped
)

// New makes a cluster of actors of one kind, which is the same in all members. NewActor makes the
// actor of one identity; it is called on the placement goroutine and must not block or do I/O. The
// actor gets *actor.Started and then *cluster.ClusterInit, which names its identity.
//
// New starts no goroutine and opens no socket.
func New(kind string, newActor func() actor.Actor, opts *Options) (*Cluster, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case kind == "":
		return nil, errors.New("make cluster: kind is empty")
	case newActor == nil:
		return nil, fmt.Errorf("make cluster %q: newActor is nil", kind)
	case opts.RequestTimeout < 0:
		return nil, fmt.Errorf("make cluster %q: request timeout %v is negative", kind, opts.RequestTimeout)
	}
	c := &Cluster{
		kind:       kind,
		log:        opts.Logger,
		timeout:    opts.RequestTimeout,
		membership: opts.Membership,
		newKeys:    newKeyPair,
		life:       make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.timeout == 0 {
		c.timeout = defaultRequestTimeout
	}
	if c.membership == nil {
		c.membership = Single{}
	}
	c.assemble(newActor)
	return c, nil
}

// assemble wires the library's parts and ours; all of it is idle until Start.
func (c *Cluster) assemble(newActor func() actor.Actor) {
	c.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return newLibraryLog(c.log) }),
		actor.WithDeadLetterRequestLogging(false),
		// The library's dead-letter throttle keeps a goroutine for this long; its log line is dropped anyway.
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
		ready: make(chan struct{}),
	}
	c.lookup.view.Store(&view{})
	c.calls = newCalls(c.system, c.lookup.isUp)
	c.lookup.calls = c.calls
	c.requester = &requester{kind: c.kind, lookup: c.lookup, calls: c.calls, cache: cache}
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

// registryTables is what the library's process registry is left with, each table being 32 maps that
// have a lock of their own.
const registryTables = 8

// compactRegistry takes away most of the 1024 tables of a registry. Empty, they are 3 MB, and as
// processes come and go nearly each of the 32,768 maps comes to hold its first few slots for good.
func compactRegistry(r *actor.ProcessRegistryValue) {
	all := r.LocalPIDs.LocalPIDs
	r.LocalPIDs = &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryTables])}
	for _, table := range all { // the library has registered some processes of its own
		for id, process := range table.Items() {
			table.Remove(id)
			r.LocalPIDs.GetBucket(id).Set(id, process)
		}
	}
}

// Start listens, joins the membership and returns when the first view that holds this member is in
// place: from then on requests are served. When it fails, everything it started has been stopped and
// the cluster cannot be started again. ctx bounds Start alone.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return fmt.Errorf("start cluster %q: %w", c.kind, err)
	}
	defer c.release()
	if c.phase != phaseNew {
		return fmt.Errorf("start cluster %q: it was started or stopped before", c.kind)
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
	keys, err := c.newKeys(listenHost)
	if err != nil {
		return fmt.Errorf("make key pair: %w", err)
	}
	if err := c.startRemote(ctx, keys); err != nil {
		return err
	}
	c.lookup.Setup(c.lib, []string{c.kind}, false)
	host, port, err := c.system.GetHostPort()
	if err != nil {
		return fmt.Errorf("read own address: %w", err)
	}
	c.joined = true
	if err := c.membership.Join(ctx, Member{ID: c.system.ID, Host: host, Port: port}, c.publish); err != nil {
		return fmt.Errorf("join membership: %w", err)
	}
	select {
	case <-c.lookup.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for first view: %w", ctx.Err())
	}
}

// publish hands a view to the library, whose event reaches lookup before this returns.
func (c *Cluster) publish(view []Member) {
	c.lib.MemberList.UpdateClusterTopology(libraryMembers(view, c.kind))
}

// Stop takes no more requests, stops the activations and waits for them, then leaves the membership
// and closes the listener. Each activation gets *actor.Stopping and may finish there.
//
// When ctx ends first, Stop goes on without waiting for activations and says how many were left
// running; closing the listener may still take 3 s if a client hangs in its handshake. Later calls
// wait for the first and return its result. Requests that wait for a reply end with ErrOutcomeUnknown.
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

// teardown undoes what start has done, in the opposite order.
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
	close(c.calls.closed)
	switch {
	case c.lookup.placement == nil:
	case drained == nil:
		c.lookup.Shutdown()
	default:
		c.lookup.abandon()
	}
	if c.remote != nil {
		c.stopRemote()
	}
	c.system.Shutdown()
	return errors.Join(drained, left)
}

func (c *Cluster) acquire(ctx context.Context) error {
	select {
	case c.life <- struct{}{}: // also when ctx is over: a select would choose by chance
		return nil
	default:
	}
	select {
	case c.life <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Cluster) release() { <-c.life }

// Request brings m to the activation of id, which is made if there is none, and returns its reply.
// Attempts that certainly reached no actor are repeated, with pauses of 5 to 200 ms, until ctx's
// deadline or, if it has none, for RequestTimeout.
//
// It returns ErrNoOwner, ErrOutcomeUnknown or ErrPanicked, wrapped, and with the first two the
// context's error if it was that which ended the wait. The reply belongs to the caller and the actor
// alike: neither it nor m may be changed.
func (c *Cluster) Request(ctx context.Context, id string, m proto.Message) (proto.Message, error) {
	if id == "" || m == nil {
		return nil, errors.New("request: identity or message is missing")
	}
	if !c.running.Load() {
		return nil, fmt.Errorf("request %q: %w: %w", id, ErrNoOwner, errStopped)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
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

// MemberID names this process among the members; it is new for every Cluster.
func (c *Cluster) MemberID() string { return c.system.ID }

// System is the actor system, for actors that send to themselves from other goroutines. Its life
// cycle belongs to the Cluster.
func (c *Cluster) System() *actor.ActorSystem { return c.system }

// ActiveCount is the number of activations in this process, those that are stopping included.
func (c *Cluster) ActiveCount() int { return int(c.lookup.active.Load()) }
