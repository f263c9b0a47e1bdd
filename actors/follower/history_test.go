package follower_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

var _ follower.Source = (*storage.Logs)(nil)

func address() conversation.Address { return conversation.Address{Agent: "triage", ID: "42"} }

type push struct {
	at      storage.Position
	prev    storage.Hash
	records []conversation.Record
	lines   []byte
}

// history is a log built batch by batch, with the pages that every reader must get.
type history struct {
	t         testing.TB
	state     *conversation.State
	born      conversation.Offset
	pushes    []push
	fragments []string // encoded chunks of each batch
}

func newHistory(t testing.TB) *history {
	return &history{t: t, state: conversation.NewState()}
}

func chain(prev storage.Hash, seq int64, lines []byte) (out storage.Hash) {
	h := sha256.New()
	h.Write(prev[:])
	_ = binary.Write(h, binary.BigEndian, seq)
	h.Write(lines)
	copy(out[:], h.Sum(nil))
	return out
}

func (h *history) add(records ...conversation.Record) push {
	h.t.Helper()
	lines, err := conversation.EncodeRecords(nil, records)
	if err != nil {
		h.t.Fatal(err)
	}
	at := storage.Start()
	if n := len(h.pushes); n > 0 {
		at = h.pushes[n-1].at
	}
	p := push{prev: at.Hash, records: records, lines: lines}
	p.at = storage.Position{Seq: at.Seq + 1, Hash: chain(at.Hash, at.Seq+1, lines)}
	h.pushes = append(h.pushes, p)
	h.project(p)
	return p
}

func (h *history) project(p push) {
	h.t.Helper()
	b := conversation.Batch{Offset: conversation.Offset(p.at.Seq), Records: p.records}
	if err := h.state.Apply(b); err != nil {
		h.t.Fatal(err)
	}
	var chunks []conversation.Chunk
	if c := h.state.Created(); c != nil {
		for _, r := range p.records {
			if _, ok := r.(*conversation.ConversationCreated); ok {
				h.born = b.Offset
			}
		}
		var err error
		at := func() (*conversation.Snapshot, error) { return h.state.Snapshot(), nil }
		if chunks, err = conversation.Project(c.ConversationID, b, at); err != nil {
			h.t.Fatal(err)
		}
	}
	out, err := conversation.AppendChunks(nil, chunks)
	if err != nil {
		h.t.Fatal(err)
	}
	h.fragments = append(h.fragments, string(out))
}

func (h *history) head() conversation.Offset { return conversation.Offset(len(h.pushes) - 1) }

