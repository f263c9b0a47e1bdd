package logsim

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// TestLogHistory checks that impossible histories are rejected.
func TestLogHistory(t *testing.T) {
	put := func(call, back int64, id uint64, seq int64) op {
		return op{process: "w", append: true, call: call, back: back, id: id, seq: seq, known: true}
	}
	maybe := func(call, back int64, id uint64) op {
		return op{process: "w", append: true, call: call, back: back, id: id}
	}
	read := func(call, back int64, from int64, ids ...uint64) op {
		return op{process: "r", call: call, back: back, seq: from, read: ids, known: true}
	}
	part := func(call, back int64, from int64, ids ...uint64) op {
		return op{process: "r", call: call, back: back, seq: from, read: ids}
	}
	for _, c := range []struct {
		name string
		ok   bool
		ops  []op
	}{
		{"appended batch is read", true, []op{put(1, 2, 10, 0), put(3, 4, 11, 1), read(5, 6, 0, 10, 11), read(5, 6, 1, 11)}},
		{"a read overlaps an append", true, []op{put(1, 4, 10, 0), read(2, 3, 0), read(2, 3, 0, 10)}},
		{"a part is read", true, []op{put(1, 2, 10, 0), put(3, 4, 11, 1), part(5, 6, 0, 10)}},
		{"an unknown append took place later", true, []op{maybe(1, 2, 10), read(3, 4, 0), read(5, 6, 0, 10)}},
		{"an unknown append never took place", true, []op{maybe(1, 2, 10), put(3, 4, 11, 0), read(5, 6, 0, 11)}},
		{"an unknown append made room", true, []op{maybe(1, 2, 10), put(3, 4, 11, 1), read(5, 6, 0, 10, 11)}},
		{"appended batch is not read", false, []op{put(1, 2, 10, 0), read(3, 4, 0)}},
		{"read batch disappears", false, []op{put(1, 6, 10, 0), read(2, 3, 0, 10), read(4, 5, 0)}},
		{"something else is read", false, []op{put(1, 2, 10, 0), part(3, 4, 0, 11)}},
		{"a number is taken twice", false, []op{put(1, 2, 10, 0), put(1, 2, 11, 0)}},
		{"a number is missing", false, []op{put(1, 2, 10, 0), put(3, 4, 11, 2)}},
		{"the order is another", false, []op{put(1, 2, 10, 1), put(3, 4, 11, 0)}},
		{"an unknown append took place before it began", false, []op{read(1, 2, 0, 10), maybe(3, 4, 10)}},
		{"an unknown append took place and then did not", false, []op{maybe(1, 2, 10), read(3, 4, 0, 10), read(5, 6, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := (History{c.ops}).Check(time.Minute); (err == nil) != c.ok {
				t.Errorf("got %v, want fitting %t", err, c.ok)
			}
		})
	}
}

// TestLogChecks shows impossible results to a process and expects a violation.
func TestLogChecks(t *testing.T) {
	batch := func(seq int64, prev storage.Hash, lines string) storage.Batch {
		h := storage.Header{Version: storage.SchemaVersion, Seq: seq, Nonce: "n", First: seq == 0, Prev: prev}
		return storage.Batch{Header: h, Lines: []byte(lines), Hash: h.Chain([]byte(lines))}
	}
	zero := batch(0, storage.Hash{}, "{}\n")
	one := batch(1, zero.Hash, "{\"n\":1}\n")
	other := batch(1, zero.Hash, "{\"n\":2}\n")
	log := func(err error, batches ...storage.Batch) iter.Seq2[storage.Batch, error] {
		return func(yield func(storage.Batch, error) bool) {
			for _, b := range batches {
				if !yield(b, nil) {
					return
				}
			}
			if err != nil {
				yield(storage.Batch{}, err)
			}
		}
	}
	id := idOf(one.Nonce, one.Lines)
	for _, c := range []struct {
		name string
		want string // part of the violation, "" for none
		do   func(ctx context.Context, p *proc)
	}{
		{"nothing", "", func(ctx context.Context, p *proc) {
			p.read(ctx, "", storage.Start(), log(nil, zero, one), nil)
			p.acknowledged(one.Position(), one, id)
			p.compare([]storage.Batch{zero, one})
		}},
		{"a hole", "follows batch", func(ctx context.Context, p *proc) { p.read(ctx, "", storage.Start(), log(nil, one), nil) }},
		{"another chain", "follows batch", func(ctx context.Context, p *proc) {
			p.read(ctx, "", storage.Start(), log(nil, zero, batch(1, storage.Hash{9}, "{}\n")), nil)
		}},
		{"a number that changes", "batch 1 was", func(ctx context.Context, p *proc) {
			p.read(ctx, "", zero.Position(), log(nil, one), nil)
			p.read(ctx, "", zero.Position(), log(nil, other), nil)
		}},
		{"acknowledged batch is missing", "was acknowledged", func(ctx context.Context, p *proc) {
			p.acknowledged(one.Position(), one, id)
			p.read(ctx, "", storage.Start(), log(nil, zero), nil)
		}},
		{"two acknowledgements", "acknowledged twice", func(_ context.Context, p *proc) {
			p.acknowledged(one.Position(), one, id)
			p.acknowledged(one.Position(), one, id)
		}},
		{"damage where there is none", "is missing", func(ctx context.Context, p *proc) {
			p.read(ctx, "", storage.Start(), log(&storage.GapError{Next: -1}), nil)
		}},
		{"no answer", "", func(ctx context.Context, p *proc) {
			p.read(ctx, "", storage.Start(), log(&storage.Error{Kind: storage.ErrUnavailable}), nil)
		}},
		{"an end without an acknowledged batch", "is gone", func(_ context.Context, p *proc) {
			p.acknowledged(one.Position(), one, id)
			p.compare([]storage.Batch{zero})
		}},
		{"an end with another batch", "acknowledged batch 1", func(_ context.Context, p *proc) {
			p.acknowledged(one.Position(), one, id)
			p.compare([]storage.Batch{zero, other})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(Options{})
				c.do(t.Context(), &proc{world: w, rng: schedule.DiceOf(1, 0)})
				if v := w.trace.Report().Violation; (c.want == "") != (v == "") || !strings.Contains(v, c.want) {
					t.Errorf("got violation %q, want %q", v, c.want)
				}
			})
		})
	}
}
