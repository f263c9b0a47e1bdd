package logsim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// fold is what a process knows of a log up to a position.
type fold struct {
	at      storage.Position
	sum     uint64
	claims  []storage.Claim
	writers int64
	from    *storage.Checkpoint // that was read or stored last
}

func emptyFold() fold { return fold{at: storage.Start()} }

func (f fold) with(b storage.Batch) fold {
	f.at, f.sum = b.Position(), (f.sum^idOf(b.Nonce, b.Lines))*0x100000001b3
	if b.First {
		f.claims, f.writers = append(slices.Clip(f.claims), storage.Claim{Seq: b.Seq, Nonce: b.Nonce}), f.writers+1
	}
	return f
}

// saidFold is what somebody has read in a checkpoint.
type saidFold struct {
	who  string
	fold fold
}

// idOf tells a batch from all others. What differs stands at the beginning, and in the
// length.
func idOf(nonce storage.Nonce, lines []byte) uint64 {
	h := fnv.New64a()
	io.WriteString(h, string(nonce))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(lines))))
	h.Write(lines[:min(len(lines), 64)])
	return h.Sum64()
}

func (w *world) now() int64 { return int64(w.trace.Now()) }

func (w *world) record(op op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, op)
}

// saw checks that a number never changes what it stands for.
func (p *proc) saw(b storage.Batch) {
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

// batches reads a log and checks that.
func (p *proc) batches(ctx context.Context, how string, at storage.Position, into *fold) (got []storage.Batch, ok bool) {
	return p.read(ctx, how, at, p.logs.Batches(ctx, p.conv, at), into)
}

// read checks what a reader is shown after a position, and adds it to what it knows. It
// returns the batches, and whether it came to the end.
func (p *proc) read(ctx context.Context, how string, at storage.Position, log iter.Seq2[storage.Batch, error], into *fold) (got []storage.Batch, ok bool) {
	p.mu.Lock()
	acked := p.tail
	p.mu.Unlock()
	op := op{process: p.name, call: p.now(), seq: at.Seq + 1, known: true}
	from := at
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
		p.saw(b)
		p.been = append(p.been, at)
		got = append(got, b)
		if into != nil {
			*into = into.with(b)
		}
		op.read = append(op.read, idOf(b.Nonce, b.Lines))
	}
	op.back = p.now()
	p.trace.Add(p.name, "read %s after %d: up to %d, whole %t", how, from.Seq, at.Seq, op.known)
	p.trace.Did("page read")
	p.record(op)
	if op.known && at.Seq < acked {
		p.trace.Violate(p.name, "read %s after %d ends at %d although %d was acknowledged", how, from.Seq, at.Seq, acked)
	}
	return got, op.known
}

// part reads some batches that were seen before.
func (p *proc) part(ctx context.Context, last int64) {
	first := int64(p.below(int(last) + 1))
	op := op{process: p.name, call: p.now(), seq: first}
	got, err := p.logs.Range(ctx, p.conv, first, last)
	op.back = p.now()
	p.trace.Add(p.name, "read %d to %d: %d, %s", first, last, len(got), ending(err))
	if err != nil {
		if ctx.Err() == nil {
			p.refused("read a part", err)
		}
		return
	}
	p.trace.Did("range read")
	for i, b := range got {
		if b.Seq != first+int64(i) {
			p.trace.Violate(p.name, "batch %d of a part from %d on is %d", i, first, b.Seq)
		}
		p.saw(b)
		op.read = append(op.read, idOf(b.Nonce, b.Lines))
	}
	if int64(len(got)) != last-first+1 {
		p.trace.Violate(p.name, "part from %d to %d has %d batches", first, last, len(got))
	}
	p.record(op)
}

// finish checks the log once nothing happens any more.
func (w *world) finish(ctx context.Context) {
	p := &proc{world: w, name: "end", rng: schedule.DiceOf(w.opts.Seed, 0, "end"), logs: w.opts.Logs(w.opts.Store), fold: emptyFold()}
	log, _ := p.batches(ctx, "at the end", storage.Start(), &p.fold)
	p.compare(log)
	if !w.opts.Damage {
		covered := p.tidy(ctx)
		p.batches(ctx, "when it is compacted", storage.Start(), nil)
		p.offsets(ctx, log)
		p.rest(ctx, covered)
	}
	for _, s := range w.said {
		f := emptyFold()
		for i := 0; i < len(log) && int64(i) <= s.fold.at.Seq; i++ {
			f = f.with(log[i])
		}
		complete := int64(len(log)) > s.fold.at.Seq
		if complete && (f.at != s.fold.at || f.sum != s.fold.sum || f.writers != s.fold.writers || !slices.Equal(f.claims, s.fold.claims)) {
			p.trace.Violate(s.who, "checkpoint at %d is of another log", s.fold.at.Seq)
		}
	}
}

