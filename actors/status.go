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

// load is what the node's heartbeat tells people.
func (r *Runtime) load() (active, busy int64) {
	active = r.active.count()
	all, _ := r.sweeper.Journal.Size()
	return active, int64(all)
}

// Status is what a node says of itself. Counters count from its start.
type Status struct {
	// Ready says that requests should come here; Reason says why not.
	Ready  bool
	Reason string
	// Member is this incarnation, Address where other nodes dial it, "" if it is alone.
	Member, Address string
	// Epoch numbers the newest known view, Members and Draining count its rows.
	Epoch             int64
	Members, Draining int
	// Unreached rows own nothing until most members with a share answer their node.
	Unreached int
	// Reachable of the Others answer this node.
	Reachable, Others int
	// Certificates are those by which the node proves itself to the others: its own and
	// the authority's. Nil without.
	Certificates []Certificate
	// Passive: the own row could not be confirmed for too long; nothing is written.
	// Leaving: the node hands over or is at its end.
	Passive, Leaving bool
	// Active conversations are in memory, Resting ones have a writer put aside, Parked ones
	// wait for a time since they ran here, Busy ones are listed as owed.
	Active, Resting, Suspended, Busy, Followers int
	// QueuedCallers wait for an owner's answer, QueuedSubmissions are in memory and not
	// settled, the running ones included.
	QueuedCallers, QueuedSubmissions int64
	// Fences are writers here that lost an append to another one.
	Fences int64
	// Sweeps of pending-work journals, Pokes sent by them, and entries TakenOver from nodes that
	// are gone.
	Sweeps, Probes, TakenOver int64
	// HandedOver are activations given up to another node, Refused requests that found
	// no owner in time.
	HandedOver, Refused int64
	// QueuedDispatches are messages of tools and hooks that wait for their turn,
	// RefusedDispatches were too many to wait.
	QueuedDispatches, RefusedDispatches int64
	// Posts are what has become of what was posted.
	Posts PostCounts
	// Quarantined counts the conversations of the bucket that are quarantined.
	Quarantined int
	// Unchecked are the initial data that were refused because checking them against a
	// schema goes beyond a bound.
	Unchecked int64
	// Relayed batches went to followers on other nodes; RelayGaps could not.
	Relayed, RelayGaps int64
	// FollowerLag is how long the worst followed conversation has had no owner that
	// pushes its batches: until it has, it is read from the bucket every few seconds.
	FollowerLag time.Duration
	// Follower counts what the followers do.
	Follower follower.Stats
	// Memory says who holds how much of the node's budget of MemoryLimit bytes, 0 for none.
	Memory      []memory.Usage
	MemoryLimit int64
	// Idle says who holds how much of Options.IdleBytes, half of which it may be, and how
	// often it had to give something up before its time.
	Idle []memory.IdleUsage
	// LargeWork counts the pieces of work on large messages that wait for their turn.
	LargeWork int64
	// Events says how far the sinks are, nil without any; Observers what became of the
	// events of each observer, by its name.
	Events    *EventStatus
	Observers map[string]observability.BufferCounts
}

// Certificate is one by which a node proves itself to others.
type Certificate struct {
	Name    string // "node" or "ca"
	Expires time.Time
}

// PostCounts are the attempts to deliver posts since the node started.
type PostCounts = work.PostCounts

// EventStatus is what the exporter of durable events has done, SinkStatus a part of it.
type (
	EventStatus = export.Status
	SinkStatus  = export.SinkStatus
)

// Status returns what the node is and has done. It is safe for concurrent use.
func (r *Runtime) Status() Status {
	active, busy := r.load()
	s := Status{
		Member: r.nodes.host.MemberID(), Active: int(active), Busy: int(busy), Resting: r.active.resting.count(), Suspended: r.sweeper.Timers.Count(),
		Passive: r.nodes.members.passive(), Leaving: r.edge.leaving.Load() || r.edge.ended(),
		Fences: r.active.fences.Load(), HandedOver: r.active.handedOver.Load(), Refused: r.edge.refused.Load(),
		Unchecked: r.accounts.unchecked.Load(), Quarantined: r.sweeper.Quarantine.Count(),
		Follower: r.followers.Stats(), Memory: r.opts.Memory.Usage(), MemoryLimit: r.opts.Memory.Limit(),
		LargeWork: r.opts.Memory.Waiting(), Idle: r.accounts.idle.Usage(),
	}
	s.Sweeps, s.Probes, s.TakenOver = r.sweeper.Counts()
	s.Followers, s.QueuedSubmissions = s.Follower.Followers, r.active.owed.Load()
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
	case s.Leaving || st.self.Draining && owners > 0: // one that is left alone serves all the same
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

// isolation returns why other nodes keep a node from being ready, "" if they do not. refused says that its
// certificates are not valid, so that no new connection to another node succeeds.
func isolation(st standing, s Status, refused bool) string {
	reason := ""
	switch {
	case st.self.Weight == 0 && st.self.Wants > 0:
		reason = fmt.Sprintf("not reached: %d of %d nodes with a share answer, it owns nothing until more than half do", st.answering, st.owners)
	case 2*(st.owners-st.answering) > st.owners+1: // more than half of the members with a share
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
	return reason + "; replace the expired one, the node reads it without a restart"
}
