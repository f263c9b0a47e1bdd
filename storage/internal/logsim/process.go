package logsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// write is a writer: a node that opens the log, appends for a while under a new nonce, is fenced or
// crashes, and opens it again.
func (p *proc) write(ctx context.Context) {
	defer p.writers.Add(-1)
	for incarnation := range 2 + p.below(4)/3 {
		p.nap(ctx, 10*time.Second)
		p.live(ctx, storage.Nonce(fmt.Sprint(p.name, "-", incarnation)))
	}
}

// live is one incarnation. It may end at any time; its requests may land later.
func (p *proc) live(ctx context.Context, nonce storage.Nonce) {
	ctx, cancel := p.withDeadline(ctx, 5, 0, 8*time.Second)
	defer cancel()
	if _, bounded := ctx.Deadline(); bounded {
		p.trace.Did("crash")
	}
	recent, ok := p.open(ctx)
	if !ok {
		return
	}
	switch p.below(4) { // The claim may happen long after the log was read.
	case 0:
		p.nap(ctx, 4*time.Second)
	case 1:
		p.nap(ctx, 30*time.Second)
	}
	at := p.fold.at
	w := p.logs.Writer(p.conv, nonce, at, p.fold.writers+1)
	c := p.logs.Compactor(p.conv)
	for n := range 1 + p.below(5) {
		if !p.append(ctx, w, nonce, n) {
			return
		}
		recent = append(recent, w.Stored())
		switch p.below(12) {
		case 0:
			w = p.logs.Continue(p.conv, nonce, p.fold.at, p.fold.writers)
		case 1:
			p.nap(ctx, 30*time.Second)
		case 2:
			p.checkpoint(ctx)
		case 3:
			p.compactTo(ctx, c, p.fold.at.Seq, recent)
		default:
			p.nap(ctx, time.Second)
		}
	}
	if p.chance(2) {
		p.checkpoint(ctx)
	}
	if p.chance(2) {
		p.compactTo(ctx, c, p.fold.at.Seq, recent)
	}
}

// open reads the log to its end and returns the last batches read.
func (p *proc) open(ctx context.Context) (recent []storage.Batch, ok bool) {
	switch p.below(3) {
	case 0:
		return p.batches(ctx, "on", p.fold.at, &p.fold)
	case 1:
		if recent, ok = p.restore(ctx); ok || ctx.Err() != nil {
			return recent, ok
		}
	}
	p.fold = emptyFold()
	return p.batches(ctx, "from the start", storage.Start(), &p.fold)
}

// append sends one batch and reports whether it was acknowledged. Lines that arrive during the request
// wait for the next batch.
func (p *proc) append(ctx context.Context, w *storage.Writer, nonce storage.Nonce, n int) bool {
	ctx, cancel := p.withDeadline(ctx, 10, time.Millisecond, 4*time.Second)
	defer cancel()
	lines := fmt.Appendf(nil, "{\"by\":%q,\"n\":%d%s}\n", nonce, n, p.padding)
	kept := lines
	sending := ctx
	if p.opts.Pending != nil {
		sending = p.opts.Pending(ctx, func() []byte {
			lines = append(lines, "{\"more\":true}\n"...)
			return lines
		})
	}
	op := p.began(0)
	op.append, op.id = true, idOf(nonce, kept)
	pos, err := w.Append(sending, kept, conversation.Time(1))
	p.trace.Add(p.name, "append: %v, %v", pos.Seq, ending(err))
	switch {
	case err == nil:
		op.seq, op.known = pos.Seq, true
		p.ended(op)
		p.acknowledged(pos, w.Stored(), op.id)
		return true
	case errors.Is(err, storage.ErrFenced) || errors.Is(err, storage.ErrUncertain):
		p.ended(op)
		p.lost(ctx, w, err)
	case ending(err) != "not sent" || ctx.Err() == nil:
		p.trace.Violate(p.name, "append ends with %v", err)
	}
	return false
}

// acknowledged checks an acknowledgement.
func (p *proc) acknowledged(pos storage.Position, b storage.Batch, id uint64) {
	p.mu.Lock()
	_, twice := p.acked[pos.Seq]
	p.acked[pos.Seq] = id
	p.tail = max(p.tail, pos.Seq)
	p.mu.Unlock()
	if twice {
		p.trace.Violate(p.name, "batch %d is acknowledged twice", pos.Seq)
	}
	p.observe(b)
	p.fold = p.fold.with(b)
	p.been = append(p.been, pos)
}

