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

// Options are the optional parts of a [Runtime]. Zero fields mean the defaults.
type Options struct {
	// Agents are the agents this node serves, all of one deployment.
	Agents []*agent.Agent
	// Providers resolves and calls models. Nil serves no model: every submission
	// fails.
	Providers *providers.Registry
	// Logger gets what operators need to know. Nil discards it.
	Logger *slog.Logger
	// VendorWords has the log show the words of vendors about calls that they refuse, of all
	// agents. They may repeat the request. Without it those of agents whose events show
	// content are there, and for others the log names the remedy.
	VendorWords bool
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
	// UnloadAfter is how long a conversation with nothing to do stays in memory, and
	// ForgetAfter how long this node remembers the writer of its log: until then the next
	// message has the log read again, and its first batch claims nothing. Both count from
	// its last work. Zero is 30 s and 5 min; nothing stays longer than ForgetAfter.
	// IdleBytes may end both before.
	UnloadAfter, ForgetAfter time.Duration
	// SweepEvery is the time between two sweeps of the pending-work journals. Zero is 30 s.
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
	// SegmentBatches is how many batches wait until they are put into a segment together,
	// when a checkpoint is stored and at the end of a turn. Zero is 32.
	SegmentBatches int
	// SegmentGrace is how long batches stay that are in a segment, for readers who are
	// about to read them. Zero is 10 min, and 10 s over an exclusive bucket, whose readers
	// are in this process.
	SegmentGrace time.Duration
	// MaxWaiting bounds the callers, and the submissions, that wait in one
	// conversation. Zero is 1,000.
	MaxWaiting int
	// MaxWaitingBytes bounds the messages that wait for their turn in one conversation,
	// in bytes of text and attributes. Zero is 64 MiB.
	MaxWaitingBytes int
	// Memory is the node's budget. Its accounts are "conversations", "followers", "rereads", "model calls", "tool outputs",
	// "writes" and "events". While it is used up, new messages are refused and admitted work continues. Nil means no limit.
	Memory *memory.Budget
	// QuarantineAfter is after how many failures to open a conversation it is quarantined: failures of
	// this node for a reason that stays, or crashes of nodes that did nothing else. Zero is 3.
	QuarantineAfter int
	// DispatchesAtOnce bounds the messages that tools and hooks of this node have under way
	// to their conversations; others wait, the agents taking turns. Zero is 16.
	DispatchesAtOnce int
	// Cluster makes this node one of several. Nil serves the bucket alone.
	Cluster *ClusterOptions
	// Address is where people find this node, up to 256 bytes, as the list of members of a
	// shared bucket shows it. Zero is the name of the host. Nodes find each other at
	// [ClusterOptions.Advertise].
	Address string
	// Version is what the list of members shows as this node's software, up to 256 bytes of text.
	// Zero is the version of this module that the build states.
	Version string
	// StrictReads makes every read that is not the continuation of a live one ask the
	// bucket where the log ends, whatever node it comes to. Without it, a read without an
	// offset may miss for a heartbeat what another node has acknowledged, while the
	// members change.
	StrictReads bool
	// EventStreams has the event streams of the beta line read often: checkpoints say where
	// events are, so that none is made of a whole log. Without it they are read all the same.
	EventStreams bool
	// FollowerBytes bounds what the followers of conversations hold in memory. Zero is
	// 128 MiB. Over it, those without readers go; then conversations are read without
	// being followed, and live readers of further ones are refused. Logs that are read
	// again while they are sent have half as much beside it.
	FollowerBytes int64
	// IdleBytes bounds what of the process is occupied by conversations with nothing to do,
	// followers without readers, and the writers that are kept until ForgetAfter: by their own
	// count they hold half as much, as the rest is garbage not collected yet. Zero is
	// 128 MiB. Over it what was used least recently leaves memory before its time, and
	// while half of Memory is in use what was not used for a second. At most a quarter is
	// for writers.
	IdleBytes int64
	// Log tunes the object log.
	Log *storage.LogOptions
	// Events says who is given what happens on this node. Zero is nobody.
	Events EventOptions
	// Outbox says who gets what is posted, by [agent.Post] and as notices of settlements: the same on
	// all nodes of a bucket. Zero is nobody.
	Outbox outbox.Routes
}

// EventOptions say where the observability events of a node go. No two of Sinks and
// Observers may have the same name.
type EventOptions struct {
	// Sinks are given durable events at least once, whatever dies, and live ones if they
	// can. A sink that is added is given nothing of the past.
	Sinks []observability.Sink
	// Observers are given the same events at once and as best effort: what one does not
	// take in time it never sees. [observability.Callbacks] is one.
	Observers []observability.Sink
	// DurableOnly leaves live events out.
	DurableOnly bool
	// Prompts has turn_request show what models are sent, also of agents whose events show no
	// content, and the logs of failed calls the words of the vendor: for a place that has all
	// that was said anyway.
	Prompts bool
	// GroupEvents, GroupBytes and GroupEvery bound the durable events that a sink is given
	// at once: so many, so many bytes by [observability.Size], or what comes so long after
	// the first. Zero is 10,000, 4 MiB and 1 s.
	GroupEvents, GroupBytes int
	GroupEvery              time.Duration
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
		{"UnloadAfter", &out.UnloadAfter, 30 * time.Second},
		{"ForgetAfter", &out.ForgetAfter, 5 * time.Minute},
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
