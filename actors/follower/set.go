package follower

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

// Source is what a follower reads of the durable log. *storage.Logs is one.
type Source interface {
	// Batches yields the batches after a position, contiguous and chain-checked,
	// until the durable head or an error, which is the last thing it yields.
	Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error]
	// Resume is Batches after a position that a checkpoint has told.
	Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error]
	// Checkpoint returns the newest checkpoint, nil if there is none, and Page one of
	// its pages.
	Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error)
	Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error)
	// Range returns the batches first to last, both included, or the first of them if
	// they are too long to be held at once.
	Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error)
}

// Options tune a [Set]. The zero value of every field means its default.
type Options struct {
	// Logger is for operators; nil discards.
	Logger *slog.Logger
	// IdleAfter is how long a follower without readers is kept, and how long a
	// conversation whose log is damaged is refused without reading it again;
	// default 20 s.
	IdleAfter time.Duration
	// RetainBytes bounds the encoded chunks kept per follower, once for its newest
	// batches, once for old compactions and once for older pages that readers asked for;
	// default 1 MiB.
	// The newest of each is always kept.
	RetainBytes int
	// HoldBytes bounds the history kept per follower: a longer one stays in the bucket and
	// is read while it is sent, and a follower that has grown by more begins anew from the
	// newest checkpoint. Default 8 MiB.
	HoldBytes int
	// MaxBytes bounds what the followers hold altogether, by their own count: the log
	// that was folded, the encoded chunks and the snapshot, and 4 KiB for each. Logs that
	// are read again while they are sent have half as much beside it, 16 MiB each. Over it
	// those without readers give way, the least recently used first. If that is not
	// enough, a read of a further conversation is answered from a follower that ends
	// with it, and to wait there is refused as unavailable. Default 128 MiB.
	MaxBytes int64
	// Memory is the node's budget, of which "followers" and "rereads" take; nil is one without a
	// bound of its own.
	Memory *memory.Budget
	// Idle is where followers without readers stand beside what else the node holds without
	// need; nil is a part of Memory without a bound of its own.
	Idle *memory.Idle
	// LoadTimeout bounds each wait for the bucket: for a batch, a page or a checkpoint,
	// however many of them a log has. A reader waits as long for what is being read, and is
	// refused then as unavailable, while the reading goes on; default 30 s.
	LoadTimeout time.Duration

	// Tip asks whoever may own a conversation where its log ends. It is known if
	// every batch that was acknowledged before the call has a number up to seq. Nil
	// means that all batches are offered here before they are acknowledged, so that
	// what is at hand is the head. It is called without locks held and ends with its
	// context, whose values are those of a read that asks.
	Tip func(ctx context.Context, at conversation.Key) (seq int64, known bool)
	// TipTimeout bounds one call of Tip, after which the bucket is asked; default
	// 500 ms.
	TipTimeout time.Duration
	// Strict has every read ask the bucket where the log ends, and none ask Tip.
	Strict bool
	// Opened and Closed, if not nil, are told that a follower came, before it begins
	// to read the bucket, and that it went, which is not told of those that are there
	// when the set is stopped. They are called one at a time, in order and with a
	// lock held: they must not block and must not call the set.
	Opened, Closed func(conversation.Key)
	// Damaged, if not nil, is told that a log turned out to be damaged, or that this version
	// panics over it, so that nobody goes on with it. It is called with locks held: it must not block and must not call
	// the set.
	Corrupt func(conversation.Key)
	// Reading, if not nil, is told that a log is about to be read, and over that it was. Where
	// a read may end the process it waits until that is permitted, until its context ends.
	Reading func(ctx context.Context, key conversation.Key) (over func(), err error)
	// Waited, if not nil, is told that somebody is about to wait for the next batch,
	// without a lock held. It must not block.
	Waited func(conversation.Key)
}

func (o *Options) filled() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.IdleAfter < 0 || out.RetainBytes < 0 || out.HoldBytes < 0 || out.MaxBytes < 0 || out.LoadTimeout < 0 || out.TipTimeout < 0 {
		return out, errors.New("check follower options: negative value")
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.IdleAfter == 0 {
		out.IdleAfter = 20 * time.Second
	}
	if out.RetainBytes == 0 {
		out.RetainBytes = 1 << 20
	}
	if out.HoldBytes == 0 {
		out.HoldBytes = 8 << 20
	}
	if out.MaxBytes == 0 {
		out.MaxBytes = 128 << 20
	}
	if out.Memory == nil {
		out.Memory = memory.New(0)
	}
	if out.Idle == nil {
		out.Idle = out.Memory.Idle(0)
	}
	if out.LoadTimeout == 0 {
		out.LoadTimeout = 30 * time.Second
	}
	if out.TipTimeout == 0 {
		out.TipTimeout = 500 * time.Millisecond
	}
	if out.Opened == nil {
		out.Opened = func(conversation.Key) {}
	}
	if out.Corrupt == nil {
		out.Corrupt = func(conversation.Key) {}
	}
	if out.Reading == nil {
		out.Reading = func(context.Context, conversation.Key) (func(), error) { return func() {}, nil }
	}
	if out.Waited == nil {
		out.Waited = func(conversation.Key) {}
	}
	if out.Closed == nil {
		out.Closed = func(conversation.Key) {}
	}
	return out, nil
}