// lost checks that a writer that has lost the log does not continue.
func (p *proc) lost(ctx context.Context, w *storage.Writer, err error) {
	switch fenced := (*storage.FencedError)(nil); {
	case errors.As(err, &fenced) && fenced.Err != nil && fenced.Winner == "" && !storage.IsCorrupt(err):
		p.trace.Did("stale claim refused")
	case errors.Is(err, storage.ErrFenced):
		p.trace.Did("fenced")
	default:
		p.trace.Did("outcome unknown")
	}
	before := p.link.writes.Load()
	if _, again := w.Append(ctx, nil, 1); again != err || p.link.writes.Load() != before {
		p.trace.Violate(p.name, "a writer that is spent with %v appends: %v", err, again)
	}
}

// ending formats an error without the details that vary by store.
func ending(err error) string {
	var fenced *storage.FencedError
	var e *storage.Error
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &fenced):
		return fmt.Sprintf("fenced at %d by %q", fenced.Seq, fenced.Winner)
	case storage.IsCorrupt(err):
		return "damaged"
	case !errors.As(err, &e):
		return err.Error()
	case e.Kind == nil:
		return "not sent"
	}
	return e.Kind.Error()
}

// checkpoint stores the process's fold, all of it acknowledged or read.
func (p *proc) checkpoint(ctx context.Context) {
	f := &p.fold
	if f.at.Seq < 0 {
		return
	}
	c := &storage.Checkpoint{At: f.at, Claims: f.claims, Writers: f.writers, State: fmt.Appendf(nil, "{\"fold\":\"%016x\"}", f.sum)}
	err := p.logs.PutCheckpoint(ctx, p.conv, c, f.from)
	p.trace.Add(p.name, "checkpoint at %d: %v", f.at.Seq, ending(err))
	if err == nil {
		f.from = c
	}
}

// restore reads the log from the newest checkpoint that the head names.
func (p *proc) restore(ctx context.Context) (recent []storage.Batch, ok bool) {
	c, err := p.logs.Checkpoint(ctx, p.conv)
	if c == nil || err != nil {
		// The checkpoint of a stale head may be deleted, which is not corruption.
		p.trace.Add(p.name, "no checkpoint: %v", ending(err))
		return nil, false
	}
	f := fold{at: c.At, claims: c.Claims, writers: c.Writers, from: c}
	if _, err := fmt.Sscanf(string(c.State), `{"fold":"%x"}`, &f.sum); err != nil {
		p.trace.Violate(p.name, "checkpoint at %d holds %s", c.At.Seq, c.State)
		return nil, false
	}
	p.mu.Lock()
	p.folds = append(p.folds, f)
	old := c.At.Seq < p.end
	p.mu.Unlock()
	p.trace.Did("checkpoint read")
	if old {
		p.trace.Did("old checkpoint read")
	}
	p.fold = f
	return p.read(ctx, "from a checkpoint", c.At, p.logs.Resume(ctx, p.conv, c.At), &p.fold)
}

// follow is a reader. It reads repeatedly from the start, from its last position, from a checkpoint,
// or a range.
func (p *proc) follow(ctx context.Context) {
	for p.writers.Load() > 0 {
		p.nap(ctx, 20*time.Second)
		at := storage.Start()
		if n := len(p.been); n > 0 {
			at = p.been[p.below(n)]
		}
		switch p.below(6) {
		case 0:
			p.batches(ctx, "from the start", storage.Start(), nil)
		case 1:
			p.batches(ctx, "from where it was", at, nil)
		case 2:
			if at.Seq >= 0 {
				p.read(ctx, "again", at, p.logs.Resume(ctx, p.conv, at), nil)
			}
		case 3:
			p.restore(ctx)
		case 4:
			for range 2 { // from its last position
				at := storage.Start()
				if n := len(p.been); n > 0 {
					at = p.been[n-1]
				}
				p.batches(ctx, "on", at, nil)
				p.nap(ctx, 2*time.Second)
			}
		case 5:
			if at.Seq >= 0 {
				p.part(ctx, int64(p.below(int(at.Seq)+1)), at.Seq)
			}
		}
	}
}

