package actors

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/busy"
	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/relay"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// tellTimeout is longer than the exporter takes to end.
const tellTimeout = 40 * time.Second

// kind is the name of the conversation actors in the cluster.
const kind = "conversation"

// Options are the optional parts of a [Runtime]. Zero fields mean the defaults.
type Options struct {
	// Agents are the agents this node serves, all of one deployment.
	Agents []*agent.Agent
	// Providers resolves and calls models. Nil serves no model: every submission
	// fails.
	Providers *providers.Registry
	// Logger gets what operators need to know. Nil discards it.
	Logger *slog.Logger
	// Pace is the least time between the starts of two appends of streamed text. Zero is
	// 250 ms, and 50 ms over an exclusive bucket, whose writes take about a millisecond.
	Pace time.Duration
	// RetryPause is the pause before the first repetition of a model call that failed
	// for a passing reason; it doubles with each of at most three. Zero is 1 s.
	RetryPause time.Duration
	// FirstEvent, BetweenEvents and WholeCall bound a model call: the wait for its
	// first event, between two, and for its end. Zero is 60 s, 30 s and 10 min.
	FirstEvent, BetweenEvents, WholeCall time.Duration
	// HookTimeout bounds a hook of an agent. Zero is 10 s.
	HookTimeout time.Duration
	// IdleShedAfter is how long an idle conversation stays in memory, and IdleAfter how
	// long it stays this node's: until then the next submission reads the log again but
	// needs no new claim on it. Both count from its last work. Zero is 30 s and 5 min;
	// nothing stays longer than IdleAfter. IdleBytes may end both before.
	IdleShedAfter, IdleAfter time.Duration
	// SweepEvery is the time between two sweeps of the busy journals. Zero is 30 s.
	SweepEvery time.Duration
	// AppendTimeout is how long an append may stay unresolved before its
	// conversation steps down. Zero is 30 s.
	AppendTimeout time.Duration
	// AdmitTimeout bounds an admission whose caller set no earlier deadline. Zero is 10 s.
	AdmitTimeout time.Duration
	// DrainTimeout bounds the orderly end of Run. Zero is 10 s.
	DrainTimeout time.Duration
	// CheckpointBatches is how many batches a log grows by until a checkpoint is
	// stored, if it does not grow by 256 KiB before. Zero is 64.
	CheckpointBatches int
	// CompactBatches is how many batches wait until they are put into a segment together,
	// when a checkpoint is stored and at the end of a turn. Zero is 32.
	CompactBatches int
	// CompactGrace is how long batches stay that are in a segment, for readers who are
	// about to read them. Zero is 10 min, and 10 s over an exclusive bucket, whose readers
	// are in this process.
	CompactGrace time.Duration
	// MaxWaiting bounds the callers, and the submissions, that wait in one
	// conversation. Zero is 1,000.
	MaxWaiting int
	// MaxWaitingBytes bounds the messages that wait for their turn in one conversation,
	// in bytes of text and attributes. Zero is 64 MiB.
	MaxWaitingBytes int
	// Memory is the node's budget, of which "conversations", "followers", "rereads", "model calls" and "events" take. While
	// it is used up new messages are refused; what was admitted goes on. Nil bounds
	// nothing.
	Memory *memory.Budget
	// AsideAfter is after how many failures to open a conversation, of this node for a reason
	// that stays, or of nodes that died over it, it is set aside. Zero is 3.
	AsideAfter int
	// DispatchesAtOnce bounds the messages that tools and hooks of this node have under way
	// to their conversations; others wait, the agents taking turns. Zero is 16.
	DispatchesAtOnce int
	// Cluster makes this node one of several. Nil serves the bucket alone.
	Cluster *ClusterOptions
	// Advertise is the address at which people find this node, up to 256 bytes, as the
	// members of a shared bucket show it. Zero is the name of the host.
	Advertise string
	// StrictReads makes every read that is not the continuation of a live one ask the
	// bucket where the log ends, whatever node it comes to. Without it, a read without an
	// offset may miss for a heartbeat what another node has acknowledged, while the
	// members change.
	StrictReads bool
	// FollowerBytes bounds what the followers of conversations hold in memory. Zero is
	// 128 MiB. Over it, those without readers go; then conversations are read without
	// being followed, and live readers of further ones are refused. Logs that are read
	// again while they are sent have half as much beside it.
	FollowerBytes int64
	// IdleBytes bounds what of the process is occupied by conversations with nothing to do,
	// followers without readers, and the writers that are kept until IdleAfter: by their own
	// count they hold half as much, as the rest is garbage not collected yet. Zero is
	// 128 MiB. Over it what was used least recently leaves memory before its time, and
	// while half of Memory is in use what was not used for a second. At most a quarter is
	// for writers.
	IdleBytes int64
	// Log tunes the object log.
	Log *storage.LogOptions
	// Sinks get the observability events of this node. Durable events reach all of them,
	// whatever dies, at least once; live ones if they can. Adding a sink tells it nothing
	// of the past.
	Sinks []observability.Sink
	// Observers get the same events at once and as best effort: what one does not take in
	// time it never sees. [observability.Observer] is one. No two of Sinks and Observers may
	// have the same name.
	Observers []observability.Sink
	// NoLiveEvents leaves durable events alone.
	NoLiveEvents bool
	// EventGroup bounds the durable events that sinks are given at once.
	EventGroup EventGroup
}

