package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// handOverPause is the pause between two looks at what is left to hand over, and
// handOverLooks after how many of them what is owed is poked again.
const (
	handOverPause = 20 * time.Millisecond
	handOverLooks = 25
)

// counts are what a node has done since it started.
type counts struct {
	fences, sweeps, pokes, takenOver, handedOver, refused atomic.Int64
	owed                                                  atomic.Int64 // submissions in memory; a gauge
}

// grainOptions are those of the cluster that carries the conversations.
func (r *Runtime) grainOptions() *grain.Options {
	o := &grain.Options{Logger: r.log, RequestTimeout: r.opts.AdmitTimeout, HandOver: r.opts.DrainTimeout}
	if r.opts.Membership == MembershipSingle {
		return o
	}
	o.Membership = r.members
	c := r.opts.Cluster
	if c == nil {
		return o
	}
	o.Listen, o.Advertise, o.Insecure = c.Listen, c.Advertise, c.Insecure
	if c.TLS != nil {
		o.TLS = &grain.TLSFiles{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, Name: c.TLS.Name}
	}
	o.Node = func(ctx actor.Context) {
		if m := r.relay.answer(ctx.Message()); m != nil && ctx.Sender() != nil {
			ctx.Respond(m)
		}
	}
	o.ViewChanged = r.viewChanged
	o.LinkDown = func(address string) { r.relay.linkDown(address) }
	return o
}

// viewChanged looks after what a change of members leaves open: journals of nodes that
// are gone, and conversations that are followed here and have another owner now.
func (r *Runtime) viewChanged(v grain.View) {
	r.relay.viewChanged(func(address string) bool {
		for _, m := range v.Members {
			if m.Address() == address {
				return true
			}
		}
		return false
	})
	select {
	case r.sweepNow <- struct{}{}:
	default:
	}
}

// followerOptions make the followers ask for heads where other nodes may write.
func (r *Runtime) followerOptions() *follower.Options {
	o := &follower.Options{Logger: r.log, Strict: r.opts.StrictReads}
	if r.opts.Membership == MembershipSingle {
		return o
	}
	o.Tip = r.tip
	if r.opts.Cluster != nil {
		o.Waited = func(key conversation.Key) { r.relay.follow(key) }
		o.Closed = func(key conversation.Key) { r.relay.unfollow(key) }
	}
	return o
}

