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

// slot is a place where one incarnation of a node follows the other.
type slot struct {
	turn   chan struct{} // held by who disturbs it
	member atomic.Pointer[member]
	view   atomic.Pointer[view]
}

// view is what a slot believes about the others.
type view struct {
	alone bool        // it believes to own everything
	blind [slots]bool // it believes these to be gone
}

// member is one incarnation of a slot.
type member struct {
	id   string
	node Node
	link *link
	life context.Context // ends when the process dies or has ended
	end  context.CancelFunc
	stop context.CancelFunc // asks for an orderly end
	done chan struct{}      // closed when Run has returned
	err  error              // of Run

	leaving, gone atomic.Bool // asked for an orderly end; not there any more
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
		Message: func(ctx context.Context, conv, what string) Course { return w.message(ctx, m.id, conv, what) },
		Panicked: func(reason any, stack []byte) {
			w.trace.Violate(m.id, "an actor panics: %v\n%s", reason, stack)
		},
	})
	if err != nil {
		return fmt.Errorf("build node %s: %w", m.id, err)
	}
	var serving context.Context
	m.life, m.end = context.WithCancel(context.Background())
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
		if m.err != nil && !m.link.dead.Load() {
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

// logged takes the lines that a member logs while it lives.
type logged struct {
	trace *schedule.Trace
	*member
}

func (l *logged) Write(line []byte) (int, error) {
	if !l.link.dead.Load() {
		l.trace.Add(l.id, "log: %s", strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// shorten leaves out of a log line what differs from run to run: the time, and stacks.
func shorten(_ []string, a slog.Attr) slog.Attr {
	if first, _, cut := strings.Cut(a.Value.String(), "\n"); cut {
		return slog.String(a.Key, first)
	}
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// entropy returns a node's randomness: a stream per purpose, new at every call.
func (w *world) entropy(member, purpose string) io.Reader {
	calls := w.entropies.Next(member+" "+purpose) + 1
	var key [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(key[8*i:], schedule.Draw(w.Seed, "entropy", member, purpose, calls, i))
	}
	return rand.NewChaCha8(key)
}

// crash ends the present incarnation of a slot: from now on nothing of it reaches
// anybody, except what is under way already. It takes no time: what the dead does to
// come to its end is waited for by Run.
func (w *world) crash(slot int) {
	m := w.at(slot)
	m.gone.Store(true)
	w.trace.Did("crash")
	w.trace.Add(m.id, "crashes")
	m.link.kill()
	m.end() // Its callers are to learn of its death, not of how it dies.
	m.node.Kill()
	m.stop()
}

// drain ends the present incarnation of a slot in an orderly way. It may take too
// long for those who wait for it.
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

// checkEnd checks that a node that came to serve, and lives, ends in an orderly way. One that
// gives up on its start is within its rights while the bucket does not answer.
func (w *world) checkEnd(m *member) {
	w.trace.ViolateIf(closed(m.node.Ready()) && m.err != nil && !m.link.dead.Load(), m.id, "the orderly end is %v", m.err)
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

// at is the newest incarnation of a slot.
func (w *world) at(slot int) *member { return w.slots[slot].member.Load() }

// pick returns a live incarnation, the one of the slot if it lives; nil if none does.
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
		if m == nil || m.gone.Load() || m.leaving.Load() || v.blind[i] {
			continue
		}
		if d := schedule.Draw(0, "owner", conv, i); id == "" || d > best {
			best, id = d, m.id
		}
	}
	return id
}

// call is a call to a node that its caller waits for so long: its context ends with the
// node's life, too.
func (m *member) call(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
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

func (w *world) updates(ctx context.Context, m *member, at conversation.Address, after conversation.Offset, limit int) (conversation.Page, error) {
	defer w.read(ctx, m, time.Now())
	return m.node.Reader().Updates(ctx, at, after, limit)
}

// read ends a read: one that its caller has left ends at once.
func (w *world) read(ctx context.Context, m *member, began time.Time) {
	if end, ok := ctx.Deadline(); ok && ctx.Err() != nil {
		w.trace.Did("read left")
		if late := min(time.Since(end), time.Since(began)); late > 0 {
			w.trace.Violate(m.id, "a read goes on for %v after %s has left", late, callerOf(ctx))
		}
	}
	w.apart("read", callerOf(ctx)) // Others have waited for the same.
}
