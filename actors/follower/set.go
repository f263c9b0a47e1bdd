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

// Source is the part of the durable log that a follower reads. *storage.Logs implements it.
type Source interface {
	// Batches yields the batches after a position, contiguous and chain-checked, until the durable
	// head or an error, which it yields last.
	Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error]
	// Resume is Batches after the position of a checkpoint.
	Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error]
	// Checkpoint returns the newest checkpoint, or nil. Page returns one of its pages.
	Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error)
	Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error)
	// Range returns the batches first to last, inclusive, or the first of them if they are too large
	// to be held at once.
	Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error)
}

// Options configure a [Set]. The zero value of each field selects its default.
type Options struct {
	// Logger receives operator logs; nil discards them.
	Logger *slog.Logger
	// IdleAfter is the time that a follower without readers is kept, and the time that a corrupt log
	// is refused without reading it again. Default 20 s.
	IdleAfter time.Duration
	// RetainBytes bounds the encoded chunks kept per follower. It applies separately to the newest
	// batches, old compactions, and older pages that readers asked for. The newest of each is always
	// kept. Default 1 MiB.
	RetainBytes int
	// HoldBytes bounds the history kept per follower. Longer history stays in the bucket and is read
	// while a response is sent. A follower that has grown by more is reloaded from the newest
	// checkpoint. Default 8 MiB.
	HoldBytes int
	// MaxBytes bounds the counted memory of all followers: the folded log, the encoded chunks and the
	// snapshot, and 4 KiB each. Logs that are read again while they are sent have half as much in
	// addition, 16 MiB each. Over the bound, followers without readers are evicted, the least recently
	// used first. If that is not enough, a read of another conversation uses a follower that ends with
	// it, and a wait is refused as unavailable. Default 128 MiB.
	MaxBytes int64
	// Memory is the node's budget with the accounts "followers" and "rereads"; nil is a budget without
	// a bound of its own.
	Memory *memory.Budget
	// Idle orders followers without readers among the node's other evictable memory; nil is a part of
	// Memory without a bound of its own.
	Idle *memory.Idle
	// LoadTimeout bounds each wait for the bucket: for one batch, page or checkpoint, however many a
	// log has. A reader waits as long for a load and is then refused as unavailable, while the load
	// continues. Default 30 s.
	LoadTimeout time.Duration

	// Tip asks the possible owners of a conversation for its head. known is true if every batch that
	// was acknowledged before the call has a number up to seq. A nil Tip means that all batches are
	// offered here before they are acknowledged, so that the view's tip is the head. Tip is called
	// without locks held, and must return when its context ends. The context has the values of the
	// read.
	Tip func(ctx context.Context, at conversation.Key) (seq int64, known bool)
	// TipTimeout bounds one call of Tip, after which the bucket is read. Default 500 ms.
	TipTimeout time.Duration
	// Strict makes every read check the head in the bucket instead of calling Tip.
	Strict bool
	// Opened, if not nil, is called when a follower is created, before it reads the bucket. Closed, if
	// not nil, is called when it is dropped, but not when the set stops. Calls are serialized, in
	// order, with a lock held: they must not block and must not call the set.
	Opened, Closed func(conversation.Key)
	// Corrupt, if not nil, is called if a log is corrupt or makes this version panic, so that its
	// owner stops using it. It is called with locks held: it must not block and must not call the set.
	Corrupt func(conversation.Key)
	// Reading, if not nil, is called before a log is read; over is called after it. A read that may
	// crash the process waits in it until it is permitted or its context ends.
	Reading func(ctx context.Context, key conversation.Key) (over func(), err error)
	// Waited, if not nil, is called before a reader waits for the next batch, without locks held. It
	// must not block.
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
	// followerBytes is the fixed cost of a follower.
	followerBytes = 4 << 10
	// maxGrowing bounds the followers that may grow while the set is over its bound.
	maxGrowing = 4
)

// Stats counts the events of a [Set] since it was created. Followers is the current number.
type Stats struct {
	Followers int
	Loads     int64 // Reads of a log up to its head.
	ColdPages int64 // Pages read from the bucket because they were not retained.
	Encoded   int64 // Batches projected and encoded.
	Snapshots int64 // Snapshots encoded.
	Tips      int64 // Calls of [Options.Tip].
	Unknown   int64 // Calls of [Options.Tip] that did not return the head.
	Gaps      int64 // Times that a push or [Set.Behind] showed missing batches.
	Rechecks  int64 // Calls of [Set.Recheck] that found a follower.
	Undecoded int64 // Pushes whose lines could not be decoded.
}

type counters struct {
	loads, coldPages, encoded, snapshots     atomic.Int64
	tips, unknown, gaps, rechecks, undecoded atomic.Int64
}

// Set holds the followers of a node. It implements [conversation.Reader] except for the content of
// attachments. Create it with [New]. It is safe for concurrent use.
type Set struct {
	source  Source
	options Options
	counts  counters
	account *memory.Account
	shelf   *memory.Shelf   // followers without users
	rereads *memory.Account // logs read again while a response is sent
	growth  chan struct{}   // one element per follower that grows over the bound
	empty   []byte          // the page without chunks

	rereadBytes int64         // bound of rereads
	done        chan struct{} // closed when Run ends

	mu        sync.Mutex
	closed    bool
	followers map[conversation.Key]*follower
	// addresses saves warm reads the hashing of the address.
	addresses map[conversation.Address]*follower
	idle      *list.List // followers without users, most recently used first
	running   map[*task]struct{}
	tasks     sync.WaitGroup
}

type task struct{ cancel context.CancelFunc }

