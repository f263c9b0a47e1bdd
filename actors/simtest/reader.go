package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// reader follows one conversation from a snapshot on, at changing nodes.
type reader struct {
	world *world
	name  string
	at    conversation.Address
	rng   *rand.Rand

	start  conversation.Offset // of the snapshot, Start before it
	doc    *document
	offset conversation.Offset
	last   conversation.Position // of the newest chunk
	seen   []json.RawMessage     // chunks after start
}

func (w *world) newReader(name string, at conversation.Address) *reader {
	r := &reader{world: w, name: name, at: at, rng: w.rng(name)}
	w.readers = append(w.readers, r)
	return r
}

func (r *reader) run(ctx context.Context) {
	slot := r.rng.IntN(slots)
	for sleep(ctx, between(r.rng.Uint64(), 0, 2500*time.Millisecond)) == nil {
		if r.rng.IntN(6) == 0 {
			slot = r.rng.IntN(slots)
		}
		m := r.world.pick(slot)
		if m == nil {
			continue
		}
		r.step(ctx, m)
	}
}

// step makes one read at a node.
func (r *reader) step(ctx context.Context, m *member) {
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, between(r.rng.Uint64(), time.Second, 5*time.Second))
	defer stop()
	var err error
	if r.doc == nil {
		err = r.snapshot(ctx, m)
	} else if err = m.node.Reader().Wait(ctx, r.at, r.offset); err == nil {
		err = r.updates(ctx, m, 1+r.rng.IntN(6))
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	switch conversation.CodeOf(err) {
	case conversation.CodeUnavailable:
	case conversation.CodeStreamNotFound:
		if r.doc != nil {
			r.world.trace.violate(r.name, "%s has lost the conversation: %v", m.id, err)
		}
	default:
		r.world.trace.violate(r.name, "a read after %d at %s says %v", int64(r.offset), m.id, err)
	}
}

func (r *reader) snapshot(ctx context.Context, m *member) error {
	page, err := m.node.Reader().Snapshot(ctx, r.at)
	if err != nil {
		return err
	}
	doc, err := decodeDocument(page.JSON)
	if err != nil {
		return err
	}
	r.doc, r.start, r.offset = doc, page.Next, page.Next
	r.last = conversation.Position{Batch: page.Next, Index: 1 << 30}
	return nil
}

// updates takes one page.
func (r *reader) updates(ctx context.Context, m *member, limit int) error {
	page, err := m.node.Reader().Updates(ctx, r.at, r.offset, limit)
	if err != nil {
		return err
	}
	var chunks []json.RawMessage
	if err := json.Unmarshal(page.JSON, &chunks); err != nil {
		return err
	}
	r.world.mu.Lock()
	r.world.reads++
	r.world.mu.Unlock()
	if page.Next < r.offset || page.Next > r.offset+conversation.Offset(limit) {
		return errors.New("page ends outside of what was asked for")
	}
	for _, c := range chunks {
		var head struct {
			Position conversation.Position `json:"position"`
		}
		if err := json.Unmarshal(c, &head); err != nil {
			return err
		}
		if head.Position.Compare(r.last) <= 0 || head.Position.Batch > page.Next {
			r.world.trace.violate(r.name, "chunk %+v after %+v in the page to %d", head.Position, r.last, int64(page.Next))
		}
		r.last = head.Position
		if err := r.doc.apply(c); err != nil {
			r.world.trace.violate(r.name, "chunk %s does not apply: %v", c, err)
		}
		r.seen = append(r.seen, c)
	}
	r.offset = page.Next
	r.doc.setOffset(page.Next)
	return nil
}

// finish reads to the head without disturbance.
func (r *reader) finish(ctx context.Context, m *member, head conversation.Offset) {
	if r.doc == nil {
		if err := r.snapshot(ctx, m); err != nil {
			r.world.trace.violate(r.name, "snapshot at the end: %v", err)
			return
		}
	}
	// The offset makes the node look for what it has not heard of.
	if _, err := m.node.Reader().Updates(ctx, r.at, head, 1); err != nil {
		r.world.trace.violate(r.name, "read after the head %d at %s: %v", int64(head), m.id, err)
		return
	}
	for r.offset < head {
		before := r.offset
		if err := r.updates(ctx, m, 1+r.rng.IntN(50)); err != nil || r.offset == before {
			r.world.trace.violate(r.name, "read after %d at the end, head %d: %v", int64(before), int64(head), err)
			return
		}
	}
}