// EventGroup is complete when the first of its bounds is reached: so many events, so many
// bytes by [observability.Size], or so long after the first of them. Zero is 10,000, 4 MiB
// and 1 s.
type EventGroup struct {
	Rows, Bytes int
	Every       time.Duration
}

// withDefaults validates the options and fills them in, for a bucket that others can reach
// or cannot.
func (o *Options) withDefaults(exclusive bool) (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	pace, grace := 250*time.Millisecond, 10*time.Minute
	if exclusive {
		pace, grace = 50*time.Millisecond, 10*time.Second
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"Pace", &out.Pace, pace},
		{"RetryPause", &out.RetryPause, time.Second},
		{"FirstEvent", &out.FirstEvent, time.Minute},
		{"BetweenEvents", &out.BetweenEvents, 30 * time.Second},
		{"WholeCall", &out.WholeCall, 10 * time.Minute},
		{"HookTimeout", &out.HookTimeout, 10 * time.Second},
		{"IdleShedAfter", &out.IdleShedAfter, 30 * time.Second},
		{"IdleAfter", &out.IdleAfter, 5 * time.Minute},
		{"SweepEvery", &out.SweepEvery, 30 * time.Second},
		{"AppendTimeout", &out.AppendTimeout, 30 * time.Second},
		{"AdmitTimeout", &out.AdmitTimeout, 10 * time.Second},
		{"DrainTimeout", &out.DrainTimeout, 10 * time.Second},
		{"CompactGrace", &out.CompactGrace, grace},
	} {
		if *d.value < 0 {
			return out, fmt.Errorf("option %s is negative: %v", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"CheckpointBatches", &out.CheckpointBatches, 64},
		{"CompactBatches", &out.CompactBatches, 32},
		{"MaxWaiting", &out.MaxWaiting, 1000},
		{"MaxWaitingBytes", &out.MaxWaitingBytes, 64 << 20},
		{"AsideAfter", &out.AsideAfter, 3},
		{"DispatchesAtOnce", &out.DispatchesAtOnce, 16},
	} {
		if *n.value < 0 {
			return out, fmt.Errorf("option %s is negative: %d", n.name, *n.value)
		}
		*n.value = cmp.Or(*n.value, n.zero)
	}
	if out.FollowerBytes < 0 || out.IdleBytes < 0 {
		return out, fmt.Errorf("option FollowerBytes or IdleBytes is negative: %d, %d", out.FollowerBytes, out.IdleBytes)
	}
	out.IdleBytes = cmp.Or(out.IdleBytes, 128<<20)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.Providers == nil {
		out.Providers = providers.NewRegistry(nil)
	}
	if err := out.checkSinks(); err != nil {
		return out, err
	}
	err := out.checkMembership(exclusive)
	return out, err
}

// Runtime serves the conversations of a bucket on this node. It implements
// [conversation.Dispatcher]; [Runtime.Reader] reads.
type Runtime struct {
	opts      Options
	log       *slog.Logger
	bucket    storage.Bucket
	exclusive bool // see storage.IsExclusive
	logs      *storage.Logs
	agents    map[string]*agent.Agent
	followers *follower.Set
	host      host
	members   *members
	peers     peers        // nil for a node without others
	relay     *relay.Relay // nil with peers
	busy      *busy.Sweeper
	resting   *resting
	events    *events.Fanout
	history   *history.Store
	work      *work.Node
	machines  machine.Config
	began     time.Time // monotonic origin of machine.Env.Mono
	// wall is the wall clock, which somebody may set; tests bring their own.
	wall func() time.Time
	// entropy returns the randomness of one activation; simulations bring their own.
	entropy  func(conversation.Key) io.Reader
	ready    chan struct{}
	draining atomic.Bool // Run is at its end
	leaving  atomic.Bool // HandOver was called
	serving  atomic.Bool
	endServe context.CancelCauseFunc
	counts   counts
	accounts accounts

	spawned sync.WaitGroup  // what activations have started
	life    context.Context // of all activations; ends before Run does
	endLife context.CancelFunc

	saves    sync.WaitGroup  // checkpoints under way, which outlive their activations
	saving   context.Context // of all of them; ends before Run does
	endSaves context.CancelFunc

	mu     sync.Mutex
	active map[conversation.Key]running
	asking asking        // has a lock of its own
	checks chan struct{} // has as much room as checks of initial data may run at once
	ended  bool          // spawn starts nothing any more
	calls  int           // requests that look for their owner
	called chan struct{} // non-nil while somebody waits for the last of them
	quiet  chan struct{} // non-nil while somebody waits for active to become empty
}

