package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/reduce"
	"github.com/parleyrun/parley/internal/schedule"
)

// reader follows one conversation from a snapshot, at changing nodes.
type reader struct {
	*world
	name string
	at   conversation.Address
	rng  *rand.Rand

	whole     bool // reads from the start instead of a snapshot
	snapshots []conversation.Page

	start  conversation.Offset // of the snapshot, Start before it
	doc    *reduce.Document
	offset conversation.Offset
	last   conversation.Position // of the newest chunk
	seen   []chunk               // after start
}

type chunk struct {
	at  conversation.Position
	raw json.RawMessage
}

// page reads a page at a node, and returns the offset where it ends.
func (r *reader) page(ctx context.Context, m *member, from conversation.Offset, limit int) (next conversation.Offset, chunks []chunk, err error) {
	page, err := r.updates(ctx, m, r.at, from, limit)
	if err != nil {
		return 0, nil, err
	}
	var raws []json.RawMessage
	err = json.Unmarshal(page.JSON, &raws)
	for _, raw := range raws {
		var head struct {
			Position conversation.Position `json:"position"`
		}
		err = errors.Join(err, json.Unmarshal(raw, &head))
		chunks = append(chunks, chunk{head.Position, raw})
	}
	return page.Next, chunks, err
}

func (r *reader) run(ctx context.Context, rng *rand.Rand) {
	r.rng, r.whole = rng, rng.IntN(2) == 0
	slot := rng.IntN(slots)
	for schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 2500*time.Millisecond)) == nil {
		if rng.IntN(6) == 0 {
			slot = rng.IntN(slots)
		}
		if m := r.pick(slot); m != nil {
			r.step(ctx, m)
		}
	}
}

func (r *reader) step(ctx context.Context, m *member) {
	patience := schedule.Between(r.rng.Uint64(), time.Second, 5*time.Second)
	if r.rng.IntN(3) == 0 { // not a second
		patience /= 50
	}
	if m.ctx.Err() != nil {
		return
	}
	ctx, cancel := m.call(ctx, patience)
	defer cancel()
	var err error
	switch n := r.rng.IntN(12); {
	case r.doc == nil:
		err = r.begin(ctx, m)
	case n == 0:
		var page conversation.Page
		if page, err = r.snapshot(ctx, m); err == nil {
			r.snapshots = append(r.snapshots, page)
		}
	case n < 3:
		err = r.reread(ctx, m)
	default:
		if err = r.wait(ctx, m); err == nil {
			err = r.follow(ctx, m, 1+r.rng.IntN(6))
		}
	}
	switch code := conversation.CodeOf(err); {
	case err == nil, ctx.Err() != nil, refusal(err):
	case code != conversation.CodeStreamNotFound:
		r.trace.Violate(r.name, "read after %d at %s: %v", int64(r.offset), m.id, err)
	case r.doc != nil:
		r.trace.Violate(r.name, "%s has lost the conversation: %v", m.id, err)
	}
}

func (r *reader) snapshot(ctx context.Context, m *member) (conversation.Page, error) {
	defer r.read(ctx, m, time.Now())
	return m.node.Reader().Snapshot(ctx, r.at)
}

func (r *reader) wait(ctx context.Context, m *member) error {
	defer r.read(ctx, m, time.Now())
	return m.node.Reader().Wait(ctx, r.at, r.offset)
}

func (r *reader) begin(ctx context.Context, m *member) error {
	if r.whole {
		r.doc = reduce.New(nil)
		r.start, r.offset, r.last = conversation.Start, conversation.Start, conversation.Position{Batch: conversation.Start}
		err := r.follow(ctx, m, 1+r.rng.IntN(6))
		if err != nil {
			r.doc = nil
		}
		return err
	}
	page, err := r.snapshot(ctx, m)
	if err != nil {
		return err
	}
	doc, err := decoded(page.JSON)
	if err == nil {
		r.doc, r.start, r.offset = reduce.New(doc), page.Next, page.Next
		r.last = conversation.Position{Batch: page.Next, Index: 1 << 30}
	}
	return err
}

// reread resumes from an earlier offset and compares the chunks with those seen before.
func (r *reader) reread(ctx context.Context, m *member) error {
	from := r.start + conversation.Offset(r.rng.Int64N(int64(r.offset-r.start)+1))
	next, chunks, err := r.page(ctx, m, from, 1+r.rng.IntN(20))
	if err != nil {
		return err
	}
	within := func(list []chunk) (out []string) {
		for _, c := range list {
			if c.at.Batch > from && c.at.Batch <= min(next, r.offset) {
				out = append(out, string(c.raw))
			}
		}
		return out
	}
	r.trace.Did("page read again")
	if again, before := within(chunks), within(r.seen); !slices.Equal(again, before) {
		r.trace.Violate(r.name, "second read from %d to %d at %s: got %s, want %s as in the first", int64(from), int64(next), m.id, again, before)
	}
	return nil
}

