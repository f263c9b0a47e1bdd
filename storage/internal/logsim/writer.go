package logsim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// write is a writer: a node that opens the log, appends for a while under a new nonce,
// loses it or crashes, and opens it again.
func (p *proc) write(ctx context.Context) {
	defer func() {
		p.mu.Lock()
		p.writers--
		p.mu.Unlock()
	}()
	for life := range 2 + p.below(4)/3 {
		p.nap(ctx, 10*time.Second)
		p.live(ctx, storage.Nonce(fmt.Sprint(p.name, "-", life)))
	}
}

// live is one incarnation. It may end at any time; what it has sent may land later.
func (p *proc) live(ctx context.Context, nonce storage.Nonce) {
	if p.chance(5) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.rng.Between(0, 8*time.Second))
		defer cancel()
		p.shown.Add(didCrash)
	}
	recent, ok := p.open(ctx)
	if !ok {
		return
	}
	switch p.below(4) { // The claim may be made long after the log was read.
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

// open reads the log up to its end, and returns what it has read last.
func (p *proc) open(ctx context.Context) (recent []storage.Batch, ok bool) {
	switch p.below(3) {
	case 0:
		return p.read(ctx, "on", p.fold.at, p.logs.Batches(ctx, p.conv, p.fold.at), &p.fold)
	case 1:
		if recent, ok = p.restore(ctx); ok || ctx.Err() != nil {
			return recent, ok
		}
	}
	p.fold = emptyFold()
	return p.read(ctx, "from the start", storage.Start(), p.logs.Batches(ctx, p.conv, storage.Start()), &p.fold)
}

// append sends one batch and reports whether it was acknowledged. While it is under way
// more lines gather, which must wait for the next batch.
func (p *proc) append(ctx context.Context, w *storage.Writer, nonce storage.Nonce, n int) bool {
	if p.chance(10) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.rng.Between(time.Millisecond, 4*time.Second))
		defer cancel()
	}
	lines := fmt.Appendf(nil, "{\"by\":%q,\"n\":%d%s}\n", nonce, n, p.padding)
	kept := lines
	sending := ctx
	if p.opts.Pending != nil {
		sending = p.opts.Pending(ctx, func() []byte {
			lines = append(lines, "{\"more\":true}\n"...)
			return lines
		})
	}
	op := op{process: p.name, append: true, call: p.now(), id: idOf(nonce, kept)}
	pos, err := w.Append(sending, kept, conversation.Time(1))
	op.back = p.now()
	p.trace.Add(p.name, "append: %v, %v", pos.Seq, ending(err))
	switch {
	case err == nil:
		op.seq, op.known = pos.Seq, true
		p.record(op)
		p.acknowledged(pos, w.Stored(), op.id)
		return true
	case errors.Is(err, storage.ErrFenced) || errors.Is(err, storage.ErrUncertain):
		p.record(op)
		p.lost(ctx, w, err)
	case !kindless(err) || ctx.Err() == nil:
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
	p.saw(b)
	p.fold = p.fold.with(b)
	p.been = append(p.been, pos)
}

// lost checks that a writer that must not go on does not.
func (p *proc) lost(ctx context.Context, w *storage.Writer, err error) {
	switch fenced := (*storage.FencedError)(nil); {
	case errors.As(err, &fenced) && fenced.Err != nil && fenced.Winner == "" && !storage.Damaged(err):
		p.shown.Add(didStale)
	case errors.Is(err, storage.ErrFenced):
		p.shown.Add(didFence)
	default:
		p.shown.Add(didUncertain)
	}
	before := p.link.sent()
	if _, again := w.Append(ctx, nil, 1); again != err || p.link.sent() != before {
		p.trace.Violate(p.name, "a writer that is spent with %v appends: %v", err, again)
	}
}

// ending is how something ended, without what differs from store to store.
func ending(err error) string {
	var fenced *storage.FencedError
	var e *storage.Error
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &fenced):
		return fmt.Sprintf("fenced at %d by %q", fenced.Seq, fenced.Winner)
	case storage.Damaged(err):
		return "damaged"
	case errors.As(err, &e):
		return outcome{e}.String()
	}
	return err.Error()
}

// kindless reports whether an error of the bucket is one that nothing was sent for.
func kindless(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && e.Kind == nil
}

// checkpoint stores what the process knows, all of it acknowledged or read.
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

// restore reads the log on from the newest checkpoint, as far as the head knows.
func (p *proc) restore(ctx context.Context) (recent []storage.Batch, ok bool) {
	c, err := p.logs.Checkpoint(ctx, p.conv)
	if c == nil || err != nil {
		// One that an old head names may be gone, which is no damage of the log.
		p.trace.Add(p.name, "no checkpoint: %v", ending(err))
		return nil, false
	}
	f := fold{at: c.At, claims: c.Claims, writers: c.Writers, from: c}
	if _, err := fmt.Sscanf(string(c.State), `{"fold":"%x"}`, &f.sum); err != nil {
		p.trace.Violate(p.name, "checkpoint at %d holds %s", c.At.Seq, c.State)
		return nil, false
	}
	p.mu.Lock()
	p.said = append(p.said, saidFold{p.name, f})
	old := c.At.Seq < p.end
	p.mu.Unlock()
	p.shown.Add(didRestore)
	if old {
		p.shown.Add(didOldHead)
	}
	p.fold = f
	return p.read(ctx, "from a checkpoint", c.At, p.logs.Resume(ctx, p.conv, c.At), &p.fold)
}
