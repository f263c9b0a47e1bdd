package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

// eventsTimeout exceeds the shutdown time of the exporter.
const eventsTimeout = 40 * time.Second

// kind is the name of the conversation actors in the cluster.
const kind = "conversation"

// Runtime serves the conversations of a bucket on this node. It implements
// [conversation.Dispatcher]; [Runtime.Reader] reads.
type Runtime struct {
	opts      Options
	bucket    storage.Bucket
	logs      *storage.Logs
	agents    map[string]*agent.Agent
	world     *world
	accounts  accounts
	tasks     *tasks
	active    *activations
	edge      *edge
	nodes     *nodes
	followers *follower.Set
	history   *history.Store
	work      *work.Node
	events    *events.Fanout
	sweeper   *pending.Sweeper // nil until a host is attached
}

var _ conversation.Dispatcher = (*Runtime)(nil)

// New returns a runtime over a bucket. The agents must be valid and their names distinct. New sends no
// request.
//
// A model that Options.Providers cannot call is an error of [providers.Registry.Check]. A model whose
// format has no registered protocol is only logged as a warning; its calls fail.
//
// [storage.IsExclusive] decides how the bucket is served. A bucket that other processes can reach is
// probed before use, and the node keeps a row and a heartbeat in its member list. With Options.Cluster
// the node shares such a bucket; without, it does not start while another node is alive. An exclusive
// bucket needs none of this.
func New(bucket storage.Bucket, opts *Options) (*Runtime, error) {
	r, err := newRuntime(bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	newGrain := func() grain.Grain { return newActivation(r) }
	cluster, err := grain.New(kind, grain.Actors(newGrain), r.grainOptions())
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	if err := r.attach(cluster); err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	return r, nil
}

// newRuntime returns a runtime without a host.
func newRuntime(bucket storage.Bucket, opts *Options) (*Runtime, error) {
	if bucket == nil {
		return nil, errors.New("bucket is nil")
	}
	exclusive := storage.IsExclusive(bucket)
	o, err := opts.withDefaults(exclusive)
	if err != nil {
		return nil, err
	}
	known := events.NewAddresses()
	o.Logger = withNames(o.Logger, known)
	bucket = watchBucket(bucket, o.Logger)
	r := &Runtime{
		opts: o, bucket: bucket, agents: map[string]*agent.Agent{}, tasks: newTasks(o.Logger),
		accounts: newAccounts(o.Memory, o.IdleBytes/2, memory.Turns()),
	}
	for _, a := range o.Agents {
		if err := a.Validate(); err != nil {
			return nil, fmt.Errorf("agent %q: %w", a.Name, err)
		}
		if r.agents[a.Name] != nil {
			return nil, fmt.Errorf("agent %q is registered twice", a.Name)
		}
		if err := o.Outbox.CheckNotices(a.Notify, a.Notifiable); err != nil {
			return nil, fmt.Errorf("agent %q: check targets of notices: %w", a.Name, err)
		}
		if _, workflow := conversation.WorkflowOf(a.Name); opts.Providers != nil && !workflow {
			if err := checkModels(o.Providers, a, a.Limits, o.Logger); err != nil {
				return nil, err
			}
		}
		r.agents[a.Name] = a
	}
	m := &members{bucket: bucket, opts: &r.opts, load: r.load, lost: r.expelled}
	if !exclusive {
		r.bucket = gate{bucket, m}
	}
	r.logs, r.world = storage.NewLogs(r.bucket, o.Log), newWorld(m.unread)
	r.active = &activations{
		machines: r.machineConfig(), byKey: map[conversation.Key]running{},
		writerCache: newWriterCache(o.EvictAfter-o.UnloadAfter, r.world.began, r.accounts.idle.Shelf("writers"), o.IdleBytes/8),
	}
	r.nodes = &nodes{members: m, exclusive: exclusive, active: r.active}
	m.reached = r.nodes.reached
	r.edge = &edge{known: known, ready: make(chan struct{}), ended: r.active.draining.Load}
	source := follower.SuspectStore(r.logs, o.Logger)
	r.initSubsystems(source)
	if r.followers, err = follower.New(source, r.followerOptions()); err != nil {
		return nil, err
	}
	return r, nil
}

// initSubsystems creates the subsystems that need no host.
func (r *Runtime) initSubsystems(source follower.Source) {
	o := &r.opts
	r.events = events.New(events.Options{Addresses: r.edge.known, Observers: o.Events.Observers, Logger: o.Logger, DurableOnly: o.Events.DurableOnly, Prompts: o.Events.Prompts, Content: r.showsContent})
	shown := prompt.NewRenderer(r.bucket)
	r.history = history.New(history.Options{
		Logs: r.logs, Source: source, Prompt: shown, Logger: o.Logger, Turns: r.accounts.conversations, Writes: r.accounts.writes, ReadTimeout: openTimeout,
		SegmentBatches: o.SegmentBatches, SegmentGrace: o.SegmentGrace, MarkEvents: o.EventStreams, Save: r.tasks.save, Ending: r.active.draining.Load,
	})
	r.work = work.NewNode(work.NodeOptions{
		Agents: r.agents, Providers: o.Providers, Logger: o.Logger, VendorMessages: o.VendorMessages, Bucket: r.bucket, History: r.history, Prompt: shown, Calls: r.accounts.calls, Outputs: r.accounts.outputs,
		FirstEvent: o.FirstEvent, BetweenEvents: o.BetweenEvents, WholeCall: o.WholeCall, HookTimeout: o.HookTimeout,
		StoreTimeout: o.AdmitTimeout, RetryPause: o.RetryPause, DispatchesAtOnce: o.DispatchesAtOnce,
		Outbox: &o.Outbox, Admit: r.Admit, AskTree: r.queryTree, Pending: r.pending, RunResult: r.runResult, Spawn: r.tasks.spawn, BaseContext: r.tasks.ctx,
	})
}

// machineConfig returns the configuration shared by all machines of the node.
func (r *Runtime) machineConfig() machine.Config {
	o := &r.opts
	return machine.Config{
		Limits: r.limits, Replies: o.Outbox.Replies, Pace: o.Pace, RetryPause: o.RetryPause, IdleAfter: min(o.UnloadAfter, o.EvictAfter),
		MaxWaiting: o.MaxWaiting, MaxWaitingBytes: o.MaxWaitingBytes, MaxPendingBytes: maxPendingBytes, MaxBatchBytes: maxBatchBytes(o.Log),
		CheckpointBatches: o.CheckpointBatches, CheckpointBytes: checkpointBytes, RestBatches: o.SegmentBatches,
	}
}

// maxBatchBytes returns a quarter of the log's limit, because an unsplittable message may add twice as
// much.
func maxBatchBytes(o *storage.LogOptions) int {
	limit := int64(storage.DefaultMaxBytes)
	if o != nil && o.MaxBatchBytes > 0 {
		limit = o.MaxBatchBytes
	}
	return int(limit / 4)
}

// attach sets the host and creates the subsystems that need this node's incarnation.
func (r *Runtime) attach(h host) error {
	r.nodes.attach(h, &r.opts, r.followers)
	r.sweeper = pending.New(pending.Options{
		Bucket: r.bucket, Logger: r.opts.Logger, Member: h.MemberID(), Every: r.opts.SweepEvery, QuarantineAfter: r.opts.QuarantineAfter,
		Shared: r.nodes.peers != nil, Wall: func() time.Time { return r.world.wall() }, IsMember: r.nodes.members.has, Passive: r.nodes.members.passive, Owns: r.nodes.owns,
		Request: h.Request, Writes: r.active.writes, BeforeSweep: r.active.writerCache.expire,
	})
	return r.export()
}

// Reader returns the reader of this node.
func (r *Runtime) Reader() conversation.Reader { return r.reader() }

func (r *Runtime) reader() reader {
	return reader{r.followers, r.bucket, r.sweeper.Quarantine, r.edge.known}
}

// runResult returns the result of a completed run.
func (r *Runtime) runResult(ctx context.Context, id conversation.RunID) (json.RawMessage, error) {
	_, run, err := conversation.AwaitRun(ctx, r.reader(), id)
	if err == nil {
		err = run.Err()
	}
	if err != nil {
		return nil, err
	}
	return run.Output, nil
}

// pending reports whether a submission is unsettled, and its sender.
func (r *Runtime) pending(ctx context.Context, of conversation.Sender) (by *conversation.Sender, pending bool, err error) {
	if err := r.sweeper.Quarantine.Refused(r.edge.known.Put(of.Address)); err != nil {
		return nil, false, err
	}
	return r.followers.Pending(ctx, of)
}

// Serves reports whether an agent is registered under the name.
func (r *Runtime) Serves(agent string) bool { return r.agents[agent] != nil }

// Ready returns a channel that is closed once Run accepts requests.
func (r *Runtime) Ready() <-chan struct{} { return r.edge.ready }

// Run serves until ctx ends, then releases every conversation and stops. That takes about
// DrainTimeout, or a few times as long if the bucket does not answer. Run may be called once. It
// returns nil after a graceful shutdown. It returns a [*BucketError] if the bucket is unusable, and a
// [*MemberError] if this node cannot be or no longer is a member. Any other error prevented start or
// stop.
func (r *Runtime) Run(ctx context.Context) error {
	if err := r.reach(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Stopped before it served a request.
		}
		return fmt.Errorf("run: %w", &BucketError{err})
	}
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.edge.end = end
	if err := r.nodes.host.Start(serving); err != nil {
		if ctx.Err() != nil {
			return nil // Stopped before it served a request.
		}
		return fmt.Errorf("run: %w", err)
	}
	return r.serve(serving)
}