// running is an activation on this node.
type running struct {
	nonce storage.Nonce
	tell  func(any)
	tip   *atomic.Int64 // its newest batch, -1 until its claim is verified
}

var _ conversation.Dispatcher = (*Runtime)(nil)

// New returns a runtime over a bucket. The agents must be valid and their names
// distinct. Nothing is sent yet.
//
// What [storage.IsExclusive] says of the bucket decides how it is served. One that other
// processes can reach is probed before it is used, and the node keeps a row among the
// members in it, and a heartbeat: with Options.Cluster it shares the bucket with the
// others, without it does not start while another node lives. Over an exclusive one
// nothing of that is needed.
func New(bucket storage.Bucket, opts *Options) (*Runtime, error) {
	r, err := newRuntime(bucket, opts)
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	cluster, err := grain.New(kind, func() actor.Actor { return newActivation(r) }, r.grainOptions())
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	if err := r.attach(cluster); err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	return r, nil
}

// newRuntime makes a runtime that still lacks its host.
func newRuntime(bucket storage.Bucket, opts *Options) (*Runtime, error) {
	if bucket == nil {
		return nil, errors.New("bucket is nil")
	}
	exclusive := storage.IsExclusive(bucket)
	o, err := opts.withDefaults(exclusive)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		opts: o, log: o.Logger, bucket: bucket, exclusive: exclusive, logs: storage.NewLogs(bucket, o.Log),
		agents: map[string]*agent.Agent{}, active: map[conversation.Key]running{},
		entropy: func(conversation.Key) io.Reader { return rand.Reader },
		began:   time.Now(), ready: make(chan struct{}),
		checks: make(chan struct{}, memory.Turns()),
	}
	r.wall = time.Now
	r.members = &members{bucket: bucket, opts: &r.opts, load: r.load, reached: r.reached, lost: r.expelled}
	if !exclusive {
		r.bucket = gate{bucket, r.members}
		r.logs = storage.NewLogs(r.bucket, o.Log)
	}
	r.life, r.endLife = context.WithCancel(context.Background())
	r.saving, r.endSaves = context.WithCancel(context.Background())
	for _, a := range o.Agents {
		if err := a.Validate(); err != nil {
			return nil, fmt.Errorf("agent %q: %w", a.Name, err)
		}
		if r.agents[a.Name] != nil {
			return nil, fmt.Errorf("agent %q is registered twice", a.Name)
		}
		r.agents[a.Name] = a
	}
	r.accounts = newAccounts(o.Memory, o.IdleBytes/2)
	r.events = events.New(events.Options{Observers: o.Observers, Logger: r.log, DurableOnly: o.NoLiveEvents, Content: r.showsContent})
	r.resting = newResting(o.IdleAfter-o.IdleShedAfter, r.began, r.accounts.idle.Shelf("writers"), o.IdleBytes/8)
	r.history = history.New(history.Options{
		Logs: r.logs, Bucket: r.bucket, Logger: r.log, Turns: r.accounts.conversations, ReadTimeout: openTimeout,
		SegmentBatches: o.CompactBatches, SegmentGrace: o.CompactGrace, Save: r.spawnSave, Ending: r.draining.Load,
	})
	r.work = work.NewNode(work.NodeOptions{
		Agents: r.agents, Providers: o.Providers, Logger: r.log, Bucket: r.bucket, History: r.history, Calls: r.accounts.calls,
		FirstEvent: o.FirstEvent, BetweenEvents: o.BetweenEvents, WholeCall: o.WholeCall, HookTimeout: o.HookTimeout,
		StoreTimeout: o.AdmitTimeout, RetryPause: o.RetryPause, DispatchesAtOnce: o.DispatchesAtOnce,
		Admit: r.Admit, Spawn: r.spawn, Life: r.life,
	})
	r.machines = machine.Config{
		Limits: r.limits, Pace: o.Pace, RetryPause: o.RetryPause, IdleAfter: min(o.IdleShedAfter, o.IdleAfter),
		MaxWaiting: o.MaxWaiting, MaxWaitingBytes: o.MaxWaitingBytes, MaxPendingBytes: maxPendingBytes, MaxBatchBytes: maxBatchBytes(o.Log),
		CheckpointBatches: o.CheckpointBatches, CheckpointBytes: checkpointBytes,
		RestBatches: o.CompactBatches, AllRead: r.members.allRead,
	}
	if r.followers, err = follower.New(r.logs, r.followerOptions()); err != nil {
		return nil, err
	}
	return r, nil
}

