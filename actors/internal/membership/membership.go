package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// The defaults of [Options].
const (
	DefaultHeartbeat = 500 * time.Millisecond
	DefaultSuspect   = 2 * time.Second
)

const (
	// looksPerHeartbeat is how often a heartbeat is looked at in the time in which
	// it should change once.
	looksPerHeartbeat = 2
	// looksAtOnce bounds the heartbeats that are read at the same time.
	looksAtOnce = 32
	// heartbeatsPerCheck is after how many heartbeats a node looks for a newer epoch.
	heartbeatsPerCheck = 4
	// checkTimeout bounds that look, and the deletion of what nobody needs any more.
	checkTimeout = 5 * time.Second
)

// Self is what a node says about itself.
type Self struct {
	ID      string // Incarnation: 1 to 128 letters, digits, '-' or '_', new at every start.
	Address string // Where others find it, for people; up to 256 bytes.
	Version string // Of the software; up to 256 bytes.
}

// Options are the optional parts of a [Membership]. Zero fields mean the defaults.
type Options struct {
	// Logger gets what operators need to know. Nil discards it.
	Logger *slog.Logger
	// Heartbeat is the time between two heartbeats. Zero is DefaultHeartbeat.
	Heartbeat time.Duration
	// Suspect is how long a heartbeat must stay unchanged before its node is taken
	// for dead, at least twice Heartbeat. Zero is DefaultSuspect. It is the same on
	// all nodes.
	Suspect time.Duration
}

// Membership is this node's row among the members of a bucket. Join, Run and Leave
// are called in this order, one at a time.
type Membership struct {
	bucket storage.Bucket
	row    storage.Member
	opts   Options
	log    *slog.Logger

	epoch    int64    // Newest one that is known to have this node.
	replaced []int64  // Epochs that Join has replaced.
	gone     []string // Members of the last of them.

	// Of the goroutine that beats.
	count    int64     // Of the newest heartbeat, 0 before the first.
	beatAt   time.Time // When it was sent.
	beatless bool      // It was not stored.
}

// New returns a membership that has not joined. No request is sent.
func New(bucket storage.Bucket, self Self, opts *Options) (*Membership, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Suspect == 0 {
		o.Suspect = DefaultSuspect
	}
	m := &Membership{bucket: bucket, opts: o, log: o.Logger, row: storage.Member{
		ID: self.ID, Address: self.Address, Version: self.Version,
		StartedAt: conversation.TimeOf(time.Now()), Records: conversation.Types(),
	}}
	switch {
	case bucket == nil:
		return nil, errors.New("make membership: bucket is nil")
	case o.Heartbeat < 0 || o.Suspect < 2*o.Heartbeat:
		return nil, fmt.Errorf("make membership: heartbeat %v, suspect %v: want a time, and at least twice that", o.Heartbeat, o.Suspect)
	}
	if err := m.row.Validate(); err != nil {
		return nil, fmt.Errorf("make membership: %w", err)
	}
	return m, nil
}

// Join makes this node the member of the bucket. It returns an [*AliveError] if
// another node is, and takes the time of suspicion if one stands there that is
// not; a [*storage.FormatError] if a newer version serves the bucket; else why the
// bucket could not be asked. After an error nothing of this node is left that the
// bucket let it remove.
func (m *Membership) Join(ctx context.Context) error {
	err := m.join(ctx)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.Suspect)
	defer cancel()
	if left := m.Leave(undo); left != nil {
		m.log.Warn("leave after a start that did not succeed", "member", m.row.ID, "err", left)
	}
	return fmt.Errorf("join members: %w", err)
}