const (
	// followerBytes is what a follower counts for beside what it has read.
	followerBytes = 4 << 10
	// maxCrowded bounds the followers that grow while all hold more than they may.
	maxCrowded = 4
)

// Stats counts what a [Set] has done since it was made; Followers is what it
// holds now.
type Stats struct {
	Followers int
	Loads     int64 // Reads of a log up to its head.
	ColdPages int64 // Pages read from the bucket because they were not retained.
	Encoded   int64 // Batches projected and encoded.
	Snapshots int64 // Snapshots encoded.
	Tips      int64 // Calls of [Options.Tip],
	Unknown   int64 // and those that did not get to know it.
	Gaps      int64 // Times that a push or [Set.Behind] showed that batches are missing here.
	Rechecks  int64 // Calls of [Set.Recheck] that found a follower.
	Undecoded int64 // Pushes whose lines could not be decoded.
}

type counters struct {
	loads, coldPages, encoded, snapshots     atomic.Int64
	tips, unknown, gaps, rechecks, undecoded atomic.Int64
}

// Set is the followers of a node. It implements [conversation.Reader] but for the
// content of attachments. Make one
// with [New]. It is safe for concurrent use.
type Set struct {
	source  Source
	options Options
	counts  counters
	account *memory.Account
	shelf   *memory.Shelf   // of those that nobody uses
	rereads *memory.Account // of logs that are read again while they are sent
	crowded chan struct{}   // holds an element for each follower that grows over the bound
	empty   []byte          // the page without chunks

	rereadBytes int64         // the share of rereads
	done        chan struct{} // closed when Run ends

	mu        sync.Mutex
	closed    bool
	followers map[conversation.Key]*follower
	// addresses spares warm reads the hashing of their address.
	addresses map[conversation.Address]*follower
	idle      *list.List // followers nobody uses, the most recent in front
	running   map[*task]struct{}
	tasks     sync.WaitGroup
}

// task is one goroutine of a Set.
type task struct{ cancel context.CancelFunc }

// New returns a set without followers. Nil options mean the defaults. It starts
// no goroutine; reads work before [Set.Run] is called, but nothing is dropped
// for being idle.
func New(source Source, options *Options) (*Set, error) {
	if source == nil {
		return nil, errors.New("make follower set: no source")
	}
	o, err := options.filled()
	if err != nil {
		return nil, fmt.Errorf("make follower set: %w", err)
	}
	rereadBytes := max(o.MaxBytes/2, againBytes)
	return &Set{
		source: Patient(source, o.LoadTimeout), options: o, empty: []byte("[]"), done: make(chan struct{}),
		account: o.Memory.Account("followers", o.MaxBytes), shelf: o.Idle.Shelf("followers"), crowded: make(chan struct{}, maxCrowded),
		rereads: o.Memory.Account("rereads", rereadBytes), rereadBytes: rereadBytes,
		followers: map[conversation.Key]*follower{},
		addresses: map[conversation.Address]*follower{},
		idle:      list.New(),
		running:   map[*task]struct{}{},
	}, nil
}

// Run drops idle followers until ctx ends, then ends all loads, refuses further
// reads as unavailable and returns nil once everything the set started has
// ended. It is called once.
func (s *Set) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(s.options.IdleAfter/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.sweep()
		case <-ctx.Done():
			s.close()
			s.tasks.Wait()
			return nil
		}
	}
}

// Stats returns the counters.
func (s *Set) Stats() Stats {
	s.mu.Lock()
	n := len(s.followers)
	s.mu.Unlock()
	return Stats{
		Followers: n,
		Loads:     s.counts.loads.Load(), ColdPages: s.counts.coldPages.Load(),
		Encoded: s.counts.encoded.Load(), Snapshots: s.counts.snapshots.Load(),
		Tips: s.counts.tips.Load(), Unknown: s.counts.unknown.Load(),
		Gaps: s.counts.gaps.Load(), Rechecks: s.counts.rechecks.Load(), Undecoded: s.counts.undecoded.Load(),
	}
}

func (s *Set) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	close(s.done)
	for t := range s.running {
		t.cancel()
	}
}

// sweep drops the followers that nobody used for IdleAfter.
func (s *Set) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.idle.Back(); e != nil; e = s.idle.Back() {
		f := e.Value.(*follower)
		if time.Since(f.lastUsed) < s.options.IdleAfter {
			return
		}
		s.drop(f)
	}
}

// drop removes an unused follower; s.mu is held.
func (s *Set) drop(f *follower) {
	s.inUse(f)
	s.charge(f, -f.held)
	s.uncrowd(f)
	delete(s.followers, f.key)
	delete(s.addresses, f.address)
	s.options.Closed(f.key)
	if len(s.followers) == 0 { // a map never shrinks
		s.followers, s.addresses = map[conversation.Key]*follower{}, map[conversation.Address]*follower{}
	}
}