// maxBatchBytes is a quarter of what the log takes: a message, which is never split, may
// add twice as much.
func maxBatchBytes(o *storage.LogOptions) int {
	limit := int64(storage.DefaultMaxBytes)
	if o != nil && o.MaxBatchBytes > 0 {
		limit = o.MaxBatchBytes
	}
	return int(limit / 4)
}

func (r *Runtime) attach(h host) error {
	r.host = h
	p, shared := h.(peers)
	shared = shared && r.opts.Cluster != nil
	r.busy = busy.New(busy.Options{
		Bucket: r.bucket, Logger: r.log, Member: h.MemberID(), Every: r.opts.SweepEvery, AsideAfter: r.opts.AsideAfter, Shared: shared,
		Wall: func() time.Time { return r.wall() }, IsMember: r.members.has, Passive: r.members.passive,
		Request: h.Request, Writes: r.writes, BeforeSweep: r.resting.expire,
	})
	if err := r.export(); err != nil {
		return err
	}
	if shared {
		r.peers = p
		r.relay = relay.New(relay.Options{
			Peers: p, Followers: r.followers, Tip: r.tipHere, Logger: r.log,
			Unknown: func(err error) bool { return errors.Is(err, grain.ErrNoOwner) },
		})
	}
	return nil
}

// Reader returns the read seam of this node.
func (r *Runtime) Reader() conversation.Reader { return reader{r.followers, r.bucket, r.busy.Asides} }

// Serves reports whether an agent is registered under the name.
func (r *Runtime) Serves(agent string) bool { return r.agents[agent] != nil }

// Ready is closed once Run takes requests.
func (r *Runtime) Ready() <-chan struct{} { return r.ready }

// Run serves until ctx ends, then releases every conversation and stops, in about
// DrainTimeout, or some times as long if the bucket does not answer. It runs once. It returns nil after an orderly end, a
// [*BucketError] if the bucket cannot be used, a [*MemberError] if this node cannot be a
// member of it, or is none any more, or why the node could not start or stop.
func (r *Runtime) Run(ctx context.Context) error {
	if err := r.reach(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop before it served anything.
		}
		return fmt.Errorf("run: %w", &BucketError{err})
	}
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.endServe = end
	if err := r.host.Start(serving); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop before it served anything.
		}
		return fmt.Errorf("run: %w", err)
	}
	return r.serve(serving)
}

// expelled ends a node that the members lack. What it has is fenced by the others.
func (r *Runtime) expelled(err error) {
	r.log.Error("not a member any more, stopping", "member", r.host.MemberID(), "err", err)
	r.endServe(err)
}

// serve runs the node until ctx ends.
func (r *Runtime) serve(ctx context.Context) error {
	// What serves the drain must outlive ctx.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	var followErr error
	wg.Go(func() { r.busy.Journal.Run(inner) })
	wg.Go(func() { r.history.Run(inner) })
	wg.Go(func() { followErr = r.followers.Run(inner) })
	if r.relay != nil {
		wg.Go(func() { r.relay.Run(inner) })
	}
	var sweeps sync.WaitGroup
	r.busy.FirstLook(ctx)
	sweeps.Go(func() { r.busy.Run(ctx) })
	sweeps.Go(func() { r.busy.RunPokes(ctx) })
	sweeps.Go(func() { r.busy.Timers.Run(ctx) })
	var tell sync.WaitGroup
	telling, endTelling := context.WithCancel(context.WithoutCancel(ctx))
	defer endTelling()
	r.events.Run(telling, &tell, r.busy.Journal.Release)
	r.serving.Store(true)
	close(r.ready)

	<-ctx.Done()
	var lost *MemberError
	var err error
	if errors.As(context.Cause(ctx), &lost) {
		err = fmt.Errorf("run: %w", lost)
		r.draining.Store(true)
		r.endLife() // It may write no more.
		r.endSaves()
	}
	sweeps.Wait()
	if lost == nil {
		r.release(context.WithoutCancel(ctx))
	}
	cancel()
	wg.Wait()
	return errors.Join(err, r.stop(context.WithoutCancel(ctx), func() {
		endTelling()
		r.awaitTold(&tell)
	}), followErr)
}

