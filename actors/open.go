package actors

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/work"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// openTimeout bounds each wait for the bucket while a log is opened: for a batch, a page or a
// checkpoint. The opening as a whole has no timeout. Callers time out earlier, and their retries find
// the same opening in progress.
const openTimeout = time.Minute

// openedLog is the result of reading a log.
type openedLog struct {
	state    *conversation.State
	tail     storage.Position
	restored *follower.Restored  // the checkpoint that was restored, or nil
	older    *storage.Checkpoint // checkpoint of another version, or nil
	claims   []machine.Claim
	writers  int64             // number of writers so far
	since    int               // batches after the checkpoint
	bytes    int               // size of the checkpoint's state and of later lines, without cut history
	last     conversation.Time // build time of the last batch with records
	archive  *history.Archive
	uncut    int // bytes of lines since history was last cut
	err      error
	// permanent reports that reading again would fail, too.
	permanent bool
}

// read reads and folds the log. Closed history but its newest part stays in the bucket, so the length
// of the log does not bound memory.
func (a *activation) read() openedLog {
	ctx, logs := a.self.ctx, a.rt.history.Patient()
	out := openedLog{state: conversation.NewState(), tail: storage.Start()}
	restored, older, err := follower.Restore(ctx, logs, a.key, a.log)
	out.older = older
	switch {
	case err != nil:
		out.err = fmt.Errorf("open conversation %s: %w", a.key, err)
	case restored != nil:
		out.begin(restored)
		out.archive = a.rt.history.Archive(a.key, restored, a.log)
		out.read(ctx, a, logs.Resume(ctx, a.key, out.tail))
	default:
		out.archive = a.rt.history.Archive(a.key, nil, a.log)
		out.read(ctx, a, logs.Batches(ctx, a.key, out.tail))
	}
	if restored != nil && out.permanent {
		a.log.Warn("checkpoint mismatch; folding the whole log", "err", out.err)
		out = openedLog{state: conversation.NewState(), tail: storage.Start(), archive: a.rt.history.Archive(a.key, nil, a.log)}
		out.read(ctx, a, logs.Batches(ctx, a.key, out.tail))
	}
	if out.err == nil && out.state.Exists() {
		if name := out.state.Created().Agent; a.rt.agents[name] == nil {
			out.err = fmt.Errorf("open conversation %s: agent %q is not registered on this node", a.key, name)
		}
	}
	return out
}

// awaitRelease waits until no other node runs the conversation, so that a handover is not fenced in
// mid-turn. A node that does not answer counts as crashed; its writer will be fenced.
func (a *activation) awaitRelease() {
	ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.DrainTimeout)
	defer cancel()
	if err := a.rt.nodes.release(ctx, a.key); err != nil && a.self.ctx.Err() == nil {
		a.log.Warn("conversation not released; taking it over", "err", err)
	}
}

// shipped returns the last batch whose events are known to be shipped. If the checkpoint has no
// position, no sink was configured, and earlier events are not needed.
func (o *openedLog) shipped() int64 {
	c := o.checkpoint()
	switch {
	case c == nil:
		return -1
	case c.Exported == nil:
		return c.At.Seq
	}
	return *c.Exported
}

// checkpoint returns the newest checkpoint, nil if there is none.
func (o *openedLog) checkpoint() *storage.Checkpoint {
	if o.restored != nil {
		return o.restored.Checkpoint
	}
	return o.older
}

// begin sets the state from a restored checkpoint.
func (o *openedLog) begin(r *follower.Restored) {
	o.state, o.restored, o.tail, o.writers, o.bytes = r.State, r, r.Checkpoint.At, r.Checkpoint.Writers, r.Bytes
	for _, c := range r.Checkpoint.Claims {
		o.claims = append(o.claims, machine.Claim{Seq: conversation.Offset(c.Seq), Nonce: string(c.Nonce)})
	}
}