func (m *Membership) join(ctx context.Context) error {
	for {
		newest, older, err := storage.NewestEpoch(ctx, m.bucket, 0)
		if err != nil {
			return err
		}
		if err := m.awaitSilence(ctx, newest); err != nil {
			return err
		}
		late, err := m.firstBeat(ctx)
		if err != nil {
			return err
		}
		if late {
			m.log.Info("the bucket took no heartbeat for a while, look again", "member", m.row.ID)
			continue
		}
		won, err := m.claim(ctx, newest.N+1)
		if err != nil {
			return err
		}
		if !won {
			m.log.Info("another node was faster, look again", "epoch", newest.N+1)
			continue
		}
		m.epoch, m.replaced = newest.N+1, older
		if newest.N > 0 {
			m.replaced = append(m.replaced, newest.N)
		}
		for _, gone := range m.others(newest) {
			m.log.Info("take the place of a node that is gone", "member", gone.ID, "address", gone.Address, "epoch", m.epoch)
			m.gone = append(m.gone, gone.ID)
		}
		return nil
	}
}

// others returns the rows of an epoch without this node's.
func (m *Membership) others(e storage.Epoch) []storage.Member {
	return slices.DeleteFunc(slices.Clone(e.Members), func(other storage.Member) bool { return other.ID == m.row.ID })
}

// awaitSilence returns nil once no other member of an epoch has shown life for the
// time of suspicion, and an *AliveError when one does.
func (m *Membership) awaitSilence(ctx context.Context, e storage.Epoch) error {
	others := m.others(e)
	if len(others) == 0 {
		return nil
	}
	m.log.Info("watch the heartbeat of the node that served last",
		"member", others[0].ID, "address", others[0].Address, "members", len(others), "for", m.opts.Suspect)
	pauseFor := m.opts.Heartbeat / looksPerHeartbeat
	enough := int((m.opts.Suspect + pauseFor - 1) / pauseFor)
	watches := make([]watch, len(others))
	for {
		marks, err := m.look(ctx, others)
		if err != nil {
			return err
		}
		switch v, i := judge(watches, marks, enough); v {
		case alive:
			return &AliveError{Member: others[i], Epoch: e.N}
		case dead:
			return nil
		}
		if !pause(ctx, pauseFor) {
			return fmt.Errorf("watch heartbeats: %w", context.Cause(ctx))
		}
	}
}

// look reads the heartbeats of members. One that is not readable is a mark like
// any other: heartbeats are hints, and a broken one must not keep a node from
// starting.
func (m *Membership) look(ctx context.Context, members []storage.Member) ([]mark, error) {
	marks := make([]mark, len(members))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looksAtOnce)
	for i, member := range members {
		g.Go(func() error {
			h, err := storage.ReadHeartbeat(ctx, m.bucket, member.ID)
			var corrupt *storage.CorruptError
			switch {
			case err == nil:
				marks[i] = mark(h.Count)
			case errors.Is(err, storage.ErrNotFound):
				marks[i] = absent
			case errors.As(err, &corrupt):
				marks[i] = unreadable
			default:
				return err
			}
			return nil
		})
	}
	return marks, g.Wait()
}

// claim creates the epoch that has this node alone and reports whether it is the
// newest one. The node beats until the outcome is known.
func (m *Membership) claim(ctx context.Context, n int64) (bool, error) {
	beating, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.beats(beating) })
	defer wg.Wait()
	defer stop()
	return storage.CreateEpoch(ctx, m.bucket, m.next(n, m.row))
}

// next returns an epoch to be created.
func (m *Membership) next(n int64, members ...storage.Member) storage.Epoch {
	return storage.Epoch{N: n, Nonce: storage.Nonce(rand.Text()), At: conversation.TimeOf(time.Now()), Members: members}
}

// firstBeat returns once a heartbeat is stored, so that the node lives before an
// epoch shows it. late says that it had to be repeated: a bucket that takes no
// heartbeats silences every node, and what awaitSilence saw proves nothing then.
func (m *Membership) firstBeat(ctx context.Context) (late bool, err error) {
	for ; ; late = true {
		err := m.beat(ctx)
		if err == nil || errors.Is(err, storage.ErrRefused) || !pause(ctx, m.untilBeat()) {
			return late, err
		}
	}
}

// beats sends heartbeats until ctx ends.
func (m *Membership) beats(ctx context.Context) {
	for pause(ctx, m.untilBeat()) {
		// What went wrong is logged; the next heartbeat is the repetition.
		_ = m.beat(ctx)
	}
}

func (m *Membership) untilBeat() time.Duration { return time.Until(m.beatAt.Add(m.opts.Heartbeat)) }