// New returns a set without followers. Nil options select the defaults. It starts no goroutine. Reads
// work before [Set.Run] is called, but idle followers are not dropped.
func New(source Source, options *Options) (*Set, error) {
	if source == nil {
		return nil, errors.New("make follower set: no source")
	}
	o, err := options.filled()
	if err != nil {
		return nil, fmt.Errorf("make follower set: %w", err)
	}
	rereadBytes := max(o.MaxBytes/2, refoldBytes)
	return &Set{
		source: WithTimeout(source, o.LoadTimeout), options: o, empty: []byte("[]"), done: make(chan struct{}),
		account: o.Memory.Account("followers", o.MaxBytes), shelf: o.Idle.Shelf("followers"), growth: make(chan struct{}, maxGrowing),
		rereads: o.Memory.Account("rereads", rereadBytes), rereadBytes: rereadBytes,
		followers: map[conversation.Key]*follower{},
		addresses: map[conversation.Address]*follower{},
		idle:      list.New(),
		running:   map[*task]struct{}{},
	}, nil
}

// Run drops idle followers until ctx ends. It then cancels all loads, refuses further reads as
// unavailable, and returns nil once everything that the set started has ended. It is called once.
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

// sweep drops the followers that were unused for IdleAfter.
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
	s.endGrowth(f)
	delete(s.followers, f.key)
	delete(s.addresses, f.address)
	s.options.Closed(f.key)
	if len(s.followers) == 0 { // release the memory of the map, which never shrinks
		s.followers, s.addresses = map[conversation.Key]*follower{}, map[conversation.Address]*follower{}
	}
}

// acquire returns the follower of a conversation and marks it used; release ends the use. A follower
// without room is dropped after its last use, and waiting on it is refused.
func (s *Set) acquire(at conversation.Address, waits bool) (*follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.unavailable(errStopped)
	}
	f := s.addresses[at]
	if f == nil || f.transient {
		full := s.makeRoom()
		if full != nil && waits {
			return nil, s.errFull(full)
		}
		if f == nil {
			f = newFollower(s, at)
			s.followers[f.key], s.addresses[at] = f, f
			s.charge(f, followerBytes)
			s.options.Opened(f.key)
		}
		if f.transient = full != nil; !f.transient {
			s.endGrowth(f)
		}
	}
	s.use(f)
	return f, nil
}

// mayGrow reports whether a follower may grow over the bound; now permits it from this call on.
func (s *Set) mayGrow(f *follower, now bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.growing = f.growing || now
	return f.growing
}

// loaded releases the reservation of a load and the permission to grow over the bound. A follower that
// ends soon keeps that permission.
func (s *Set) loaded(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(f)
	if !f.transient {
		s.endGrowth(f)
	}
}

// endGrowth releases a follower's permission to grow over the bound; s.mu is held.
func (s *Set) endGrowth(f *follower) {
	if f.growing {
		f.growing = false
		<-s.growth
	}
}

// Room returns an error if waiting for the next batch of a conversation would need a follower beyond
// the bound. Reads of the conversation still work.
func (s *Set) Room(at conversation.Address) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.addresses[at]; f != nil && !f.transient {
		return nil
	}
	if full := s.makeRoom(); full != nil {
		return s.errFull(full)
	}
	return nil
}

// makeRoom drops unused followers until there is room for one more, or returns an error; s.mu is held.
func (s *Set) makeRoom() error {
	for !s.account.Room(followerBytes) && s.dropIdle() {
	}
	err := s.account.Take(followerBytes)
	if err == nil {
		s.account.Add(-followerBytes)
	}
	return err
}

// hold charges a follower n bytes, which may be negative.
func (s *Set) hold(f *follower, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.key] == f { // otherwise it was dropped with its charge
		s.charge(f, n)
		s.fits(0)
	}
}

// charge charges n bytes to the follower like hold, without eviction; s.mu is held.
func (s *Set) charge(f *follower, n int64) {
	f.held += n
	s.account.Add(n)
	f.spare.Add(n)
}

// reserve replaces the follower's reservation by n bytes and reports whether there is room.
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

// settle releases the reservation; s.mu is held.
func (s *Set) settle(f *follower) {
	s.charge(f, -f.reserved)
	f.reserved = 0
}

// fits reports whether n more bytes fit, and drops unused followers if necessary; s.mu is held.
func (s *Set) fits(n int64) bool {
	for {
		fits := s.account.Used()+n <= s.options.MaxBytes
		if fits || !s.dropIdle() {
			return fits
		}
	}
}

// dropIdle drops the least recently used idle follower and reports whether there was one; s.mu is
// held.
func (s *Set) dropIdle() bool {
	oldest := s.idle.Back()
	if oldest != nil {
		s.drop(oldest.Value.(*follower))
	}
	return oldest != nil
}

// use adds a user; s.mu is held.
func (s *Set) use(f *follower) {
	f.users++
	s.inUse(f)
}

// inUse removes a follower from the idle ones; s.mu is held.
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

func (s *Set) end(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.users--
	switch {
	case f.users > 0 || s.followers[f.key] != f:
	case f.transient:
		s.drop(f)
	default:
		f.lastUsed = time.Now()
		f.idle = s.idle.PushFront(f)
		f.spare = s.shelf.Keep(f.held, func() { s.evict(f) })
		s.fits(0)
	}
}

// evict drops a follower unless it is in use again.
func (s *Set) evict(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.idle != nil {
		s.drop(f)
	}
}

// spawn runs work in a goroutine that Run waits for and keeps the follower in use until it ends. The
// context has the values of ctx but is canceled with the set. spawn returns false if the set is
// closed.
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
