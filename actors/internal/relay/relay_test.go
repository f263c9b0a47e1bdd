package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// relayNet is a network of relays with one owner for all conversations.
type relayNet struct {
	t *testing.T

	mu    sync.Mutex
	owner string
	nodes map[string]*relayNode
	cut   map[string]bool          // nodes that do not answer
	new   map[string]bool          // nodes not in the view yet
	stuck map[string]chan struct{} // nodes that answer once it is closed
}

// errNoMember is the error for a node that is not in the view.
var errNoMember = errors.New("not a member")

type relayNode struct {
	net     *relayNet
	address string
	relay   *Relay
	active  int64 // tip of an activation here, or -1

	mu     sync.Mutex
	called []string
}

func newRelayNet(t *testing.T, owner string, addresses ...string) *relayNet {
	n := &relayNet{t: t, owner: owner, nodes: map[string]*relayNode{}, cut: map[string]bool{}, new: map[string]bool{}, stuck: map[string]chan struct{}{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	for _, a := range addresses {
		node := &relayNode{net: n, address: a, active: -1}
		node.relay = New(Options{Peers: node, Followers: node, Tip: node.tip, Unknown: func(err error) bool { return errors.Is(err, errNoMember) }})
		n.nodes[a] = node
		wg.Go(func() { node.relay.Run(ctx) })
	}
	return n
}

func (n *relayNode) tip(conversation.Key) *wire.Tip {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &wire.Tip{Seq: n.active, Known: n.active >= 0}
}

func (n *relayNode) runs(tip int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = tip
}

func (n *relayNode) Address() string { return n.address }

func (n *relayNode) Owner(string) (string, bool) {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.net.owner, n.net.owner == n.address
}

func (n *relayNode) Release(context.Context, string) error     { return nil }
func (n *relayNode) Reachable() (reached []string, others int) { return nil, 0 }

func (n *relayNode) AskNode(ctx context.Context, address string, m proto.Message) (proto.Message, error) {
	n.net.mu.Lock()
	peer, cut, stuck, unknown := n.net.nodes[address], n.net.cut[address], n.net.stuck[address], n.net.new[address]
	n.net.mu.Unlock()
	if unknown {
		return nil, errNoMember
	}
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if cut || peer == nil {
		return nil, errors.New("cut")
	}
	content, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	copied := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(content, copied); err != nil {
		return nil, err
	}
	return peer.relay.Answer(copied), nil
}

func (n *relayNode) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.called = append(n.called, fmt.Sprintf(format, args...))
}

func (n *relayNode) OfferStored(key conversation.Key, b storage.Batch) {
	n.note("%s %d %x after %x: %.20s", key, b.Seq, b.Hash[0], b.Prev[0], b.Lines)
}
func (n *relayNode) Behind(key conversation.Key, seq int64) { n.note("%s behind %d", key, seq) }
func (n *relayNode) Recheck(key conversation.Key)           { n.note("%s recheck", key) }

// calls returns the calls to the followers since its last call.
func (n *relayNode) calls() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.called
	n.called = nil
	return out
}

func (n *relayNode) wants(step string, want ...string) {
	n.net.t.Helper()
	if diff := cmp.Diff(want, n.calls()); diff != "" {
		n.net.t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func (n *relayNet) moves(to string) {
	n.mu.Lock()
	n.owner = to
	n.mu.Unlock()
	for _, node := range n.nodes {
		node.relay.ViewChanged(func(address string) bool { return n.nodes[address] != nil })
	}
}

func (n *relayNet) cutOff(address string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[address] = cut
}

// stall delays messages to a node until the returned function is called.
func (n *relayNet) stall(address string) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	stuck := make(chan struct{})
	n.stuck[address] = stuck
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.stuck, address)
		close(stuck)
	}
}

func relayBatch(seq int64, lines string) storage.Batch {
	b := storage.Batch{}
	b.Seq, b.Lines = seq, []byte(lines)
	b.Hash[0], b.Prev[0] = byte(seq+1), byte(seq)
	return b
}

func TestRelayPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "owner", "owner", "reader", "other")
		owner, reader := net.nodes["owner"].relay, net.nodes["reader"]
		owner.Publish("c", relayBatch(0, "no subscriber"))
		reader.relay.Follow("c")
		reader.wants("a subscription without an activation there", "c recheck")
		for seq := range int64(3) {
			owner.Publish("c", relayBatch(seq+1, "x"))
		}
		owner.Publish("d", relayBatch(0, "not asked for"))
		owner.Publish("c", relayBatch(4, strings.Repeat("y", maxPush+1)))
		reader.wants("pushes", "c 1 2 after 1: x", "c 2 3 after 2: x", "c 3 4 after 3: x", "c behind 4")
		net.nodes["other"].wants("a node without followers")

		time.Sleep(keptFor * 2)
		reader.wants("renewals of an active subscription")
		net.nodes["owner"].runs(7)
		time.Sleep(renewEvery)
		reader.wants("a renewal with a tip", "c behind 7")

		reader.relay.Unfollow("c")
		time.Sleep(2 * renewEvery)
		owner.Publish("c", relayBatch(8, "x"))
		reader.wants("after the end")
		if n := len(owner.wanted["c"]); n != 0 {
			t.Errorf("%d subscribers kept, want 0", n)
		}
	})
}

func TestRelayFollowsTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "a", "a", "b", "reader")
		reader := net.nodes["reader"]
		reader.relay.Follow("c")
		reader.wants("the first owner", "c recheck")
		net.moves("b")
		reader.wants("the next owner", "c recheck")
		net.nodes["b"].relay.Publish("c", relayBatch(1, "x"))
		reader.wants("a push of the next owner", "c 1 2 after 1: x")
		net.moves("reader")
		reader.wants("the reader's node is the owner", "c recheck")
		time.Sleep(movedFor)
		if got := reader.calls(); len(got) < 3 {
			t.Errorf("%d rechecks for batches of the previous owner, want at least 3", len(got))
		}
		time.Sleep(10 * renewEvery)
		reader.wants("nothing is to be renewed")
		net.moves("")
		reader.wants("no owner", "c recheck")
		time.Sleep(renewEvery)
		reader.wants("still no owner", "c recheck")
		if lag := reader.relay.Lag(); lag != renewEvery {
			t.Errorf("lag %v, want %v", lag, renewEvery)
		}
	})
}

// TestRelayHealsLosses drops pushes and answers.
func TestRelayHealsLosses(t *testing.T) {
	for name, lose := range map[string]func(net *relayNet, owner *Relay){
		"a subscriber does not answer": func(net *relayNet, owner *Relay) {
			net.cutOff("reader", true)
			owner.Publish("c", relayBatch(1, "x"))
			synctest.Wait()
			net.cutOff("reader", false)
		},
		"a subscriber is too slow": func(net *relayNet, owner *Relay) {
			goOn := net.stall("reader")
			for seq := range int64(200) {
				owner.Publish("c", relayBatch(seq+1, strings.Repeat("x", maxPush)))
			}
			synctest.Wait()
			if got := owner.outboxes["reader"].bytes; got > maxOutbox+maxPush+100 {
				net.t.Errorf("%d bytes waiting for one node", got)
			}
			goOn()
		},
		"a subscriber hangs": func(net *relayNet, owner *Relay) {
			goOn := net.stall("reader")
			owner.Publish("c", relayBatch(1, "x"))
			time.Sleep(2 * askTimeout)
			goOn()
		},
		"the link breaks": func(net *relayNet, owner *Relay) {
			net.nodes["reader"].relay.LinkDown("owner")
			owner.LinkDown("reader")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newRelayNet(t, "owner", "owner", "reader")
				net.t = t
				owner, reader := net.nodes["owner"].relay, net.nodes["reader"]
				reader.relay.Follow("c")
				reader.wants("the subscription", "c recheck")
				lose(net, owner)
				time.Sleep(2 * renewEvery)
				if got := reader.calls(); !slices.Contains(got, "c recheck") {
					t.Errorf("lost batches were not rechecked; calls: %.200v", got)
				}
				owner.Publish("c", relayBatch(300, "x"))
				reader.wants("delivery continues", "c 300 2d after 2c: x")
			})
		})
	}
}

// TestRelayWaitsForNewMembers: a subscriber is not in its owner's view yet.
func TestRelayWaitsForNewMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "owner", "owner", "reader")
		reader := net.nodes["reader"]
		reader.relay.Follow("c")
		reader.wants("the subscription", "c recheck")
		net.mu.Lock()
		net.new["reader"] = true
		net.mu.Unlock()
		net.nodes["owner"].relay.Publish("c", relayBatch(1, "x"))
		time.Sleep(askTimeout / 2)
		net.mu.Lock()
		net.new["reader"] = false
		net.mu.Unlock()
		time.Sleep(deliverPause)
		reader.wants("delayed batches", "c 1 2 after 1: x")
		time.Sleep(2 * renewEvery)
		reader.wants("nothing was lost")
	})
}

// TestRelayReadsWithoutOwner: the owner does not answer.
func TestRelayReadsWithoutOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "owner", "owner", "reader")
		reader := net.nodes["reader"]
		net.cutOff("owner", true)
		reader.relay.Follow("c")
		reader.wants("the first recheck", "c recheck")
		time.Sleep(3 * renewEvery)
		reader.wants("one recheck per interval", "c recheck", "c recheck", "c recheck")
		net.cutOff("owner", false)
		time.Sleep(renewEvery)
		reader.wants("the owner is back", "c recheck")
		time.Sleep(10 * renewEvery)
		reader.wants("the subscription is active")
	})
}
