package actors

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// Options are the optional settings of a [Runtime]. Zero fields use the defaults.
type Options struct {
	// Agents are the agents that this node serves, all of one deployment.
	Agents []*agent.Agent
	// Providers resolves and calls models. With nil every submission fails.
	Providers *providers.Registry
	// Logger receives the log of the node. Nil discards it.
	Logger *slog.Logger
	// VendorMessages logs the vendor's message of rejected model calls for all agents. Such a message may
	// repeat the request. By default it is logged only for agents whose events show content; for
	// others the log names the remedy.
	VendorMessages bool
	// Pace is the minimum time between the starts of two appends of streamed text. Zero is 250 ms, or
	// 50 ms over an exclusive bucket, whose writes take about a millisecond.
	Pace time.Duration
	// RetryPause is the first backoff after a model call failed for a transient reason. It doubles
	// with each of at most three retries. Zero is 1 s.
	RetryPause time.Duration
	// FirstEvent, BetweenEvents and WholeCall are the timeouts of a model call: until its first event,
	// between two events, and in total. Zero is 60 s, 30 s and 10 min.
	FirstEvent, BetweenEvents, WholeCall time.Duration
	// HookTimeout bounds a hook of an agent. Zero is 10 s.
	HookTimeout time.Duration
	// UnloadAfter is how long an idle conversation stays in memory. EvictAfter is how long this node
	// remembers the writer of its log: until then the next message reads the log again, but its first
	// batch claims nothing. Both count from the last work. Zero is 30 s and 5 min. UnloadAfter is
	// capped at EvictAfter, and IdleBytes may end both earlier.
	UnloadAfter, EvictAfter time.Duration
	// SweepEvery is the interval between sweeps of the pending-work journals. Zero is 30 s.
	SweepEvery time.Duration
	// AppendTimeout is how long an append may stay unresolved before the conversation steps down. Zero
	// is 30 s.
	AppendTimeout time.Duration
	// AdmitTimeout bounds an admission whose caller set no earlier deadline. Zero is 10 s.
	AdmitTimeout time.Duration
	// DrainTimeout bounds the graceful shutdown of Run. Zero is 10 s.
	DrainTimeout time.Duration
	// CheckpointBatches is the number of batches after which a checkpoint is stored, unless the log
	// grew by 256 KiB before. Zero is 64.
	CheckpointBatches int
	// SegmentBatches is the number of batches that are merged into one segment, when a checkpoint is
	// stored and at the end of a turn. Zero is 32.
	SegmentBatches int
	// SegmentGrace is how long merged batches are kept for readers that are about to read them. Zero
	// is 10 min, or 10 s over an exclusive bucket, whose readers are in this process.
	SegmentGrace time.Duration
	// MaxWaiting bounds the waiting callers, and separately the queued submissions, of one
	// conversation. Zero is 1,000.
	MaxWaiting int
	// MaxWaitingBytes bounds the queued messages of one conversation, in bytes of text and attributes.
	// Zero is 64 MiB.
	MaxWaitingBytes int
	// Memory is the node's budget. Its accounts are "conversations", "followers", "rereads", "model calls", "tool outputs",
	// "writes" and "events". While it is used up, new messages are refused and admitted work continues. Nil means no limit.
	Memory *memory.Budget
	// QuarantineAfter is the number of failures to open a conversation before it is quarantined:
	// permanent failures on this node, or crashes of nodes that were opening nothing else. Zero is 3.
	QuarantineAfter int
	// DispatchesAtOnce bounds the messages that tools and hooks of this node dispatch concurrently.
	// Others wait; agents take turns. Zero is 16.
	DispatchesAtOnce int
	// Cluster makes this node one of several. With nil it serves the bucket alone.
	Cluster *ClusterOptions
	// Address is the contact address of this node in the member list of a shared bucket, up to 256
	// bytes. Empty is the host name. Nodes dial each other at [ClusterOptions.Advertise] instead.
	Address string
	// Version is this node's software version in the member list, up to 256 bytes of text. Empty is
	// the version of this module in the build information.
	Version string
	// StrictReads makes each read check the end of the log in the bucket, on any node, unless it
	// continues a live read. Without it, a read without an offset may miss for one heartbeat a batch
	// that another node has acknowledged, while the members change.
	StrictReads bool
	// EventStreams prepares for frequent reads of beta-line event streams: checkpoints store event
	// positions, so that no read folds a whole log. Without it the streams work, but slower.
	EventStreams bool
	// FollowerBytes bounds the memory of the followers of conversations. Zero is 128 MiB. Beyond it,
	// followers without readers are evicted. Then conversations are read without a follower, and live
	// readers of further ones are rejected. Logs that are read again while they are sent have a budget
	// of their own, half as large.
	FollowerBytes int64
	// IdleBytes bounds the process memory of idle state: idle conversations, followers without
	// readers, and writers kept until EvictAfter. Their own accounts may hold half of it, because the
	// rest is uncollected garbage. Zero is 128 MiB. Beyond it idle state is evicted in LRU order;
	// while half of Memory is in use, so is state unused for one second. Writers may hold at most a
	// quarter.
	IdleBytes int64
	// Log configures the object log.
	Log *storage.LogOptions
	// Events configures the receivers of events. Zero is none.
	Events EventOptions
	// Outbox routes posts: those of [agent.Post] and notices of settlements. It must be the same on
	// all nodes of a bucket. Zero is no route.
	Outbox outbox.Routes
}

