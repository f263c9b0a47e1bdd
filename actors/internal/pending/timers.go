package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Clock tells a conversation the time that its waits go by: the wall clock's when it was
// made, and what has passed since by the monotonic clock. Nobody can set it.
type Clock struct {
	wall time.Time // without a monotonic reading
	made time.Time // likewise by the monotonic clock
}

// NewClock returns a clock that begins with what the wall clock shows.
func NewClock(wall time.Time) Clock { return Clock{wall: wall.Round(0), made: time.Now()} }

// Now is the time by the clock.
func (c Clock) Now() time.Time { return c.wall.Add(time.Since(c.made)) }

// Ahead is what the clock shows more than the wall clock, which somebody may have set.
func (c Clock) Ahead(wall time.Time) time.Duration {
	return c.Now().Sub(wall.Round(0)).Round(time.Millisecond)
}

// maxWaits bounds the conversations that a node parked and keeps the clocks of, some 200
// bytes each. Those beyond go by the wall clock.
const maxWaits = 1 << 16

// Timers are the conversations that this process has parked, with their clocks, which
// outlive the activations, and what asks for those whose time has come.
type Timers struct {
	sweeper *Sweeper

	mu    sync.Mutex
	byKey map[conversation.Key]Suspended
}

// Parked is what a conversation waits for.
type Suspended struct {
	Clock Clock
	Waits []Wait
}

// Wait says that the batch at Seq waits for a time.
type Wait struct {
	Seq   int64
	Until conversation.Time
}

// Put notes what a conversation waits for, in place of what it did.
func (t *Timers) Put(key conversation.Key, p Suspended) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byKey[key]; ok || len(t.byKey) < maxWaits {
		if t.byKey == nil {
			t.byKey = make(map[conversation.Key]Suspended)
		}
		t.byKey[key] = p
	}
}

// Clock returns that of a conversation that waits.
func (t *Timers) Clock(key conversation.Key) (Clock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byKey[key]
	return p.Clock, ok
}

// Drop forgets what a conversation has waited for up to a batch.
func (t *Timers) Drop(key conversation.Key, seq int64) {
	t.forget(key, func(w Wait) bool { return w.Seq <= seq })
}

func (t *Timers) forget(key conversation.Key, over func(Wait) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byKey[key]
	if !ok {
		return
	}
	p.Waits = slices.DeleteFunc(slices.Clone(p.Waits), over)
	t.byKey[key] = p
	if len(p.Waits) == 0 {
		delete(t.byKey, key)
	}
}

// knows reports whether a stored timer is that of a conversation that was parked here.
func (t *Timers) knows(ref storage.TimerRef) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.byKey[ref.Conv].Waits, func(w Wait) bool { return w.Seq == ref.Seq })
}

// due returns the timers whose time has come by the clocks of their conversations.
func (t *Timers) due() []storage.TimerRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refs []storage.TimerRef
	for key, p := range t.byKey {
		now := conversation.TimeOf(p.Clock.Now())
		for _, w := range p.Waits {
			if now >= w.Until {
				timer := storage.Timer{Conv: key, Seq: w.Seq, Until: w.Until}
				refs = append(refs, storage.TimerRef{Key: storage.TimerKey(timer), Conv: key, Seq: w.Seq})
			}
		}
	}
	return refs
}

// Count is how many conversations wait since they ran here.
func (t *Timers) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}

// Run asks about the timers that are due, at once and at every full minute by the
// wall clock, until ctx ends. Those of conversations that this process parked are due by
// their clocks, whatever the wall clock shows meanwhile. Every node does: asking twice does no harm, and whoever
// comes later finds most of them deleted.
func (t *Timers) Run(ctx context.Context) {
	for {
		if err := t.checkDue(ctx); err != nil && ctx.Err() == nil {
			t.sweeper.o.Logger.Warn("check timers", "err", err)
		}
		next := time.Now().Truncate(time.Minute).Add(time.Minute)
		minute := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			minute.Stop()
			return
		case <-minute.C:
		}
	}
}

// checkDue asks about every timer that is due, but those of conversations that are set
// aside, which stay. One that is not answered does not keep the others from being asked
// about.
func (t *Timers) checkDue(ctx context.Context) error {
	left := func(ref storage.TimerRef) bool { return t.sweeper.Quarantine.Refused(ref.Conv) != nil }
	failed := t.checkAll(ctx, slices.DeleteFunc(t.due(), left))
	err := storage.DueTimers(ctx, t.sweeper.o.Bucket, conversation.TimeOf(t.sweeper.o.Wall()), func(page []storage.TimerRef) error {
		page = slices.DeleteFunc(slices.DeleteFunc(page, t.knows), left)
		failed = errors.Join(failed, t.checkAll(ctx, page))
		return ctx.Err()
	})
	return errors.Join(err, failed)
}

func (t *Timers) checkAll(ctx context.Context, refs []storage.TimerRef) error {
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	for _, ref := range refs {
		g.Go(func() error { return t.check(ctx, ref) })
	}
	return g.Wait()
}

// check asks the owner about a timer, who goes on with the conversation if its time has
// come, and deletes the timer once it is needed no more.
func (t *Timers) check(ctx context.Context, ref storage.TimerRef) error {
	limited, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	m, err := t.sweeper.o.Request(limited, string(ref.Conv), &wire.ResumeRequest{Seq: ref.Seq})
	if err != nil {
		return fmt.Errorf("check timer of %s: %w", ref.Conv, err)
	}
	reply, ok := m.(*wire.ResumeReply)
	switch {
	case !ok || reply.GetAnswer() == wire.ResumeReply_UNKNOWN:
		return fmt.Errorf("check timer of %s: not answered", ref.Conv)
	case reply.GetAnswer() == wire.ResumeReply_EARLY: // its owner's clock is behind
		return nil
	}
	t.forget(ref.Conv, func(w Wait) bool { return w.Seq == ref.Seq })
	limited, cancel = context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteTimer(limited, t.sweeper.o.Bucket, ref)
}
