package actors

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/relay"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// nodes is the node's view of the cluster: ownership of conversations and messages to other nodes. It
// is safe for concurrent use once a host is attached.
type nodes struct {
	host      host
	members   *members
	exclusive bool         // see storage.IsExclusive
	peers     peers        // nil on a node that serves the bucket alone
	relay     *relay.Relay // nil if peers is nil
	active    *activations
}

// attach sets the host. Its peers push their batches to the local followers.
func (n *nodes) attach(h host, o *Options, followers relay.Followers) {
	n.host = h
	p, ok := h.(peers)
	if !ok || o.Cluster == nil {
		return
	}
	n.peers = p
	n.relay = relay.New(relay.Options{
		Peers: p, Followers: followers, Tip: n.tipHere, Logger: o.Logger,
		Unknown: func(err error) bool { return errors.Is(err, grain.ErrNoOwner) },
	})
}

// reached returns the incarnations of the other nodes that answer this one.
func (n *nodes) reached() []string {
	if n.peers == nil {
		return nil
	}
	ids, _ := n.peers.Reachable()
	return ids
}

// expiry returns when the certificates of this node expire, false if it has none.
func (n *nodes) expiry() (grain.Expiry, bool) {
	if c, ok := n.host.(certified); ok && n.peers != nil {
		return c.Expiry()
	}
	return grain.Expiry{}, false
}

// tip asks the owner of a conversation where its log ends. A node alone on its bucket knows the end
// while its row is confirmed, because local batches are offered to the followers at once.
func (n *nodes) tip(ctx context.Context, key conversation.Key) (seq int64, known bool) {
	if n.peers == nil {
		return -1, n.members.opts.Cluster == nil && n.members.fresh()
	}
	owner, self := n.peers.Owner(string(key))
	switch {
	case self:
		t := n.tipHere(key)
		return t.GetSeq(), t.GetKnown()
	case owner == "":
		return 0, false
	}
	return n.relay.AskTip(ctx, owner, key)
}

// tipHere returns the log's end as known by a local activation. It is unknown unless the node's row is
// freshly confirmed.
func (n *nodes) tipHere(key conversation.Key) *wire.Tip {
	a, _ := n.active.of(key)
	if a.tip == nil || !n.owns(key) {
		return &wire.Tip{}
	}
	seq := a.tip.Load()
	return &wire.Tip{Seq: seq, Known: seq >= 0 && n.members.fresh()}
}

// owns reports whether this node owns a conversation in the newest view it knows. During a handover
// the conversation may still run on another node.
func (n *nodes) owns(key conversation.Key) bool {
	if n.peers == nil {
		return true
	}
	_, self := n.peers.Owner(string(key))
	return self
}

// release returns once no other node runs a conversation. The error names the node that may still run
// it.
func (n *nodes) release(ctx context.Context, key conversation.Key) error {
	if n.peers == nil {
		return nil
	}
	return n.peers.Release(ctx, string(key))
}

// publish pushes a durable batch to the nodes that have readers of it.
func (n *nodes) publish(key conversation.Key, b storage.Batch) {
	if n.relay != nil {
		n.relay.Publish(key, b)
	}
}

// incarnations returns the members of the newest view, if one is known.
func (n *nodes) incarnations() (ids []string, ok bool) {
	if n.exclusive {
		return []string{n.host.MemberID()}, true
	}
	v := n.members.view.Load()
	if v == nil || n.members.passive() { // An outdated view lacks live members.
		return nil, false
	}
	for _, m := range v.Members {
		ids = append(ids, m.ID)
	}
	return ids, true
}

// grainOptions returns the options of the actor cluster.
func (r *Runtime) grainOptions() *grain.Options {
	c := r.opts.Cluster
	o := &grain.Options{Logger: r.opts.Logger, RequestTimeout: r.opts.AdmitTimeout, HandOver: r.opts.DrainTimeout, Alone: c == nil}
	if r.nodes.exclusive {
		return o
	}
	o.Membership = r.nodes.members
	if c == nil {
		return o
	}
	o.Listen, o.Advertise, o.Insecure = c.Listen, c.Advertise, c.Insecure
	if c.TLS != nil {
		o.TLS = &grain.TLSFiles{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, Name: c.TLS.Name}
	}
	o.Node = func(m proto.Message) proto.Message { return r.nodes.relay.Answer(m) }
	o.ViewChanged = r.viewChanged
	o.LinkDown = func(address string) { r.nodes.relay.LinkDown(address) }
	return o
}

// viewChanged starts a sweep of the journals of departed nodes, and moves followers to the new owners
// of their conversations.
func (r *Runtime) viewChanged(v grain.View) {
	r.nodes.relay.ViewChanged(func(address string) bool {
		return slices.ContainsFunc(v.Members, func(m grain.Member) bool { return m.Address() == address })
	})
	r.sweeper.SweepNow()
	r.events.ScanNow()
}

// followerOptions makes the followers ask for heads if other nodes may write.
func (r *Runtime) followerOptions() *follower.Options {
	o := &follower.Options{
		Logger: r.opts.Logger, Strict: r.opts.StrictReads, Memory: r.opts.Memory, Idle: r.accounts.idle, MaxBytes: r.opts.FollowerBytes, Corrupt: r.verifyLog,
		Reading: func(ctx context.Context, key conversation.Key) (func(), error) { return r.sweeper.Reading(ctx, key) },
	}
	if r.nodes.exclusive {
		return o
	}
	o.Tip = r.nodes.tip
	if r.opts.Cluster != nil {
		o.Waited = func(key conversation.Key) { r.nodes.relay.Follow(key) }
		o.Closed = func(key conversation.Key) { r.nodes.relay.Unfollow(key) }
	}
	return o
}
