package actors

import (
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// nowhere is a bucket without requests.
type nowhere struct{ storage.Bucket }

// ownerPeers considers one node the owner of everything; this one is at "here".
type ownerPeers struct {
	peers
	owner string
}

func (p *ownerPeers) Owner(string) (string, bool) { return p.owner, p.owner == "here" }

// TestTipOfAnotherNode: a conversation that is being handed over may have advanced on another node.
func TestTipOfAnotherNode(t *testing.T) {
	r, err := newRuntime(nowhere{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := conversation.Address{Agent: "a", ID: "b"}.Key()
	tip := new(atomic.Int64)
	r.active.enter(key, running{nonce: "n", tip: tip, send: func(any) {}})
	others := &ownerPeers{owner: "here"}
	r.nodes.peers = others
	if !r.nodes.tipHere(key).GetKnown() {
		t.Error("got an unknown tip at the owner")
	}
	others.owner = "elsewhere"
	if r.nodes.tipHere(key).GetKnown() {
		t.Error("got a known tip for a conversation of another owner")
	}
}