// EventOptions configures the receivers of observability events. Names must be unique among Sinks and
// Observers.
type EventOptions struct {
	// Sinks receive durable events at least once, and live events as best effort. A new sink receives
	// no past events.
	Sinks []observability.Sink
	// Observers receive the same events at once and as best effort: events that an observer does not
	// take in time are dropped. [observability.Callbacks] is one.
	Observers []observability.Sink
	// DurableOnly omits live events.
	DurableOnly bool
	// Prompts adds prompts to turn_request events, even for agents whose events show no content, and
	// vendor messages to the logs of failed calls. Use it only where the receivers may see all
	// content.
	Prompts bool
	// GroupEvents, GroupBytes and GroupEvery bound one delivery of durable events to a sink: by count,
	// by bytes of [observability.Size], and by the time since its first event. Zero is 10,000, 4 MiB
	// and 1 s.
	GroupEvents, GroupBytes int
	GroupEvery              time.Duration
}

// withDefaults returns the validated options with their defaults. An exclusive bucket has other
// defaults than a shared one.
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
		{"UnloadAfter", &out.UnloadAfter, 30 * time.Second},
		{"EvictAfter", &out.EvictAfter, 5 * time.Minute},
		{"SweepEvery", &out.SweepEvery, 30 * time.Second},
		{"AppendTimeout", &out.AppendTimeout, 30 * time.Second},
		{"AdmitTimeout", &out.AdmitTimeout, 10 * time.Second},
		{"DrainTimeout", &out.DrainTimeout, 10 * time.Second},
		{"SegmentGrace", &out.SegmentGrace, grace},
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
		{"SegmentBatches", &out.SegmentBatches, 32},
		{"MaxWaiting", &out.MaxWaiting, 1000},
		{"MaxWaitingBytes", &out.MaxWaitingBytes, 64 << 20},
		{"QuarantineAfter", &out.QuarantineAfter, 3},
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
	if !outage.Filters(out.Logger) {
		out.Logger = slog.New(outage.NewHandler(contain.Logger(out.Logger).Handler()))
	}
	if out.Providers == nil {
		out.Providers = providers.NewRegistry(nil)
	}
	if err := out.Outbox.Check(); err != nil {
		return out, fmt.Errorf("option Outbox: %w", err)
	}
	if err := out.checkSinks(); err != nil {
		return out, err
	}
	err := out.checkMembership(exclusive)
	return out, err
}