// compact is a compactor. A sweeper deletes the replaced objects, late or never.
func (p *proc) compact(ctx context.Context) {
	c := p.logs.Compactor(p.conv)
	for p.writers.Load() > 0 {
		p.nap(ctx, 9*time.Second)
		if p.chance(6) {
			c = p.logs.Compactor(p.conv)
		}
		tail, err := p.logs.Tail(ctx, p.conv, c.Covered())
		if err != nil {
			p.refused("tail", err)
			continue
		}
		if tail <= c.Covered()+1 && !p.chance(4) {
			continue
		}
		if p.chance(4) {
			p.nap(ctx, 8*time.Second)
		}
		p.compactTo(ctx, c, tail, nil)
	}
}

func (p *proc) compactTo(ctx context.Context, c *storage.Compactor, upTo int64, recent []storage.Batch) {
	garbage, err := c.Compact(ctx, upTo, recent, 1+p.below(3))
	if err != nil {
		p.refused("compact", err)
	}
	if len(garbage) == 0 {
		return
	}
	w, name := p.world, fmt.Sprint(p.name, "-sweeper", p.rng.Uint64()%1000)
	grace := time.Duration(0)
	switch p.below(8) {
	case 0:
		return // It has crashed; another compactor finds the garbage.
	case 1, 2:
		grace = p.rng.Between(0, 3*time.Second)
	case 3:
		grace = p.rng.Between(0, 40*time.Second)
		w.trace.Did("garbage removed late")
	}
	w.tasks.Go(func() {
		s := w.process(name)
		schedule.Sleep(ctx, 1+grace)
		if err := s.logs.Remove(ctx, w.conv, garbage); err != nil {
			s.refused("remove", err)
		}
	})
}

// refused checks the error of a retryable operation.
func (p *proc) refused(desc string, err error) {
	p.trace.Add(p.name, "%s: %s", desc, ending(err))
	switch {
	case storage.IsCorrupt(err) && p.opts.Corruption:
		p.trace.Did("damage refused")
	case storage.IsCorrupt(err):
		p.trace.Violate(p.name, "%s: %v", desc, err)
	}
}

// spoil corrupts redundant objects of the log.
func (p *proc) spoil(ctx context.Context) {
	for p.writers.Load() > 0 {
		p.nap(ctx, 10*time.Second)
		page, err := p.opts.Store.List(ctx, storage.ListQuery{Prefix: p.net.folder})
		if err != nil || len(page.Keys) == 0 {
			continue
		}
		key := page.Keys[p.below(len(page.Keys))].Key
		if desc := p.spare(key, page.Keys); desc != "" {
			p.harm(ctx, key, desc)
		}
	}
}

// spare returns the kind of a redundant object, "" if the object is needed.
func (p *proc) spare(key string, all []storage.ListedKey) string {
	held := func(kind storage.ObjectKind, seq int64) bool {
		return slices.ContainsFunc(all, func(k storage.ListedKey) bool {
			n, err := storage.ParseKey(k.Key)
			return err == nil && k.Key != key && n.Kind == kind && n.First <= seq && seq <= max(n.First, n.Last)
		})
	}
	switch name, _ := storage.ParseKey(key); name.Kind {
	case storage.KindBatch:
		if !held(storage.KindSegment, name.First) {
			return ""
		}
		return "batch"
	case storage.KindSegment:
		for seq := name.First; seq <= name.Last; seq++ {
			if !held(storage.KindBatch, seq) {
				return ""
			}
		}
		return "segment"
	}
	return "shortcut"
}

// harm flips a bit of an object, or deletes it if it is a shortcut.
func (p *proc) harm(ctx context.Context, key, desc string) {
	data, err := p.opts.Store.Get(ctx, key)
	if err != nil {
		return
	}
	if desc == "shortcut" && p.chance(2) {
		err = p.opts.Store.Delete(ctx, key)
	} else {
		data = slices.Clone(data)
		data[p.below(len(data))] ^= 1 << p.below(8)
		err = p.opts.Store.Put(ctx, key, storage.Bytes(data))
	}
	p.trace.Did("damaged: " + schedule.Event(desc))
	p.trace.Add(p.name, "damages %s: %v", p.net.short(key), err)
}