// expelled ends a node that the members lack. The others fence its writers.
func (r *Runtime) expelled(err error) {
	outage.Unfiltered(r.opts.Logger).Error("not a member any more, stopping", "member", r.nodes.host.MemberID(), "address", r.nodes.members.address(), "err", err)
	r.edge.end(err)
}

// serve runs the node until ctx ends.
func (r *Runtime) serve(ctx context.Context) error {
	// The drain outlives ctx.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	var followErr error
	wg.Go(func() { r.sweeper.Journal.Run(inner) })
	wg.Go(func() { r.history.Run(inner) })
	wg.Go(func() { followErr = r.followers.Run(inner) })
	if r.nodes.relay != nil {
		wg.Go(func() { r.nodes.relay.Run(inner) })
	}
	var sweeps sync.WaitGroup
	r.sweeper.InitialScan(ctx)
	sweeps.Go(func() { r.sweeper.Run(ctx) })
	sweeps.Go(func() { r.sweeper.RunProbes(ctx) })
	sweeps.Go(func() { r.sweeper.Timers.Run(ctx) })
	var emitting sync.WaitGroup
	untilEmitted, endEvents := context.WithCancel(context.WithoutCancel(ctx))
	defer endEvents()
	r.events.Run(untilEmitted, &emitting, r.sweeper.Journal.Release)
	r.edge.open()

	<-ctx.Done()
	var lost *MemberError
	var err error
	if errors.As(context.Cause(ctx), &lost) {
		err = fmt.Errorf("run: %w", lost)
		r.active.draining.Store(true)
		r.tasks.abandon()
	}
	sweeps.Wait()
	if lost == nil {
		r.release(context.WithoutCancel(ctx))
	}
	cancel()
	wg.Wait()
	return errors.Join(err, r.stop(context.WithoutCancel(ctx), func() {
		endEvents()
		r.awaitEvents(&emitting)
	}), followErr)
}

