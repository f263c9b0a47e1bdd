package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage/storagetest"
)

// slot is a node of the cluster; its incarnations follow one another.
type slot struct {
	turn   chan struct{} // held during a disturbance
	member atomic.Pointer[member]
	view   atomic.Pointer[view]
}

// view is the membership view of a slot.
type view struct {
	alone  bool        // the slot believes that it owns everything
	absent [slots]bool // slots believed to be gone
}

// member is one incarnation of a slot.
type member struct {
	id   string
	node Node
	link *link
	ctx  context.Context // ends when the process crashes or exits
	end  context.CancelFunc
	stop context.CancelFunc // requests a graceful shutdown
	done chan struct{}      // closed when Run has returned
	err  error              // result of Run

	leaving, gone atomic.Bool // shutdown requested; process gone
}

func (w *world) start(slot int) error {
	id := fmt.Sprint("n", slot)
	m := &member{id: fmt.Sprint(id, "-", w.incarnations.Next(id)), done: make(chan struct{})}
	m.link = &link{net: w.net, slot: slot, member: m.id}
	reg, err := newProviders(w, m.link)
	if err != nil {
		return fmt.Errorf("register model: %w", err)
	}
	m.node, err = w.Build(Site{
		Member: m.id, Bucket: storagetest.Through(w.Store, m.link.carry), Agents: w.author.agents, Providers: reg,
		Logger: slog.New(slog.NewTextHandler(&logged{w.trace, m}, &slog.HandlerOptions{ReplaceAttr: shorten})),
		Outbox: w.outbox(m.link), Entropy: func(purpose string) io.Reader { return w.entropy(m.id, purpose) },
		Owner:   func(conv string) string { return w.owner(slot, conv) },
		Message: func(ctx context.Context, conv, desc string) Course { return w.message(ctx, m.id, conv, desc) },
		Panicked: func(reason any, stack []byte) {
			w.trace.Violate(m.id, "actor panic: %v\n%s", reason, stack)
		},
	})
	if err != nil {
		return fmt.Errorf("build node %s: %w", m.id, err)
	}
	var serving context.Context
	m.ctx, m.end = context.WithCancel(context.Background())
	serving, m.stop = context.WithCancel(context.Background())
	w.mu.Lock()
	w.all = append(w.all, m)
	w.mu.Unlock()
	w.slots[slot].member.Store(m)
	w.trace.Add(m.id, "starts")
	go func() {
		defer close(m.done)
		m.err = m.node.Run(serving)
		m.end()
		if m.err != nil && !m.link.killed.Load() {
			w.trace.Add(m.id, "ends: %v", m.err)
		}
	}()
	w.apart("start", m.id)
	return nil
}

func (w *world) restart(slot int) {
	if err := w.start(slot); err != nil {
		w.trace.Violate("", "restart: %v", err)
	}
}

// logged copies the log lines of a running member into the trace.
type logged struct {
	trace *schedule.Trace
	*member
}

func (l *logged) Write(line []byte) (int, error) {
	if !l.link.killed.Load() {
		l.trace.Add(l.id, "log: %s", strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// shorten drops log attributes that differ between runs: the time and stacks.
func shorten(_ []string, a slog.Attr) slog.Attr {
	if first, _, cut := strings.Cut(a.Value.String(), "\n"); cut {
		return slog.String(a.Key, first)
	}
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// entropy returns a node's random stream for one purpose. Every call starts the stream anew.
func (w *world) entropy(member, purpose string) io.Reader {
	calls := w.entropies.Next(member+" "+purpose) + 1
	var key [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(key[8*i:], schedule.Draw(w.Seed, "entropy", member, purpose, calls, i))
	}
	return rand.NewChaCha8(key)
}

// crash ends the current incarnation of a slot at once: from now on only requests already in flight
// have effects. Run waits for its goroutines to return.
func (w *world) crash(slot int) {
	m := w.at(slot)
	m.gone.Store(true)
	w.trace.Did("crash")
	w.trace.Add(m.id, "crashes")
	m.link.kill()
	m.end() // Callers must see that it crashed, not how.
	m.node.Kill()
	m.stop()
}

// drain shuts down the current incarnation of a slot gracefully, with a random deadline.
func (w *world) drain(slot int, rng *rand.Rand) {
	m := w.at(slot)
	m.leaving.Store(true)
	w.trace.Did("drain")
	w.trace.Add(m.id, "drains")
	m.stop()
	patience := time.Hour
	if rng.IntN(3) == 0 {
		patience = schedule.Between(rng.Uint64(), 0, 500*time.Millisecond)
	}
	select {
	case <-m.done:
	case <-time.After(patience):
		w.trace.Did("crash in a drain")
		w.crash(slot)
		return
	}
	m.gone.Store(true)
	w.trace.Add(m.id, "has drained")
	w.checkEnd(m)
}

// checkEnd checks that a serving node that was not crashed shuts down without error. A node may
// abandon its start while the bucket does not answer.
func (w *world) checkEnd(m *member) {
	w.trace.ViolateIf(closed(m.node.Ready()) && m.err != nil && !m.link.killed.Load(), m.id, "shutdown: %v", m.err)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *world) pause(slot int, on bool) {
	m := w.at(slot)
	w.trace.Add(m.id, "paused: %v", on)
	m.link.pause(on)
}

// at returns the newest incarnation of a slot.
func (w *world) at(slot int) *member { return w.slots[slot].member.Load() }

// pick returns a running incarnation, preferring the one of the slot; nil if there is none.
func (w *world) pick(slot int) *member {
	for i := range slots {
		if m := w.at((slot + i) % slots); m != nil && !m.gone.Load() {
			return m
		}
	}
	return nil
}

// owner returns the member that a slot believes to own a conversation.
func (w *world) owner(slot int, conv string) string {
	v := w.slots[slot].view.Load()
	if v == nil || w.oneView.Load() {
		v = &view{}
	}
	if v.alone {
		return w.at(slot).id
	}
	best, id := uint64(0), ""
	for i := range slots {
		m := w.at(i)
		if m == nil || m.gone.Load() || m.leaving.Load() || v.absent[i] {
			continue
		}
		if d := schedule.Draw(0, "owner", conv, i); id == "" || d > best {
			best, id = d, m.id
		}
	}
	return id
}

// call returns the context of a call to the node: it ends after wait, or when the node's process ends.
func (m *member) call(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	stop := context.AfterFunc(m.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// traced returns the error for the trace. The scheduler of goroutines decides which error a
// crashing node returns, so the error of its context replaces all of them.
func (m *member) traced(err error) error {
	if err != nil && m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	return err
}

func (w *world) updates(ctx context.Context, m *member, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	defer w.read(ctx, m, time.Now())
	return m.node.Reader().Updates(ctx, at, after, limit)
}

// read checks that a cancelled read ended at once.
func (w *world) read(ctx context.Context, m *member, began time.Time) {
	if end, ok := ctx.Deadline(); ok && ctx.Err() != nil {
		w.trace.Did("read cancelled")
		if late := min(time.Since(end), time.Since(began)); late > 0 {
			w.trace.Violate(m.id, "read returned %v after its cancellation by %s", late, callerOf(ctx))
		}
	}
	w.apart("read", callerOf(ctx)) // Other callers have waited for the same result.
}