// awaitTold waits for what tells of events. It bounds itself; only a sink that ignores its
// context takes longer, or an observer, which has none.
func (r *Runtime) awaitTold(tell *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		tell.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(tellTimeout):
		r.log.Warn("sinks or observers were still at work at the end")
	}
}

// release lets go of the conversations. Whoever is not released in time is stopped all
// the same.
func (r *Runtime) release(ctx context.Context) {
	r.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer cancel()
	select {
	case <-r.tellAll(machine.Drain{}):
	case <-ctx.Done():
		r.log.Warn("conversations not released in time; the next start recovers them")
	}
	r.endLife()
}

// stop ends what is left. The members are left last: what this node wrote until then it
// wrote as one of them, and a node that wants the bucket alone has to wait.
func (r *Runtime) stop(ctx context.Context, endTelling func()) error {
	r.awaitCalls()
	r.awaitWork()
	endTelling() // All has happened. What leaves the journal must be told, or be found.
	final, done := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer done()
	r.busy.Journal.Close(final)
	stop, stopped := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer stopped()
	if err := r.host.Stop(stop); err != nil {
		return fmt.Errorf("stop node: %w", err)
	}
	return nil
}

// spawn runs an effect of an activation. Once Run waits for what is left, an
// activation that outlived its time starts nothing any more.
func (r *Runtime) spawn(effect func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.spawned.Go(effect)
	}
}

// spawnSave runs the storing of checkpoints, in a context of its own.
func (r *Runtime) spawnSave(save func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.saves.Go(func() { save(r.saving) })
	}
}

// awaitWork waits for what stopped activations have left running. Only a tool that
// ignores its context takes long, and a checkpoint that cannot be stored.
func (r *Runtime) awaitWork() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.saves.Wait()
		r.spawned.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(r.opts.DrainTimeout):
		r.log.Warn("tools or checkpoints were still under way at the end")
	}
	r.endSaves()
	r.saves.Wait()
}

// tellAll sends an input to every activation and returns a channel that is closed
// when none is left.
func (r *Runtime) tellAll(in machine.Input) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	quiet := make(chan struct{})
	r.quiet = quiet
	for _, a := range r.active {
		a.tell(in)
	}
	r.checkQuiet()
	return quiet
}

// enter registers an activation before it opens its log.
func (r *Runtime) enter(key conversation.Key, a running) {
	r.mu.Lock()
	r.active[key] = a
	r.mu.Unlock()
	if r.draining.Load() {
		a.tell(machine.Drain{})
	}
}

// leave removes an activation that stopped.
func (r *Runtime) leave(key conversation.Key, nonce storage.Nonce) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[key].nonce == nonce {
		delete(r.active, key)
	}
	if len(r.active) == 0 {
		r.active = map[conversation.Key]running{} // a map never shrinks
	}
	r.checkQuiet()
}

// checkQuiet tells who waits for it that no activation is left. The caller holds mu.
func (r *Runtime) checkQuiet() {
	if r.quiet != nil && len(r.active) == 0 {
		close(r.quiet)
		r.quiet = nil
	}
}

// writes reports whether a writer runs on this node, or rests. One that rests owes
// nothing: its entry is about to leave the journal.
func (r *Runtime) writes(key conversation.Key, nonce storage.Nonce) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[key].nonce == nonce || r.resting.has(key, nonce)
}

// limits are an agent's rules as far as the machine needs them.
func (r *Runtime) limits(name string) (machine.Limits, bool) {
	a := r.agents[name]
	if a == nil {
		return machine.Limits{}, false
	}
	d, l := a.Durability.WithDefaults(), a.Limits.WithDefaults()
	return machine.Limits{
		MaxAttempts: d.MaxAttempts, Timeout: d.Timeout, MaxResponse: l.ResponseBytes, MaxCalls: l.CallsPerReply,
		MaxBrought: l.OutputBytes, MaxReply: r.work.ViewBytes / 4 * 3,
		ToolConcurrency: cmp.Or(a.ToolConcurrency, agent.DefaultToolConcurrency),
		StartHook:       a.Hooks.DeliveryStarted != nil, FinishHook: a.Hooks.WouldStop != nil || a.Hooks.ResponseFinished != nil,
		SettledHook: a.Hooks.Settled != nil,
	}, true
}

// showsContent reports whether what people and models say in conversations of an agent
// may be shown to operators.
func (r *Runtime) showsContent(name string) bool {
	a := r.agents[name]
	return a != nil && a.Events.Content
}
