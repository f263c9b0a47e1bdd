package actors

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// nowhere is a bucket that nothing asks.
type nowhere struct{ storage.Bucket }

// TestTipOfAnotherNode: what runs here while it is handed over may have gone on elsewhere.
func TestTipOfAnotherNode(t *testing.T) {
	r, err := newRuntime(nowhere{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := conversation.Address{Agent: "a", ID: "b"}.Key()
	tip := new(atomic.Int64)
	r.enter(key, running{nonce: "n", tip: tip, tell: func(any) {}})
	net := &relayNet{owner: "here"}
	r.peers = &relayNode{net: net, address: "here"}
	if !r.tipHere(key).GetKnown() {
		t.Error("the owner does not know its tip")
	}
	net.owner = "elsewhere"
	if r.tipHere(key).GetKnown() {
		t.Error("a node vouches for a conversation that another one owns in its own view")
	}
}

// oneSlow is a host whose owner of one conversation does not answer.
type oneSlow struct {
	host
	slow string
}

func (h *oneSlow) MemberID() string { return "me" }
func (h *oneSlow) Request(ctx context.Context, id string, _ proto.Message) (proto.Message, error) {
	if id == h.slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &wire.PokeReply{Answer: wire.PokeReply_HELD}, nil
}

// TestOneSlowPoke: a new owner that hangs holds up no other conversation's hand-over.
func TestOneSlowPoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := newRuntime(nowhere{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.host = &oneSlow{slow: "slow"}
		r.journal = newJournal(nowhere{}, "me", slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.pokeLoop(ctx)
		}()
		r.journal.list(entryID{"slow", "n"}, 0, func() {})
		r.askPokes()
		synctest.Wait()
		r.journal.list(entryID{"fast", "n"}, 0, func() {})
		began := time.Now()
		for len(r.journal.held()) > 1 && time.Since(began) < time.Minute {
			r.askPokes()
			time.Sleep(handOverPause)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("what was released after the first look waits %v for another conversation's owner", d)
		}
		cancel()
		<-done
	})
}
