package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage/storagetest"
)

// start brings up a new incarnation of a slot.
func (w *world) start(slot int) error {
	w.mu.Lock()
	n := 0
	for _, m := range w.all {
		if m.slot == slot {
			n++
		}
	}
	w.mu.Unlock()
	m := &member{slot: slot, id: fmt.Sprintf("n%d-%d", slot, n), done: make(chan struct{})}
	m.link = w.net.link(m.id)
	reg, err := newProviders(w, m.link)
	if err != nil {
		return fmt.Errorf("register model: %w", err)
	}
	m.node, err = w.opts.Build(Site{
		Member: m.id, Bucket: storagetest.Through(w.opts.Store, m.link.carry), Agents: []*agent.Agent{w.agent, w.job.Definition()}, Providers: reg, Logger: newLogger(w.trace, m.id, m.link.isDead),
		Outbox: w.outbox(m.link), Entropy: w.entropy(m.id),
		Owner:   func(conv string) string { return w.owner(slot, conv) },
		Message: func(ctx context.Context, conv, what string) Course { return w.message(ctx, m.id, conv, what) },
		Panicked: func(reason any, stack []byte) {
			w.trace.Violate(m.id, "an actor panics: %v\n%s", reason, stack)
		},
	})
	if err != nil {
		return fmt.Errorf("build node %s: %w", m.id, err)
	}
	m.life, m.end = context.WithCancel(context.Background())
	serving, stop := context.WithCancel(context.Background())
	m.stop = stop
	w.mu.Lock()
	w.nodes[slot] = m
	w.all = append(w.all, m)
	w.mu.Unlock()
	w.trace.Add(m.id, "starts")
	go func() {
		defer close(m.done)
		m.err = m.node.Run(serving)
		m.end()
		if m.err != nil && !m.link.isDead() {
			w.trace.Add(m.id, "ends: %v", m.err)
		}
	}()
	w.apart("start", m.id)
	return nil
}

// entropy returns a node's randomness: a stream per purpose, new at every call.
func (w *world) entropy(member string) func(string) io.Reader {
	calls := map[string]int{}
	return func(purpose string) io.Reader {
		w.mu.Lock()
		defer w.mu.Unlock()
		calls[purpose]++
		var key [32]byte
		for i := range 4 {
			d := schedule.Draw(w.seed, "entropy", member, purpose, calls[purpose], i)
			for j := range 8 {
				key[8*i+j] = byte(d >> (8 * j))
			}
		}
		return rand.NewChaCha8(key)
	}
}

// crash ends the present incarnation of a slot: from now on nothing of it reaches
// anybody, except what is under way already. It takes no time: what the dead does to
// come to its end is waited for by stop.
func (w *world) crash(slot int) {
	w.mu.Lock()
	m := w.nodes[slot]
	m.gone, m.killed = true, true
	w.mu.Unlock()
	w.shown.Add(didCrash)
	w.trace.Add(m.id, "crashes")
	m.link.kill()
	m.end() // Its callers are to learn of its death, not of how it dies.
	m.node.Kill()
	m.stop()
}

// drain ends the present incarnation of a slot in an orderly way. It may take too
// long for those who wait for it.
func (w *world) drain(ctx context.Context, slot int, rng *rand.Rand) {
	w.mu.Lock()
	m := w.nodes[slot]
	m.leaving = true
	w.mu.Unlock()
	w.shown.Add(didDrain)
	w.trace.Add(m.id, "drains")
	m.stop()
	patience := time.Hour
	if rng.IntN(3) == 0 {
		patience = schedule.Between(rng.Uint64(), 0, 500*time.Millisecond)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-m.done:
	case <-t.C:
		w.shown.Add(didCutDrain)
		w.crash(slot)
		return
	}
	w.mu.Lock()
	m.gone = true
	w.mu.Unlock()
	w.trace.Add(m.id, "has drained")
	w.checkEnd(m)
}

// checkEnd checks that a node that came to serve ends in an orderly way. One that
// gives up on its start is within its rights while the bucket does not answer.
func (w *world) checkEnd(m *member) {
	select {
	case <-m.node.Ready():
		if m.err != nil {
			w.trace.Violate(m.id, "the orderly end is %v", m.err)
		}
	default:
	}
}

func (w *world) pause(slot int, on bool) {
	w.mu.Lock()
	m := w.nodes[slot]
	w.mu.Unlock()
	w.trace.Add(m.id, "paused: %v", on)
	m.link.pause(on)
}

// pick returns a live incarnation, the one of the slot if it lives; nil if none does.
func (w *world) pick(slot int) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range slots {
		if m := w.nodes[(slot+i)%slots]; m != nil && !m.gone {
			return m
		}
	}
	return nil
}

// alive is a call to a node: its context ends with the node's life.
func alive(ctx context.Context, m *member) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// lastWords is an error as a trace has it: which of several a node gives as it dies is
// up to the scheduler of goroutines.
func (m *member) lastWords(err error) error {
	if err != nil && m.life.Err() != nil {
		return m.life.Err()
	}
	return err
}

// updates reads a page at a node.
func (w *world) updates(ctx context.Context, m *member, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	defer w.read(ctx, m, time.Now())
	return m.node.Reader().Updates(ctx, at, after, limit)
}

// snapshot takes a snapshot at a node.
func (w *world) snapshot(ctx context.Context, m *member, at conversation.Address) (conversation.Page, error) {
	defer w.read(ctx, m, time.Now())
	return m.node.Reader().Snapshot(ctx, at)
}

// wait waits at a node for what comes after an offset.
func (w *world) wait(ctx context.Context, m *member, at conversation.Address, after conversation.Offset) error {
	defer w.read(ctx, m, time.Now())
	return m.node.Reader().Wait(ctx, at, after)
}

// read ends a read: one that its caller has left ends at once.
func (w *world) read(ctx context.Context, m *member, began time.Time) {
	if end, ok := ctx.Deadline(); ok && ctx.Err() != nil {
		w.shown.Add(didLeave)
		if late := min(time.Since(end), time.Since(began)); late > 0 {
			w.trace.Violate(m.id, "a read goes on for %v after %s has left", late, callerOf(ctx))
		}
	}
	w.apart("read", callerOf(ctx)) // Others have waited for the same.
}