// acquire returns the follower of a conversation in use; release ends the use. A
// follower for which there is no room ends with its last use, and nobody waits there.
func (s *Set) acquire(at conversation.Address, waits bool) (*follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.unavailable(errStopped)
	}
	f := s.addresses[at]
	if f == nil || f.passing {
		full := s.makeRoom()
		if full != nil && waits {
			return nil, s.noRoom(full)
		}
		if f == nil {
			f = newFollower(s, at)
			s.followers[f.key], s.addresses[at] = f, f
			s.charge(f, followerBytes)
			s.options.Opened(f.key)
		}
		if f.passing = full != nil; !f.passing {
			s.uncrowd(f)
		}
	}
	s.use(f)
	return f, nil
}

// crowds reports whether a follower may grow over the bound, which now says that it may
// from now on.
func (s *Set) crowds(f *follower, now bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.crowding = f.crowding || now
	return f.crowding
}

// loaded ends that with a load, but for a follower that ends soon, with all it holds.
func (s *Set) loaded(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(f)
	if !f.passing {
		s.uncrowd(f)
	}
}

// uncrowd lets another follower grow; s.mu is held.
func (s *Set) uncrowd(f *follower) {
	if f.crowding {
		f.crowding = false
		<-s.crowded
	}
}

// Room returns an error if nobody can wait for the next batch of a conversation here,
// because its follower would be one too many. A read of it is answered all the same.
func (s *Set) Room(at conversation.Address) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.addresses[at]; f != nil && !f.passing {
		return nil
	}
	if full := s.makeRoom(); full != nil {
		return s.noRoom(full)
	}
	return nil
}

// makeRoom drops unused followers until there is room for one more, and returns an error
// if there is not; s.mu is held.
func (s *Set) makeRoom() error {
	for !s.account.Room(followerBytes) && s.dropIdle() {
	}
	err := s.account.Take(followerBytes)
	if err == nil {
		s.account.Add(-followerBytes)
	}
	return err
}

// hold counts n bytes more, or less, that a follower holds.
func (s *Set) hold(f *follower, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.key] == f { // otherwise it was dropped, with all it held
		s.charge(f, n)
		s.fits(0)
	}
}

// charge counts n bytes more, or less; s.mu is held.
func (s *Set) charge(f *follower, n int64) {
	f.held += n
	s.account.Add(n)
	f.spare.Add(n)
}

// reserve counts n bytes that a load is about to add, in place of those before, if there
// is room for them.
func (s *Set) reserve(f *follower, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(f)
	if !s.fits(n) {
		return false
	}
	f.reserved = n
	s.charge(f, n)
	return true
}

// settle gives back what was reserved; s.mu is held.
func (s *Set) settle(f *follower) {
	s.charge(f, -f.reserved)
	f.reserved = 0
}

// fits reports whether n bytes more can be held, if need be without those that nobody
// uses; s.mu is held.
func (s *Set) fits(n int64) bool {
	for {
		fits := s.account.Used()+n <= s.options.MaxBytes
		if fits || !s.dropIdle() {
			return fits
		}
	}
}

// dropIdle drops the follower that has been without users for longest, and reports whether
// there was one; s.mu is held.
func (s *Set) dropIdle() bool {
	oldest := s.idle.Back()
	if oldest != nil {
		s.drop(oldest.Value.(*follower))
	}
	return oldest != nil
}

// use counts one user more; s.mu is held.
func (s *Set) use(f *follower) {
	f.users++
	s.inUse(f)
}

// inUse takes a follower from those that nobody uses; s.mu is held.
func (s *Set) inUse(f *follower) {
	if f.idle == nil {
		return
	}
	s.idle.Remove(f.idle)
	f.spare.Take()
	f.idle, f.spare = nil, nil
}

func (s *Set) release(f *follower) {
	s.end(f)
	s.options.Idle.Trim()
}

// end ends a use.
func (s *Set) end(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.users--
	switch {
	case f.users > 0 || s.followers[f.key] != f:
	case f.passing:
		s.drop(f)
	default:
		f.lastUsed = time.Now()
		f.idle = s.idle.PushFront(f)
		f.spare = s.shelf.Keep(f.held, func() { s.giveWay(f) })
		s.fits(0)
	}
}

// giveWay drops a follower, unless it is used again.
func (s *Set) giveWay(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.idle != nil {
		s.drop(f)
	}
}

// spawn runs work in a goroutine that Run waits for, with the values of ctx but
// an end of its own, that of the set, and keeps the follower in use meanwhile. It reports false when
// the set is closed.
func (s *Set) spawn(ctx context.Context, f *follower, work func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &task{cancel}
	s.running[t] = struct{}{}
	s.use(f)
	s.tasks.Go(func() {
		defer func() {
			cancel()
			s.mu.Lock()
			delete(s.running, t)
			s.mu.Unlock()
			s.release(f)
		}()
		work(ctx)
	})
	return true
}