// compare compares what was acknowledged with what is there.
func (p *proc) compare(log []storage.Batch) {
	for seq := range p.tail + 1 {
		id, ok := p.acked[seq]
		if !ok {
			continue
		}
		switch {
		case seq < int64(len(log)) && idOf(log[seq].Nonce, log[seq].Lines) == id:
		case seq < int64(len(log)):
			p.trace.Violate(p.name, "acknowledged batch %d is %.50q of %s", seq, log[seq].Lines, log[seq].Nonce)
		case !p.opts.Damage:
			p.trace.Violate(p.name, "acknowledged batch %d is gone", seq)
		}
	}
	for seq := range p.end + 1 {
		if _, seen := p.seen[seq]; !p.opts.Damage && seen && seq >= int64(len(log)) {
			p.trace.Violate(p.name, "batch %d, which was seen, is gone", seq)
		}
	}
}

// tidy compacts all there is, and returns how far segments go.
func (p *proc) tidy(ctx context.Context) (covered int64) {
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
	return c.Covered()
}

// rest looks at which objects are left. What it finds is said to be at rest: it is no
// loss by itself.
func (p *proc) rest(ctx context.Context, covered int64) {
	tail, err := p.logs.Tail(ctx, p.conv, -1)
	if err != nil || covered != max(tail-1, -1) {
		p.trace.Violate(p.name, "at rest: segments hold batches up to %d of %d, %v", covered, tail, err)
	}
	page, err := p.opts.Store.List(ctx, storage.ListQuery{Prefix: p.net.folder + "log/"})
	if err != nil || page.More {
		p.trace.Violate(p.name, "at rest: list %d objects and more: %t, %v", len(page.Keys), page.More, err)
		return
	}
	for seq := range tail {
		b, key := p.seen[seq], storage.LogKey(p.conv, seq)
		if kept := slices.ContainsFunc(page.Keys, func(k storage.ListedKey) bool { return k.Key == key }); kept != b.First {
			p.trace.Violate(p.name, "at rest: batch %d, a claim %t, is left in the log: %t", seq, b.First, kept)
		}
	}
	p.segments(ctx, tail)
}

// segments checks that segments hold every batch but the last.
func (p *proc) segments(ctx context.Context, tail int64) {
	refs, err := p.logs.Segments(ctx, p.conv, 0)
	if err != nil {
		p.trace.Violate(p.name, "at rest: segments: %v", err)
	}
	slices.SortFunc(refs, func(a, b storage.SegmentRef) int { return cmp.Compare(a.First, b.First) })
	end := int64(-1)
	for _, r := range refs {
		if r.First > end+1 {
			p.trace.Violate(p.name, "at rest: no segment holds batch %d", end+1)
		}
		end = max(end, r.Last)
	}
	if end != max(tail-1, -1) {
		p.trace.Violate(p.name, "at rest: segments end at %d of %d", end, tail)
	}
}

// offsets reads from some of all places.
func (p *proc) offsets(ctx context.Context, log []storage.Batch) {
	same := func(got, want []storage.Batch) bool {
		return slices.EqualFunc(got, want, func(a, b storage.Batch) bool { return a.Hash == b.Hash && bytes.Equal(a.Lines, b.Lines) })
	}
	for range min(3, len(log)) {
		i := p.below(len(log))
		b := log[i]
		var got []storage.Batch
		rest := p.logs.Batches(ctx, p.conv, b.Position())
		if p.chance(2) {
			rest = p.logs.Resume(ctx, p.conv, b.Position())
		}
		for b, err := range rest {
			if err != nil {
				p.trace.Violate(p.name, "read after %d at the end: %v", i, err)
				break
			}
			got = append(got, b)
		}
		if !same(got, log[i+1:]) {
			p.trace.Violate(p.name, "after %d there are %d batches at the end", i, len(got))
		}
		last := i + p.below(len(log)-i)
		if got, err := p.logs.Range(ctx, p.conv, int64(i), int64(last)); err != nil || !same(got, log[i:last+1]) {
			p.trace.Violate(p.name, "batches %d to %d at the end: %d, %v", i, last, len(got), err)
		}
	}
}
