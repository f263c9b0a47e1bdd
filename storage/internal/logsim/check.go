package logsim

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// fold is a process's knowledge of a log up to a position.
type fold struct {
	at      storage.Position
	sum     uint64
	claims  []storage.Claim
	writers int64
	from    *storage.Checkpoint // read or stored last
}

func emptyFold() fold { return fold{at: storage.Start()} }

func (f fold) with(b storage.Batch) fold {
	f.at, f.sum = b.Position(), (f.sum^idOf(b.Nonce, b.Lines))*0x100000001b3
	if b.First {
		f.claims, f.writers = append(slices.Clip(f.claims), storage.Claim{Seq: b.Seq, Nonce: b.Nonce}), f.writers+1
	}
	return f
}

// idOf returns the identity of a batch. Batches differ in the first bytes and in the length.
func idOf(nonce storage.Nonce, lines []byte) uint64 {
	h := fnv.New64a()
	io.WriteString(h, string(nonce))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(lines))))
	h.Write(lines[:min(len(lines), 64)])
	return h.Sum64()
}

// began returns an operation that begins now, for a batch or from it on.
func (p *proc) began(seq int64) op { return op{process: p.name, call: int64(p.trace.Now()), seq: seq} }

// ended records the end of an operation.
func (p *proc) ended(o op) {
	o.back = int64(p.trace.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = append(p.history, o)
}

// observe checks that a number never changes its batch.
func (p *proc) observe(b storage.Batch) {
	p.mu.Lock()
	was, known := p.seen[b.Seq]
	if !known {
		p.seen[b.Seq] = b
	}
	p.end = max(p.end, b.Seq)
	p.mu.Unlock()
	if known && (was.Hash != b.Hash || was.Header != b.Header || !bytes.Equal(was.Lines, b.Lines)) {
		p.trace.Violate(p.name, "batch %d was %.50q of %s and is %.50q of %s", b.Seq, was.Lines, was.Nonce, b.Lines, b.Nonce)
	}
}

// batches reads a log and checks the result.
func (p *proc) batches(ctx context.Context, how string, at storage.Position, into *fold) (got []storage.Batch, ok bool) {
	return p.read(ctx, how, at, p.logs.Batches(ctx, p.conv, at), into)
}

// read checks the batches that a reader sees after a position, and folds them. It returns the batches
// and whether the end was reached.
func (p *proc) read(ctx context.Context, how string, at storage.Position, log iter.Seq2[storage.Batch, error], into *fold) (got []storage.Batch, ok bool) {
	p.mu.Lock()
	acked := p.tail
	p.mu.Unlock()
	op, from := p.began(at.Seq+1), at
	op.known = true
	for b, err := range log {
		if err != nil {
			op.known = false
			if ctx.Err() == nil {
				p.refused("read "+how, err)
			}
			break
		}
		if b.Seq != at.Seq+1 || b.Prev != at.Hash {
			p.trace.Violate(p.name, "read %s: batch %d of %s follows batch %d", how, b.Seq, b.Nonce, at.Seq)
			break
		}
		at = b.Position()
		p.observe(b)
		p.been = append(p.been, at)
		got = append(got, b)
		if into != nil {
			*into = into.with(b)
		}
		op.read = append(op.read, idOf(b.Nonce, b.Lines))
	}
	p.trace.Add(p.name, "read %s after %d: up to %d, whole %t", how, from.Seq, at.Seq, op.known)
	p.trace.Did("page read")
	p.ended(op)
	if op.known && at.Seq < acked {
		p.trace.Violate(p.name, "read %s after %d ends at %d although %d was acknowledged", how, from.Seq, at.Seq, acked)
	}
	return got, op.known
}

// part reads a range of known batches and reports whether they were returned.
func (p *proc) part(ctx context.Context, first, last int64) bool {
	op := p.began(first)
	got, err := p.logs.Range(ctx, p.conv, first, last)
	p.trace.Add(p.name, "read %d to %d: %d, %s", first, last, len(got), ending(err))
	if err != nil {
		if ctx.Err() == nil {
			p.refused("read a part", err)
		}
		return false
	}
	p.trace.Did("range read")
	for i, b := range got {
		if b.Seq != first+int64(i) {
			p.trace.Violate(p.name, "batch %d of a part from %d on is %d", i, first, b.Seq)
		}
		p.observe(b)
		op.read = append(op.read, idOf(b.Nonce, b.Lines))
	}
	if int64(len(got)) != last-first+1 {
		p.trace.Violate(p.name, "part from %d to %d has %d batches", first, last, len(got))
	}
	p.ended(op)
	return true
}

// finish checks the log after all processes have ended.
func (w *world) finish(ctx context.Context) {
	p := &proc{world: w, name: "end", rng: schedule.DiceOf(w.opts.Seed, 0, "end"), logs: w.opts.Logs(w.opts.Store), fold: emptyFold()}
	log, _ := p.batches(ctx, "at the end", storage.Start(), &p.fold)
	p.compare(log)
	if !w.opts.Corruption {
		p.rest(ctx)
		p.batches(ctx, "when it is compacted", storage.Start(), nil)
		p.offsets(ctx, log)
	}
	for _, folds := range w.folds {
		if folds.at.Seq >= int64(len(log)) {
			continue
		}
		f := emptyFold()
		for _, b := range log[:folds.at.Seq+1] {
			f = f.with(b)
		}
		if f.at != folds.at || f.sum != folds.sum || f.writers != folds.writers || !slices.Equal(f.claims, folds.claims) {
			p.trace.Violate(p.name, "checkpoint at %d is of another log", folds.at.Seq)
		}
	}
}

// compare compares the acknowledged and seen batches with the log.
func (p *proc) compare(log []storage.Batch) {
	for seq := range p.end + 1 {
		id, acked := p.acked[seq]
		_, seen := p.seen[seq]
		there := seq < int64(len(log))
		switch {
		case there && acked && idOf(log[seq].Nonce, log[seq].Lines) != id:
			p.trace.Violate(p.name, "acknowledged batch %d is %.50q of %s", seq, log[seq].Lines, log[seq].Nonce)
		case there, p.opts.Corruption:
		case acked:
			p.trace.Violate(p.name, "acknowledged batch %d is gone", seq)
		case seen:
			p.trace.Violate(p.name, "batch %d, which was seen, is gone", seq)
		}
	}
}

// rest compacts the whole log and checks the remaining objects. Its violations begin with "at rest":
// they are not data loss by themselves.
func (p *proc) rest(ctx context.Context) {
	c := p.logs.Compactor(p.conv)
	tail, err := p.logs.Tail(ctx, p.conv, -1)
	if err == nil && tail >= 0 {
		var garbage []string
		if garbage, err = c.Compact(ctx, tail, nil, 1); err == nil {
			err = p.logs.Remove(ctx, p.conv, garbage)
		}
	}
	if err != nil {
		p.trace.Violate(p.name, "compact at the end: %v", err)
	}
	refs, err := p.logs.Segments(ctx, p.conv, 0)
	page, unlisted := p.opts.Store.List(ctx, storage.ListQuery{Prefix: p.net.folder + "log/"})
	held := map[int64]bool{} // by segments
	for _, r := range refs {
		for seq := r.First; seq <= r.Last; seq++ {
			held[seq] = true
		}
	}
	if err != nil || unlisted != nil || page.More || c.Covered() != max(tail-1, -1) || int64(len(held)) != max(tail, 0) {
		p.trace.Violate(p.name, "at rest: segments hold %d batches, up to %d of %d, %v, %v", len(held), c.Covered(), tail, err, unlisted)
	}
	for seq := range tail {
		b, key := p.seen[seq], storage.LogKey(p.conv, seq)
		if kept := slices.ContainsFunc(page.Keys, func(k storage.ListedKey) bool { return k.Key == key }); kept != b.First || !held[seq] {
			p.trace.Violate(p.name, "at rest: batch %d, a claim %t, is left in the log: %t, is in a segment: %t", seq, b.First, kept, held[seq])
		}
	}
}

// offsets reads from some of all offsets.
func (p *proc) offsets(ctx context.Context, log []storage.Batch) {
	for range min(3, len(log)) {
		i := p.below(len(log))
		at, rest := log[i].Position(), p.logs.Batches
		if p.chance(2) {
			rest = p.logs.Resume
		}
		if got, ok := p.read(ctx, "on at the end", at, rest(ctx, p.conv, at), nil); !ok || len(got) != len(log)-i-1 {
			p.trace.Violate(p.name, "after %d there are %d batches at the end, whole %t", i, len(got), ok)
		}
		if last := i + p.below(len(log)-i); !p.part(ctx, int64(i), int64(last)) {
			p.trace.Violate(p.name, "batches %d to %d cannot be read at the end", i, last)
		}
	}
}