// read folds the batches up to the first unreadable one.
func (o *openedLog) read(ctx context.Context, a *activation, batches iter.Seq2[storage.Batch, error]) {
	for b, err := range batches {
		if err == nil {
			err = o.fold(a.rt.history, b)
			var newer *conversation.UnknownRecordError
			o.permanent = err != nil && !errors.As(err, &newer)
		}
		if err == nil {
			err = o.cut(ctx)
		}
		if err != nil {
			o.err = fmt.Errorf("open conversation %s: %w", a.key, err)
			o.permanent = o.permanent || storage.IsCorrupt(err)
			return
		}
	}
	o.archive.Outlive(o.state)
}

// cut moves closed history out of the state once enough has accumulated.
func (o *openedLog) cut(ctx context.Context) error {
	if o.uncut < follower.CutEvery {
		return nil
	}
	o.uncut = 0
	err := o.archive.Take(ctx, o.state)
	o.bytes = o.state.Bytes()
	return err
}

func (o *openedLog) fold(logs *history.Store, b storage.Batch) error {
	if b.First {
		o.claims = append(o.claims, machine.Claim{Seq: conversation.Offset(b.Seq), Nonce: string(b.Nonce)})
		o.writers++
	}
	if len(b.Lines) > 0 {
		o.last = b.At
	}
	o.since++
	o.bytes += len(b.Lines)
	o.uncut += len(b.Lines)
	o.tail = b.Position()
	return logs.Fold(o.state, b)
}

func (a *activation) opened(m openedLog) {
	defer close(a.opening.done)
	a.rt.sweeper.Journal.Opened(a.openingID())
	if m.err != nil {
		if m.permanent {
			a.rt.followers.Invalidate(a.key)
			a.failed(m.err)
		}
		a.step(machine.OpenFailed{Err: m.err, Permanent: m.permanent})
		return
	}
	defer a.containOpening()
	day, shipped := "", m.shipped()
	if idle := a.writer.passivated; idle != nil {
		day, shipped = idle.indexed(), max(shipped, idle.shipped)
	}
	a.chooseWriter(m)
	if m.state.Exists() {
		a.rt.edge.known.Put(m.state.Created().Address())
	}
	a.archive = m.archive
	a.archive.Begin(day, a.log)
	var carried *int64
	if c := m.checkpoint(); c != nil {
		carried = c.Exported
	}
	a.tap.Opened(m.state.Created(), min(shipped, m.tail.Seq), m.tail.Seq, carried)
	a.work = a.rt.work.Runner(work.Options{
		Key: a.key, Logger: a.log, Archive: a.archive, Tap: a.tap, BaseContext: a.self.ctx, Now: a.clock.Now,
		Emit:  func(in machine.Input) { a.self.Send(in) },
		Ready: func(gen int) { a.self.Send(modelReady{gen}) },
		Run:   func(f func()) { a.self.Send(workRuns(f)) },
		Ask:   func(q machine.Question, done func(machine.Answer)) { a.self.Send(workAsks{q, done}) },
	})
	a.step(machine.Opened{
		Writer: string(a.writer.nonce), Claimed: a.writer.claimed, State: m.state, Claims: m.claims, Since: m.since, Bytes: m.bytes, Last: m.last,
	})
	a.rt.sweeper.Survived(a.key)
}

// chooseWriter continues as the idle writer, or begins a new one.
func (a *activation) chooseWriter(m openedLog) {
	continued := a.writer.passivated != nil
	if a.writer.tryContinue(a.rt.logs, a.key, m.tail, m.writers) {
		return
	}
	if continued {
		a.assume(newNonce(a.random))
	}
	a.writer.begin(a.rt.logs, a.key, m.writers)
}

// containOpening ends an activation that panicked on its own log. The next activation would panic too,
// so callers get a permanent error and no sweep is requested. If a client's request may be the cause,
// the log is opened once more without one; otherwise the failure counts towards quarantine.
func (a *activation) containOpening() {
	p := recover()
	if p == nil {
		return
	}
	a.log.Error("conversation cannot be resumed", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if a.opening.byClient {
		a.rt.probeOwner(a.key)
	} else {
		a.failed(fmt.Errorf("panic: %v", p))
	}
	a.callers.answerAll(machine.Refused{Err: conversation.Errorf(conversation.CodeInternal, "the conversation cannot be resumed")})
	a.self.stopping = true
}
