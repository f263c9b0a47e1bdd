package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// ack is an acknowledged admission.
type ack struct {
	at      conversation.Address
	key     string
	body    string
	receipt conversation.Receipt
}

// client delivers a few messages to one conversation and repeats each under its
// key until the answer is definite, or it gives up.
func (w *world) client(ctx context.Context, name string, at conversation.Address) {
	rng := w.rng(name)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 1 + rng.IntN(3) {
		if sleep(ctx, between(rng.Uint64(), 0, 5*time.Second)) != nil {
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		tries := 1 + rng.IntN(8)
		if rng.IntN(4) == 0 {
			twin := w.rng(key)
			wg.Go(func() { w.deliver(ctx, twin, at, key, 3) })
		}
		w.deliver(ctx, rng, at, key, tries)
	}
}

func (w *world) deliver(ctx context.Context, rng *rand.Rand, at conversation.Address, key string, tries int) {
	body := "say-" + key
	for range tries {
		m := w.pick(rng.IntN(slots))
		if m == nil {
			return
		}
		wait := between(rng.Uint64(), time.Second, 12*time.Second)
		pause := between(rng.Uint64(), 50*time.Millisecond, 2*time.Second)
		receipt, err := w.admit(ctx, m, wait, conversation.Admission{
			Address: at, Key: key, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body},
		})
		if err == nil {
			w.trace.add(key, "acknowledged by %s: %+v", m.id, receipt)
			w.acknowledged(ack{at, key, body, receipt})
			w.readBack(ctx, w.pick(rng.IntN(slots)), at, receipt.Offset)
			return
		}
		w.trace.add(key, "no answer from %s: %v", m.id, err)
		if sleep(ctx, pause) != nil {
			return
		}
	}
	w.trace.add(key, "given up")
}

// admit is one try. The answer of a node that has died meanwhile does not count.
func (w *world) admit(ctx context.Context, m *member, wait time.Duration, a conversation.Admission) (conversation.Receipt, error) {
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	receipt, err := m.node.Admit(ctx, a)
	var known *conversation.Error
	switch {
	case m.life.Err() != nil:
		return receipt, errDead
	case err != nil && (!errors.As(err, &known) || known.Code != conversation.CodeUnavailable):
		w.trace.violate(m.id, "an admission ends with %v", err)
	}
	return receipt, err
}

func (w *world) acknowledged(a ack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := a.at.ID + " " + a.key
	old, ok := w.acks[id]
	w.acks[id] = a
	old.receipt.Deduplicated, a.receipt.Deduplicated = false, false
	if ok && old != a {
		w.trace.violate(a.key, "two receipts: %+v and %+v", old.receipt, a.receipt)
	}
}

// readBack reads after an acknowledged offset, which any node must know.
func (w *world) readBack(ctx context.Context, m *member, at conversation.Address, off conversation.Offset) {
	if m == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	_, err := m.node.Reader().Updates(ctx, at, off, 1)
	if err != nil && ctx.Err() == nil && conversation.CodeOf(err) != conversation.CodeUnavailable {
		w.trace.violate(m.id, "offset %d was acknowledged, and a read after it says %v", int64(off), err)
	}
}
