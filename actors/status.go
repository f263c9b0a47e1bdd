package actors

import (
	"fmt"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
)

// load returns the counts for the node's heartbeat.
func (r *Runtime) load() (active, busy int64) {
	active = r.active.count()
	all, _ := r.sweeper.Journal.Size()
	return active, int64(all)
}

// Status is the state of a node. Counters start at zero with the node.
type Status struct {
	// Ready reports whether the node should receive requests; Reason explains why not.
	Ready  bool
	Reason string
	// Member is this incarnation. Address is where other nodes dial it, "" if it is alone.
	Member, Address string
	// Epoch is the number of the newest known view; Members and Draining count its rows.
	Epoch             int64
	Members, Draining int
	// Unreached rows own nothing until a majority of the weighted members reach their node.
	Unreached int
	// Reachable of the Others answer this node.
	Reachable, Others int
	// Certificates are the node's own certificate and its CA. Nil without TLS.
	Certificates []Certificate
	// Passive means that the node's row has not been confirmed for too long; it writes nothing.
	// Leaving means that the node is handing over or stopping.
	Passive, Leaving bool
	// Active counts conversations in memory, IdleWriters the retained writers of others. Suspended ones wait for
	// a timer and have run on this node. Busy ones are listed as pending work.
	Active, IdleWriters, Suspended, Busy, Followers int
	// QueuedCallers wait for an owner's answer. QueuedSubmissions are unsettled submissions in memory,
	// running ones included.
	QueuedCallers, QueuedSubmissions int64
	// Fences counts local writers that lost an append to another writer.
	Fences int64
	// Sweeps counts sweeps of pending-work journals, Probes the probes they sent, and TakenOver the
	// entries recovered from departed nodes.
	Sweeps, Probes, TakenOver int64
	// HandedOver counts activations moved to another node, Refused the requests that reached no owner
	// in time.
	HandedOver, Refused int64
	// QueuedDispatches are queued messages of tools and hooks. RefusedDispatches exceeded the queue.
	QueuedDispatches, RefusedDispatches int64
	// Posts counts the attempts to deliver posts.
	Posts PostCounts
	// Quarantined counts the quarantined conversations of the bucket.
	Quarantined int
	// Unchecked counts initial data rejected because the schema check exceeded a bound.
	Unchecked int64
	// Relayed counts batches sent to followers on other nodes, RelayGaps those that could not be sent.
	Relayed, RelayGaps int64
	// FollowerLag is the longest time that a followed conversation has had no owner that pushes its
	// batches. Such a conversation is polled from the bucket every few seconds.
	FollowerLag time.Duration
	// Follower has the counters of the followers.
	Follower follower.Stats
	// Memory is the use of the node's budget of MemoryLimit bytes by account, 0 for unlimited.
	Memory      []memory.Usage
	MemoryLimit int64
	// Idle is the use of Options.IdleBytes by account, at most half of it, with counts of early
	// evictions.
	Idle []memory.IdleUsage
	// LargeWork counts operations on large messages that wait for their turn.
	LargeWork int64
	// Events is the progress of the sinks, nil without any. Observers has the counters of each
	// observer by name.
	Events    *EventStatus
	Observers map[string]observability.BufferCounts
}

// Certificate is one certificate by which a node authenticates.
type Certificate struct {
	Name    string // "node" or "ca"
	Expires time.Time
}

// PostCounts are the attempts to deliver posts since the node started.
type PostCounts = work.PostCounts

// EventStatus has the counters of the exporter of durable events, SinkStatus those of one sink.
type (
	EventStatus = export.Status
	SinkStatus  = export.SinkStatus
)

// Status returns the current state and counters. It is safe for concurrent use.
func (r *Runtime) Status() Status {
	active, busy := r.load()
	s := Status{
		Member: r.nodes.host.MemberID(), Active: int(active), Busy: int(busy), IdleWriters: r.active.writerCache.count(), Suspended: r.sweeper.Timers.Count(),
		Passive: r.nodes.members.passive(), Leaving: r.edge.leaving.Load() || r.edge.ended(),
		Fences: r.active.fences.Load(), HandedOver: r.active.handedOver.Load(), Refused: r.edge.refused.Load(),
		Unchecked: r.accounts.unchecked.Load(), Quarantined: r.sweeper.Quarantine.Count(),
		Follower: r.followers.Stats(), Memory: r.opts.Memory.Usage(), MemoryLimit: r.opts.Memory.Limit(),
		LargeWork: r.opts.Memory.Waiting(), Idle: r.accounts.idle.Usage(),
	}
	s.Sweeps, s.Probes, s.TakenOver = r.sweeper.Counts()
	s.Followers, s.QueuedSubmissions = s.Follower.Followers, r.active.unsettled.Load()
	s.QueuedDispatches, s.RefusedDispatches = r.work.Dispatches()
	s.Posts = r.work.Posts()
	s.Events, s.Observers = r.events.Status()
	s.QueuedCallers = r.edge.count()
	var answering []string
	if r.nodes.peers != nil {
		s.Address = r.nodes.peers.Address()
		answering, s.Others = r.nodes.peers.Reachable()
		s.Reachable = len(answering)
		s.Relayed, s.RelayGaps = r.nodes.relay.Counts()
		s.FollowerLag = r.nodes.relay.Lag()
	}
	expiry, certified := r.nodes.expiry()
	if certified {
		s.Certificates = []Certificate{{"node", expiry.Node.Until}, {"ca", expiry.CA.Until}}
	}
	refused := certified && !expiry.Valid(r.world.wall())
	st := r.nodes.members.standing(answering)
	s.Epoch, s.Members, s.Draining, s.Unreached = st.epoch, st.members, st.draining, st.unreached
	_, owners := r.nodes.members.others()
	switch {
	case !r.edge.serving.Load():
		s.Reason = "starting"
	case s.Leaving || st.self.Draining && owners > 0: // without another owner a draining node still serves
		s.Reason = "draining: its conversations go to other nodes"
	case r.nodes.members.gone():
		s.Reason = "not a member: the objects under members/ of the bucket were deleted; start all nodes of the bucket again"
	case s.Passive:
		s.Reason = "passive: the bucket does not confirm this node's row"
	default:
		s.Reason = isolation(st, s, refused)
		s.Ready = s.Reason == ""
	}
	return s
}

// isolation returns why the connections to other nodes make this node unready, "" if they do not.
// refused means that its certificates are invalid, so that no new connection succeeds.
func isolation(st standing, s Status, refused bool) string {
	reason := ""
	switch {
	case st.self.Weight == 0 && st.self.Wants > 0:
		reason = fmt.Sprintf("not reached: %d of %d weighted nodes answer; it owns nothing until a majority does", st.answering, st.owners)
	case 2*(st.owners-st.answering) > st.owners+1: // majority of the weighted members
		reason = fmt.Sprintf("cut off: %d of %d other nodes answer", st.answering, st.owners)
	case refused && s.Others > 0 && s.Reachable == 0:
		reason = fmt.Sprintf("cut off: none of %d other nodes answers", s.Others)
	}
	if reason == "" || !refused {
		return reason
	}
	for _, c := range s.Certificates {
		reason += fmt.Sprintf("; cluster certificate %s expires %s", c.Name, c.Expires.UTC().Format(time.RFC3339))
	}
	return reason + "; replace the expired certificate; the node reloads it without a restart"
}
