package relay

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// lateNode answers a Subscribe after the request has timed out.
type lateNode struct {
	*relayNode
	late chan func()
}

func (n *lateNode) AskNode(ctx context.Context, address string, m proto.Message) (proto.Message, error) {
	if _, ok := m.(*wire.Subscribe); ok && n.late != nil {
		late, ctx2 := n.late, ctx
		n.late = nil
		late <- func() { _, _ = n.relayNode.AskNode(context.Background(), address, m) }
		<-ctx2.Done()
		return nil, ctx2.Err()
	}
	return n.relayNode.AskNode(ctx, address, m)
}

// TestRelayLateSubscription: a subscription accepted after the subscriber has timed out and read the
// bucket proves nothing about batches that landed in between.
func TestRelayLateSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "owner", "owner", "reader")
		owner, reader := net.nodes["owner"].relay, net.nodes["reader"]
		late := make(chan func(), 1)
		reader.relay.peers = &lateNode{reader, late}
		reader.relay.Follow("c")
		deliver := <-late
		time.Sleep(askTimeout)
		reader.wants("no answer", "c recheck")
		owner.Publish("c", relayBatch(1, "not subscribed yet"))
		reader.wants("it is not pushed")
		deliver()
		time.Sleep(5 * renewEvery)
		if got := reader.calls(); !slices.Contains(got, "c recheck") {
			t.Errorf("batch 1 is missed permanently; calls: %v", got)
		}
	})
}

// TestRelayMissesTheLastOwner: the previous owner writes once more after this node read the bucket.
func TestRelayMissesTheLastOwner(t *testing.T) {
	for _, next := range []string{"reader", "b"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newRelayNet(t, "a", "a", "b", "reader")
				reader := net.nodes["reader"]
				reader.relay.Follow("c")
				reader.wants("the first owner", "c recheck")
				net.moves(next)
				reader.wants("the next owner", "c recheck")
				net.cutOff("reader", true) // pushes of a are lost
				net.nodes["a"].relay.Publish("c", relayBatch(1, "in flight at a"))
				synctest.Wait()
				net.cutOff("reader", false)
				time.Sleep(10 * renewEvery)
				if got := reader.calls(); !slices.Contains(got, "c recheck") {
					t.Errorf("batch 1 is missed permanently; calls: %v", got)
				}
			})
		})
	}
}

// twoOwners assigns conversations that begin with "s" to a hanging node.
type twoOwners struct {
	*relayNode
}

func (n *twoOwners) Owner(id string) (string, bool) {
	if id[0] == 's' {
		return "slow", false
	}
	return "owner", false
}

// TestRelayOneSlowOwner: a hanging node delays no subscription with another.
func TestRelayOneSlowOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "owner", "owner", "reader", "slow")
		reader := net.nodes["reader"]
		reader.relay.peers = &twoOwners{reader}
		net.stall("slow")
		for i := range 3500 {
			reader.relay.Follow(conversation.Key("s" + string(rune('0'+i%10)) + time.Duration(i).String()))
		}
		time.Sleep(100 * time.Millisecond) // the request to the slow one has begun
		began := time.Now()
		reader.relay.Follow("c")
		for {
			if slices.Contains(reader.calls(), "c recheck") {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("subscription with the healthy owner took %v", d)
		}
	})
}

func TestRelayFollowStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newRelayNet(t, "", "reader")
		reader := net.nodes["reader"]
		for i := range 100 {
			reader.relay.Follow(conversation.Key(time.Duration(i).String()))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(renewEvery / 2)
		if n := len(reader.calls()); n > 300 {
			t.Errorf("%d bucket reads for 100 conversations within a round, want at most 300", n)
		}
	})
}
