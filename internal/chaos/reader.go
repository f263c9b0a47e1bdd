package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
	"github.com/parleyrun/parley/internal/schedule"
)

// reader follows one conversation from a snapshot on, at changing nodes.
type reader struct {
	world *world
	name  string
	at    conversation.Address
	rng   *rand.Rand

	whole     bool // reads from the start instead of a snapshot
	snapshots []conversation.Page

	start  conversation.Offset // of the snapshot, Start before it
	doc    *reduce.Document
	offset conversation.Offset
	last   conversation.Position // of the newest chunk
	seen   []json.RawMessage     // chunks after start
}

func (w *world) newReader(name string, at conversation.Address) *reader {
	r := &reader{world: w, name: name, at: at, rng: w.rng(name)}
	r.whole = r.rng.IntN(2) == 0
	w.readers = append(w.readers, r)
	return r
}

func (r *reader) run(ctx context.Context) {
	slot := r.rng.IntN(slots)
	for schedule.Sleep(ctx, schedule.Between(r.rng.Uint64(), 0, 2500*time.Millisecond)) == nil {
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
	patience := schedule.Between(r.rng.Uint64(), time.Second, 5*time.Second)
	if r.rng.IntN(3) == 0 { // not a second
		patience /= 50
	}
	if m.life.Err() != nil {
		return
	}
	ctx, cancel := alive(ctx, m)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var err error
	switch n := r.rng.IntN(12); {
	case r.doc == nil:
		err = r.begin(ctx, m)
	case n == 0:
		err = r.snapshot(ctx, m)
	case n < 3:
		err = r.reread(ctx, m)
	default:
		err = r.follow(ctx, m)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	switch conversation.CodeOf(err) {
	case conversation.CodeUnavailable, conversation.CodeSetAside:
	case conversation.CodeStreamNotFound:
		if r.doc != nil {
			r.world.trace.Violate(r.name, "%s has lost the conversation: %v", m.id, err)
		}
	default:
		r.world.trace.Violate(r.name, "a read after %d at %s says %v", int64(r.offset), m.id, err)
	}
}

// follow waits for news and takes a page of them.
func (r *reader) follow(ctx context.Context, m *member) error {
	if err := r.world.wait(ctx, m, r.at, r.offset); err != nil {
		return err
	}
	return r.updates(ctx, m, 1+r.rng.IntN(6))
}

// begin makes the first read.
func (r *reader) begin(ctx context.Context, m *member) error {
	if r.whole {
		r.doc = reduce.New(nil)
		r.start, r.offset, r.last = conversation.Start, conversation.Start, conversation.Position{Batch: conversation.Start}
		err := r.updates(ctx, m, 1+r.rng.IntN(6))
		if err != nil {
			r.doc = nil
		}
		return err
	}
	page, err := r.world.snapshot(ctx, m, r.at)
	if err != nil {
		return err
	}
	doc, err := decoded(page.JSON)
	if err != nil {
		return err
	}
	r.doc, r.start, r.offset = reduce.New(doc), page.Next, page.Next
	r.last = conversation.Position{Batch: page.Next, Index: 1 << 30}
	return nil
}

// snapshot takes a snapshot, to be compared in the end.
func (r *reader) snapshot(ctx context.Context, m *member) error {
	page, err := r.world.snapshot(ctx, m, r.at)
	if err == nil {
		r.snapshots = append(r.snapshots, page)
	}
	return err
}

// reread resumes from an earlier offset and compares what comes with what was seen.
func (r *reader) reread(ctx context.Context, m *member) error {
	from := r.start + conversation.Offset(r.rng.Int64N(int64(r.offset-r.start)+1))
	page, err := r.world.updates(ctx, m, r.at, from, 1+r.rng.IntN(20))
	if err != nil {
		return err
	}
	var chunks, again, before []json.RawMessage
	if err := json.Unmarshal(page.JSON, &chunks); err != nil {
		return err
	}
	within := func(list []json.RawMessage) (out []json.RawMessage, err error) {
		for _, c := range list {
			p, err := position(c)
			if err != nil {
				return nil, err
			}
			if p.Batch > from && p.Batch <= min(page.Next, r.offset) {
				out = append(out, c)
			}
		}
		return out, nil
	}
	if again, err = within(chunks); err == nil {
		before, err = within(r.seen)
	}
	if err != nil {
		return err
	}
	r.world.shown.Add(didReread)
	if !slices.EqualFunc(again, before, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		r.world.trace.Violate(r.name, "a second read from %d to %d at %s shows %s, the first %s", int64(from), int64(page.Next), m.id, again, before)
	}
	return nil
}

// position is the place of a chunk.
func position(chunk json.RawMessage) (conversation.Position, error) {
	var head struct {
		Position conversation.Position `json:"position"`
	}
	err := json.Unmarshal(chunk, &head)
	return head.Position, err
}

// updates takes one page.
func (r *reader) updates(ctx context.Context, m *member, limit int) error {
	page, err := r.world.updates(ctx, m, r.at, r.offset, limit)
	if err != nil {
		return err
	}
	var chunks []json.RawMessage
	if err := json.Unmarshal(page.JSON, &chunks); err != nil {
		return err
	}
	r.world.shown.Add(didRead)
	// What comes before the creation does not count.
	if page.Next < r.offset || r.offset > conversation.Start && page.Next > r.offset+conversation.Offset(limit) {
		return errors.New("page ends outside of what was asked for")
	}
	for _, c := range chunks {
		at, err := position(c)
		if err != nil {
			return err
		}
		if at.Compare(r.last) <= 0 || at.Batch > page.Next {
			r.world.trace.Violate(r.name, "chunk %+v after %+v in the page to %d", at, r.last, int64(page.Next))
		}
		r.last = at
		chunk, err := decoded(c)
		if err == nil {
			err = r.doc.Apply(chunk)
		}
		if err != nil {
			r.world.trace.Violate(r.name, "chunk %s does not apply: %v", c, err)
		}
		r.seen = append(r.seen, c)
	}
	r.offset = page.Next
	r.doc.Root["offset"] = page.Next.String()
	return nil
}

// finish reads to the head without disturbance.
func (r *reader) finish(ctx context.Context, m *member, head conversation.Offset) {
	if r.doc == nil {
		if err := r.begin(ctx, m); err != nil {
			r.world.trace.Violate(r.name, "first read at the end: %v", err)
			return
		}
	}
	// The offset makes the node look for what it has not heard of.
	if _, err := r.world.updates(ctx, m, r.at, head, 1); err != nil {
		r.world.trace.Violate(r.name, "read after the head %d at %s: %v", int64(head), m.id, err)
		return
	}
	for r.offset < head {
		before := r.offset
		if err := r.updates(ctx, m, 1+r.rng.IntN(50)); err != nil || r.offset == before {
			r.world.trace.Violate(r.name, "read after %d at the end, head %d: %v", int64(before), int64(head), err)
			return
		}
	}
}