func (r *reader) follow(ctx context.Context, m *member, limit int) error {
	next, chunks, err := r.page(ctx, m, r.offset, limit)
	if err != nil {
		return err
	}
	r.trace.Did("page read")
	// Batches before the creation do not count.
	if next < r.offset || r.offset > conversation.Start && next > r.offset+conversation.Offset(limit) {
		return errors.New("page ends outside the requested range")
	}
	for _, c := range chunks {
		r.trace.ViolateIf(c.at.Compare(r.last) <= 0 || c.at.Batch > next,
			r.name, "chunk %+v after %+v in the page to %d", c.at, r.last, int64(next))
		r.last = c.at
		o, err := decoded(c.raw)
		if err == nil {
			err = r.doc.Apply(o)
		}
		r.trace.ViolateIf(err != nil, r.name, "chunk %s does not apply: %v", c.raw, err)
	}
	r.seen = append(r.seen, chunks...)
	r.offset = next
	r.doc.Root["offset"] = next.String()
	return nil
}

// finish reads to the head, without faults.
func (r *reader) finish(ctx context.Context, m *member, head conversation.Offset) {
	if r.doc == nil {
		if err := r.begin(ctx, m); err != nil {
			r.trace.Violate(r.name, "first read at the end: %v", err)
			return
		}
	}
	// The offset makes the node read batches it has not been notified of.
	if _, err := r.updates(ctx, m, r.at, head, 1); err != nil {
		r.trace.Violate(r.name, "read after the head %d at %s: %v", int64(head), m.id, err)
		return
	}
	for r.offset < head {
		before := r.offset
		if err := r.follow(ctx, m, 1+r.rng.IntN(50)); err != nil || r.offset == before {
			r.trace.Violate(r.name, "read after %d at the end, head %d: %v", int64(before), int64(head), err)
			return
		}
	}
}

// check compares the chunks of a reader with the final log.
func (r *reader) check(log *knownLog) {
	var want, have []string
	state := conversation.NewState()
	for _, b := range log.batches {
		if b.Offset > r.offset {
			break
		}
		if err := state.Apply(b); err != nil {
			r.trace.Violate(r.name, "fold batch %d: %v", int64(b.Offset), err)
			return
		}
		for _, s := range r.snapshots {
			if s.Next == b.Offset {
				r.trace.Did("snapshot compared")
				doc, err := decoded(s.JSON)
				r.compare(state, "snapshot taken", doc, err)
			}
		}
		if b.Offset <= r.start {
			continue
		}
		chunks, err := conversation.Project(log.state.Created().ConversationID, b,
			func() (*conversation.Snapshot, error) { return state.Snapshot(), nil })
		for _, c := range chunks {
			one, bad := conversation.AppendChunks(nil, []conversation.Chunk{c})
			want, err = append(want, string(one)), errors.Join(err, bad)
		}
		r.trace.ViolateIf(err != nil, r.name, "project batch %d: %v", int64(b.Offset), err)
	}
	for _, c := range r.seen {
		have = append(have, string(c.raw))
	}
	if !slices.Equal(have, want) {
		r.trace.Violate(r.name, "chunks from %d to %d differ from the log (-want +got):\n%s", int64(r.start), int64(r.offset), cmp.Diff(want, have))
	}
	r.compare(state, "reduced view", r.doc.Root, nil)
}

func (r *reader) compare(state *conversation.State, desc string, have reduce.Object, bad error) {
	data, err := conversation.EncodeJSON(state.Snapshot())
	want, undecoded := decoded(data)
	if err := errors.Join(bad, err, undecoded); err != nil {
		r.trace.Violate(r.name, "%s at %d: %v", desc, int64(state.Head()), err)
		return
	}
	if !reflect.DeepEqual(want, have) {
		r.trace.Violate(r.name, "%s at %d differs from the log (-want +got):\n%s", desc, int64(state.Head()), cmp.Diff(want, have))
	}
}

// decoded decodes an object as clients do.
func decoded(data []byte) (o reduce.Object, err error) {
	return o, json.Unmarshal(data, &o)
}