// tip asks the owner of a conversation where its log ends. A node that has the bucket
// for itself knows, as long as its row stands: what is written here is offered to the
// followers at once.
func (r *Runtime) tip(ctx context.Context, key conversation.Key) (seq int64, known bool) {
	if r.peers == nil {
		return -1, r.opts.Cluster == nil && r.members.fresh()
	}
	owner, self := r.peers.Owner(string(key))
	switch {
	case self:
		t := r.tipHere(key)
		return t.GetSeq(), t.GetKnown()
	case owner == "":
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := r.peers.AskNode(ctx, owner, &wire.TipRequest{Conversation: string(key)})
	t, ok := m.(*wire.Tip)
	return t.GetSeq(), err == nil && ok && t.GetKnown()
}

// tipHere is what an activation on this node knows of the end of its log. It counts
// only while the node's row is freshly confirmed.
func (r *Runtime) tipHere(key conversation.Key) *wire.Tip {
	r.mu.Lock()
	a := r.active[key]
	r.mu.Unlock()
	if a.tip == nil || !r.owns(key) {
		return &wire.Tip{}
	}
	seq := a.tip.Load()
	return &wire.Tip{Seq: seq, Known: seq >= 0 && r.members.fresh()}
}

// owns reports whether a conversation is this node's in the newest view it knows. What is
// being handed over may have gone on elsewhere.
func (r *Runtime) owns(key conversation.Key) bool {
	if r.peers == nil {
		return true
	}
	_, self := r.peers.Owner(string(key))
	return self
}

// load is what the node's heartbeat tells people.
func (r *Runtime) load() (active, busy int64) {
	r.mu.Lock()
	active = int64(len(r.active))
	r.mu.Unlock()
	return active, int64(len(r.journal.held()))
}

// HandOver gives this node's conversations to the other members and returns when they
// have taken over whatever is owed, or when ctx or DrainTimeout ends. It goes on to
// serve requests, by asking the new owners. Call it before Run's context ends, with the
// server of the edge still open: then nobody has to wait for the others to notice. It
// does nothing for a node without others, which the next start recovers, and while
// another call is under way. What was not handed over in time is taken over as after a
// crash.
func (r *Runtime) HandOver(ctx context.Context) error {
	if _, owners := r.members.others(); owners == 0 || r.peers == nil || !r.serving.Load() || r.leaving.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.DrainTimeout)
	defer cancel()
	if err := r.members.table.Load().SetDraining(ctx, true); err != nil {
		r.leaving.Store(false)
		return fmt.Errorf("hand over: %w", err)
	}
	r.log.Info("handing over", "member", r.host.MemberID())
	for looks := 0; ; looks++ {
		active, _ := r.load()
		owed := r.journal.owed()
		if active == 0 && owed == 0 {
			return nil
		}
		if _, owners := r.members.others(); owners == 0 {
			r.log.Info("nobody is left to hand over to; the next start carries on", "active", active, "owed", owed)
			return nil
		}
		if looks%handOverLooks == 0 { // What ends asks by itself; this is for pokes that went wrong.
			r.askPokes()
		}
		select {
		case <-time.After(handOverPause):
		case <-ctx.Done():
			r.leaving.Store(false)
			return fmt.Errorf("hand over: %d conversations active and %d owed: %w", active, owed, context.Cause(ctx))
		}
	}
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
	// Reachable of the Others answer this node.
	Reachable, Others int
	// Passive: the own row could not be confirmed for too long; nothing is written.
	// Leaving: the node hands over or is at its end.
	Passive, Leaving bool
	// Active conversations are in memory, Resting ones have a writer put aside, Busy
	// ones are listed as owed.
	Active, Resting, Busy, Followers int
	// QueuedCallers wait for an owner's answer, QueuedSubmissions are in memory and not
	// settled, the running ones included.
	QueuedCallers, QueuedSubmissions int64
	// Fences are writers here that lost an append to another one.
	Fences int64
	// Sweeps of busy journals, Pokes sent by them, and entries TakenOver from nodes that
	// are gone.
	Sweeps, Pokes, TakenOver int64
	// HandedOver are activations given up to another node, Refused requests that found
	// no owner in time.
	HandedOver, Refused int64
	// Relayed batches went to followers on other nodes; RelayGaps could not.
	Relayed, RelayGaps int64
	// FollowerLag is how long the worst followed conversation has had no owner that
	// pushes its batches: until it has, it is read from the bucket every few seconds.
	FollowerLag time.Duration
	// Follower counts what the followers do.
	Follower follower.Stats
}

// Status returns what the node is and has done. It is safe for concurrent use.
func (r *Runtime) Status() Status {
	active, busy := r.load()
	s := Status{
		Member: r.host.MemberID(), Active: int(active), Busy: int(busy), Resting: r.resting.count(),
		Passive: r.members.passive(), Leaving: r.leaving.Load() || r.draining.Load(),
		Fences: r.counts.fences.Load(), Sweeps: r.counts.sweeps.Load(), Pokes: r.counts.pokes.Load(),
		TakenOver: r.counts.takenOver.Load(), HandedOver: r.counts.handedOver.Load(), Refused: r.counts.refused.Load(),
		Follower: r.followers.Stats(),
	}
	s.Followers, s.QueuedSubmissions = s.Follower.Followers, r.counts.owed.Load()
	r.mu.Lock()
	s.QueuedCallers = int64(r.calls)
	r.mu.Unlock()
	drained := false
	if v := r.members.view.Load(); v != nil {
		s.Epoch, s.Members = v.Epoch, len(v.Members)
		for _, m := range v.Members {
			if m.Draining {
				s.Draining++
				drained = drained || m.ID == s.Member
			}
		}
	}
	if r.peers != nil {
		s.Address = r.peers.Address()
		s.Reachable, s.Others = r.peers.Reachable()
		s.Relayed, s.RelayGaps, s.FollowerLag = r.relay.relayed.Load(), r.relay.gaps.Load(), r.relay.lag()
	}
	_, owners := r.members.others()
	switch {
	case !r.serving.Load():
		s.Reason = "starting"
	case s.Leaving || drained && owners > 0: // one that is left alone serves all the same
		s.Reason = "draining: its conversations go to other nodes"
	case s.Passive:
		s.Reason = "passive: the bucket does not confirm this node's row"
	case 2*(s.Others-s.Reachable) > s.Others+1: // more than half of the members
		s.Reason = fmt.Sprintf("cut off: %d of %d other nodes answer", s.Reachable, s.Others)
	default:
		s.Ready = true
	}
	return s
}

// errPassive is why a passive node takes no work.
var errPassive = errors.New("the bucket does not confirm this node's row")
