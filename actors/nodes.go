package actors

import (
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// grainOptions are those of the cluster that carries the conversations.
func (r *Runtime) grainOptions() *grain.Options {
	o := &grain.Options{Logger: r.log, RequestTimeout: r.opts.AdmitTimeout, HandOver: r.opts.DrainTimeout}
	if r.exclusive {
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
		if m := r.relay.Answer(ctx.Message()); m != nil && ctx.Sender() != nil {
			ctx.Respond(m)
		}
	}
	o.ViewChanged = r.viewChanged
	o.LinkDown = func(address string) { r.relay.LinkDown(address) }
	return o
}

// reached returns the other nodes that answer this one, by incarnation.
func (r *Runtime) reached() []string {
	if r.peers == nil {
		return nil
	}
	ids, _ := r.peers.Reachable()
	return ids
}

// viewChanged looks after what a change of members leaves open: journals of nodes that
// are gone, and conversations that are followed here and have another owner now.
func (r *Runtime) viewChanged(v grain.View) {
	r.relay.ViewChanged(func(address string) bool {
		return slices.ContainsFunc(v.Members, func(m grain.Member) bool { return m.Address() == address })
	})
	r.busy.SweepNow()
	r.events.Wake()
}

// followerOptions make the followers ask for heads where other nodes may write.
func (r *Runtime) followerOptions() *follower.Options {
	o := &follower.Options{
		Logger: r.log, Strict: r.opts.StrictReads, Memory: r.opts.Memory, Idle: r.accounts.idle, MaxBytes: r.opts.FollowerBytes, Damaged: r.doubt, Reading: func(ctx context.Context, key conversation.Key) (func(), error) { return r.busy.Reading(ctx, key) },
	}
	if r.exclusive {
		return o
	}
	o.Tip = r.tip
	if r.opts.Cluster != nil {
		o.Waited = func(key conversation.Key) { r.relay.Follow(key) }
		o.Closed = func(key conversation.Key) { r.relay.Unfollow(key) }
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
	return r.relay.AskTip(ctx, owner, key)
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