// page returns the expected page of the batches after..last.
func (h *history) page(after, last conversation.Offset) string {
	var parts []string
	for i := max(after+1, h.born); i <= last; i++ {
		if h.fragments[i] != "" {
			parts = append(parts, h.fragments[i])
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (h *history) snapshot() string {
	b, err := conversation.EncodeJSON(h.state.Snapshot())
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

func (h *history) turn(n int) {
	id := func(prefix string) string { return fmt.Sprintf("%s_%04d", prefix, n) }
	sub, msg := conversation.SubmissionID(id("sub")), conversation.MessageID(id("msg"))
	turn, call := conversation.TurnID(id("turn")), conversation.CallID(id("call"))
	if !h.state.Exists() {
		h.add(h.created(n), admitted(sub, n))
	} else {
		h.add(admitted(sub, n))
	}
	h.add(&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "w"})
	h.add(&conversation.ResponseStarted{Message: msg, Submission: sub, Turn: turn}, delta(msg, "Well, "))
	h.add(delta(msg, "<let & me see> "))
	if n%3 == 0 {
		h.add(&conversation.ToolCalled{Message: msg, Call: call, Name: "lookup", Input: json.RawMessage(`{"q":1}`)})
		h.add(&conversation.ToolSettled{Call: call, Output: json.RawMessage(`"found"`)})
	}
	if n == 1 || n == 5 || n%40 == 9 {
		h.add(&conversation.StepDropped{Message: msg, Turn: turn})
		turn += "b"
		h.add(&conversation.ResponseStarted{Message: msg, Submission: sub, Turn: turn}, delta(msg, "Again: "))
	}
	h.add() // a claim
	h.add(delta(msg, "it is "), delta(msg, id("done")), &conversation.StepCompleted{Message: msg, Turn: turn})
	h.add(&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted})
	if n == 4 || n%50 == 11 {
		h.add(&conversation.Compacted{Summary: "summary", FirstKept: sub})
	}
}

func (h *history) created(n int) *conversation.ConversationCreated {
	return &conversation.ConversationCreated{
		Agent: address().Agent, ID: address().ID, UID: conversation.UID(fmt.Sprintf("inst_%d", n)),
		ConversationID: conversation.ConversationID(fmt.Sprintf("conv_%d", n)),
	}
}

func admitted(sub conversation.SubmissionID, n int) *conversation.SubmissionAdmitted {
	return &conversation.SubmissionAdmitted{
		Submission: sub, Message: conversation.MessageID(fmt.Sprintf("msg_user_%d", n)), Key: string(sub),
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: fmt.Sprintf("question %d", n)},
	}
}

func delta(m conversation.MessageID, text string) *conversation.Delta {
	return &conversation.Delta{Message: m, Kind: conversation.PartText, Text: text}
}

func turns(t testing.TB, n int) *history {
	t.Helper()
	h := newHistory(t)
	for i := range n {
		h.turn(i)
	}
	return h
}

type bucket struct {
	mu     sync.Mutex
	stored []storage.Batch
	err    error // returned by every read while set
	loads  int
	ranges int
	// listed, if set, is called after a load has listed the batches and before it yields them.
	listed func(ctx context.Context)
	newest *storage.Checkpoint // may be nil
	// restores is called, if set, before the newest checkpoint is returned.
	restores func(ctx context.Context)
}

func newBucket(pushes ...push) *bucket {
	b := &bucket{}
	b.store(pushes...)
	return b
}

func (b *bucket) store(pushes ...push) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range pushes {
		b.stored = append(b.stored, storage.Batch{
			Header: storage.Header{Seq: p.at.Seq, Prev: p.prev}, Lines: p.lines, Hash: p.at.Hash,
		})
	}
}

func (b *bucket) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *bucket) counts() (loads, ranges int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads, b.ranges
}

func (b *bucket) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		b.mu.Lock()
		b.loads++
		tail, err, listed := b.stored[min(after.Seq+1, int64(len(b.stored))):], b.err, b.listed
		b.mu.Unlock()
		if listed != nil {
			listed(ctx)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(storage.Batch{}, err)
			return
		}
		for _, s := range tail {
			if s.Prev != after.Hash {
				err := &storage.CorruptError{Conv: conv, Key: "log", Seq: s.Seq, Err: errors.New("chain is broken")}
				yield(storage.Batch{}, err)
				return
			}
			after = s.Position()
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (b *bucket) Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return b.Batches(ctx, conv, after)
}

func (b *bucket) Checkpoint(ctx context.Context, _ conversation.Key) (*storage.Checkpoint, error) {
	b.mu.Lock()
	newest, restores := b.newest, b.restores
	b.mu.Unlock()
	if newest == nil {
		return nil, ctx.Err()
	}
	if restores != nil {
		restores(ctx)
	}
	c := *newest // a copy, because the reader clears fields
	return &c, ctx.Err()
}

func (b *bucket) Page(_ context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	return nil, &storage.CorruptError{Conv: conv, Key: storage.PageKey(conv, ref), Err: errors.New("there is none")}
}

func (b *bucket) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges++
	if err := errors.Join(b.err, ctx.Err()); err != nil {
		return nil, err
	}
	return append([]storage.Batch{}, b.stored[first:last+1]...), nil
}

func (b *bucket) hook(listed func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listed = listed
}

// upTo returns the history up to an offset, to compare pages with.
func (h *history) upTo(off conversation.Offset) *history {
	return &history{t: h.t, born: h.born, pushes: h.pushes[:off+1], fragments: h.fragments[:off+1]}
}

func (b *bucket) restoring(newest *storage.Checkpoint, restores func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest, b.restores = newest, restores
}
