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

// Clock is the clock of a conversation's waits: the wall clock at its creation plus the monotonic time
// since. It cannot be set.
type Clock struct {
	wall time.Time // without a monotonic reading
	made time.Time // the same time, monotonic
}

// NewClock returns a clock that starts at wall.
func NewClock(wall time.Time) Clock { return Clock{wall: wall.Round(0), made: time.Now()} }

// Now returns the time of the clock.
func (c Clock) Now() time.Time { return c.wall.Add(time.Since(c.made)) }

// Ahead returns how far the clock is ahead of the wall clock, which may have been set.
func (c Clock) Ahead(wall time.Time) time.Duration {
	return c.Now().Sub(wall.Round(0)).Round(time.Millisecond)
}

// maxWaits bounds the suspended conversations whose clocks are kept, about 200 bytes each. Others use
// the wall clock.
const maxWaits = 1 << 16

// Timers holds the conversations that this process suspended, with their clocks, which outlive the
// activations. It resumes those that are due.
type Timers struct {
	sweeper *Sweeper

	mu    sync.Mutex
	byKey map[conversation.Key]Suspended
}

// Suspended is the wait of a suspended conversation.
type Suspended struct {
	Clock Clock
	Waits []Wait
}

// Wait is the deadline of the batch at Seq.
type Wait struct {
	Seq   int64
	Until conversation.Time
}

// Put replaces the wait of a conversation.
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

// Clock returns the clock of a waiting conversation.
func (t *Timers) Clock(key conversation.Key) (Clock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.byKey[key]
	return p.Clock, ok
}

// Drop removes the waits of a conversation up to a batch.
func (t *Timers) Drop(key conversation.Key, seq int64) {
	t.drop(key, func(w Wait) bool { return w.Seq <= seq })
}

func (t *Timers) drop(key conversation.Key, over func(Wait) bool) {
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

// knows reports whether a stored timer belongs to a conversation suspended by this process.
func (t *Timers) knows(ref storage.TimerRef) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.byKey[ref.Conv].Waits, func(w Wait) bool { return w.Seq == ref.Seq })
}

// due returns the timers that are due by the clocks of their conversations.
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

// Count returns the number of waiting conversations that ran here.
func (t *Timers) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}

// Run checks due timers until ctx ends: immediately and at every full minute of the wall clock. Timers
// of conversations suspended by this process are due by their own clocks, regardless of the wall clock.
// All nodes do this. Duplicate checks are harmless, and most timers are deleted by the first.
func (t *Timers) Run(ctx context.Context) {
	for {
		if err := t.checkDue(ctx); err != nil && ctx.Err() == nil {
			t.sweeper.o.Logger.Warn("timer check failed", "err", err)
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

// checkDue checks every due timer, except those of quarantined conversations, which stay. A timer
// without an answer does not prevent checks of the others.
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

// check sends a timer to the owner, which resumes the conversation if it is due. It deletes the timer
// once it is obsolete.
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
	case reply.GetAnswer() == wire.ResumeReply_EARLY: // the owner's clock is behind
		return nil
	}
	t.drop(ref.Conv, func(w Wait) bool { return w.Seq == ref.Seq })
	limited, cancel = context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteTimer(limited, t.sweeper.o.Bucket, ref)
}