// awaitEvents waits for exporter and observers. Exceeding eventsTimeout needs a sink that ignores its
// context, or a slow observer, which has none.
func (r *Runtime) awaitEvents(emitting *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		emitting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(eventsTimeout):
		r.opts.Logger.Warn("shutdown timeout: sinks or observers running")
	}
}

// release ends the activations. Those that are late are stopped afterwards.
func (r *Runtime) release(ctx context.Context) {
	r.active.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer cancel()
	select {
	case <-r.active.drain():
	case <-ctx.Done():
		r.opts.Logger.Warn("shutdown timeout: conversations not released", "remedy", "the next start recovers them")
	}
	r.tasks.cancel()
}

// stop ends the rest. The node leaves the members last, so that all its writes are those of a member.
// So a node that wants the bucket alone waits for them.
func (r *Runtime) stop(ctx context.Context, endEvents func()) error {
	r.edge.wait(r.opts.AdmitTimeout)
	r.tasks.wait(r.opts.DrainTimeout)
	endEvents() // Export is complete now: an entry may leave the journal only once its events are shipped.
	final, done := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer done()
	r.sweeper.Journal.Close(final)
	stop, stopped := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer stopped()
	if err := r.nodes.host.Stop(stop); err != nil {
		return fmt.Errorf("stop node: %w", err)
	}
	return nil
}

// limits returns the agent's limits for the machine.
func (r *Runtime) limits(name string) (machine.Limits, bool) {
	a := r.agents[name]
	if a == nil {
		return machine.Limits{}, false
	}
	function, _ := conversation.WorkflowOf(name)
	d, l := a.Durability.WithDefaults(), a.Limits.WithDefaults()
	return machine.Limits{
		MaxAttempts: d.MaxAttempts, Timeout: d.Timeout, Patience: d.Patience, MaxResponse: l.ResponseBytes, MaxCalls: l.CallsPerReply,
		MaxCallBytes: l.OutputBytes, MaxTurns: l.Turns, MaxToolCalls: l.ToolCalls, MaxTokens: l.Tokens, MaxDollars: l.Dollars, MaxTree: l.TreeSubmissions, MaxTreeDollars: l.TreeDollars,
		ToolConcurrency:     cmp.Or(a.ToolConcurrency, agent.DefaultToolConcurrency),
		DeliveryStartedHook: a.Hooks.DeliveryStarted != nil, ResponseFinishedHook: a.Hooks.WouldStop != nil || a.Hooks.ResponseFinished != nil || a.Output != nil,
		SettledHook: a.Hooks.Settled != nil, AnswerInOrder: a.AnswerInOrder, Notify: a.Notify, Function: function,
	}, true
}

// showsContent reports whether events and logs of an agent may show message content to operators.
func (r *Runtime) showsContent(name string) bool {
	a := r.agents[name]
	return a != nil && a.Events.Content
}
