package simtest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/parleyrun/parley/agent"
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
		Member: m.id, Transport: m.link, Agents: []*agent.Agent{w.agent}, Providers: reg, Logger: w.trace.logger(m.id),
		Entropy: w.entropy(m.id),
		Owner:   func(conv string) string { return w.owner(slot, conv) },
		Loses:   func(conv string) bool { return w.loses(m.id, conv) },
		Panicked: func(reason any, stack []byte) {
			w.trace.violate(m.id, "an actor panics: %v\n%s", reason, stack)
		},
	})
	if err != nil {
		return fmt.Errorf("build node %s: %w", m.id, err)
	}
	m.life, m.end = context.WithCancel(context.Background())
	w.mu.Lock()
	w.nodes[slot] = m
	w.all = append(w.all, m)
	w.mu.Unlock()
	w.trace.add(m.id, "starts")
	go func() {
		defer close(m.done)
		m.err = m.node.Run(m.life)
		if m.err != nil {
			w.trace.add(m.id, "ends: %v", m.err)
		}
	}()
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
			d := draw(w.seed, "entropy", member, purpose, calls[purpose], i)
			for j := range 8 {
				key[8*i+j] = byte(d >> (8 * j))
			}
		}
		return rand.NewChaCha8(key)
	}
}

// crash ends the present incarnation of a slot: from now on nothing of it reaches
// anybody, except what is under way already.
func (w *world) crash(slot int) {
	w.mu.Lock()
	m := w.nodes[slot]
	m.killed = true
	w.crashes++
	w.mu.Unlock()
	w.trace.add(m.id, "crashes")
	m.link.kill()
	m.node.Kill()
	m.end()
	<-m.done
}

func (w *world) pause(slot int, on bool) {
	w.mu.Lock()
	m := w.nodes[slot]
	w.mu.Unlock()
	w.trace.add(m.id, "paused: %v", on)
	m.link.pause(on)
}

// pick returns a live incarnation, the one of the slot if it lives; nil if none does.
func (w *world) pick(slot int) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range slots {
		if m := w.nodes[(slot+i)%slots]; m != nil && !m.killed {
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