// beat sends one heartbeat. A request that is not answered must leave time for
// another before the node is suspected.
func (m *Membership) beat(ctx context.Context) error {
	m.count++
	m.beatAt = time.Now()
	limited, cancel := context.WithTimeout(ctx, m.opts.Suspect/2)
	defer cancel()
	h := storage.Heartbeat{Member: m.row.ID, Count: m.count, At: conversation.TimeOf(m.beatAt)}
	err := storage.PutHeartbeat(limited, m.bucket, h)
	switch {
	case ctx.Err() != nil:
	case err != nil && !m.beatless:
		m.log.Warn("heartbeat is not stored, others may take this node for dead", "member", m.row.ID, "err", err)
	case err == nil && m.beatless:
		m.log.Info("heartbeat is stored again", "member", m.row.ID)
	}
	m.beatless = err != nil
	return err
}

// Run keeps the heartbeat until ctx ends. It returns nil then, or a
// [*ReplacedError] as soon as it sees that another node took this one's place.
func (m *Membership) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.beats(ctx) })
	wg.Go(func() { m.tidy(ctx, m.replaced, m.gone) })
	err := m.watchEpochs(ctx)
	cancel()
	wg.Wait()
	if err != nil {
		return fmt.Errorf("stay a member: %w", err)
	}
	return nil
}

// watchEpochs returns when a newer epoch lacks this node, or ctx ends.
func (m *Membership) watchEpochs(ctx context.Context) error {
	blind := false
	for pause(ctx, heartbeatsPerCheck*m.opts.Heartbeat) {
		newer, err := m.newer(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !blind:
			m.log.Warn("cannot see whether this node is still a member", "member", m.row.ID, "epoch", m.epoch, "err", err)
		case err == nil && blind:
			m.log.Info("members are seen again", "member", m.row.ID, "epoch", m.epoch)
		}
		blind = err != nil
		switch {
		case err != nil || newer.N == 0:
		case newer.Has(m.row.ID):
			m.epoch = newer.N
		default:
			return &ReplacedError{Epoch: newer.N, Members: newer.Members}
		}
	}
	return nil
}

func (m *Membership) newer(ctx context.Context) (storage.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	e, _, err := storage.NewestEpoch(ctx, m.bucket, m.epoch)
	return e, err
}

// tidy deletes what Join has replaced, off the path of the start. What a failure
// leaves behind disturbs nobody; the next Leave deletes the epochs.
func (m *Membership) tidy(ctx context.Context, epochs []int64, gone []string) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs []error
	if len(epochs) > 0 {
		errs = append(errs, storage.DeleteEpochs(limited, m.bucket, epochs[len(epochs)-1]+1, epochs))
	}
	for _, id := range gone {
		errs = append(errs, storage.DeleteHeartbeat(limited, m.bucket, id))
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		m.log.Warn("delete what members that are gone have left", "err", err)
	}
}

// Leave takes this node out of the newest epoch, if it stands there, and removes
// its heartbeat and the epochs that are replaced. The next start need not wait
// then. It sends nothing if Join never wrote anything.
func (m *Membership) Leave(ctx context.Context) error {
	if m.count == 0 {
		return nil
	}
	err := m.withdraw(ctx)
	// The row goes first: as long as it stands, silence means a crash.
	if err = errors.Join(err, storage.DeleteHeartbeat(ctx, m.bucket, m.row.ID)); err != nil {
		return fmt.Errorf("leave members: %w", err)
	}
	return nil
}

func (m *Membership) withdraw(ctx context.Context) error {
	for {
		newest, older, err := storage.NewestEpoch(ctx, m.bucket, 0)
		if err != nil || !newest.Has(m.row.ID) {
			return err
		}
		next := m.next(newest.N+1, m.others(newest)...)
		won, err := storage.CreateEpoch(ctx, m.bucket, next)
		if err != nil {
			return err
		}
		if won {
			return storage.DeleteEpochs(ctx, m.bucket, next.N, append(older, newest.N))
		}
	}
}

// pause waits and reports whether the context still holds.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
