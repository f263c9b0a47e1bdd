package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// strayPatience is for how many times Suspect a node that finds no epoch waits for others
// to end: once for them to notice, once for their silence, once for what else it takes.
const strayPatience = 3

// tidyTimeout bounds the deletion of what nobody needs any more.
const tidyTimeout = 5 * time.Second

// Membership is this node's row among the members of a bucket. Join, Run and Leave
// are called in this order, one at a time; the other methods at any time.
type Membership struct {
	bucket storage.Bucket
	row    storage.Member // As it is with its share.
	opts   Options
	log    *slog.Logger

	heart      heart
	standing   standing
	publishing sync.Mutex // Held while a view is published, so that they stay in order.

	replaced edited   // What Join has created.
	gone     []string // Members whose place it took.
}

// New returns a membership that has not joined. No request is sent. It refuses a
// row that may not stand in an epoch, and times that do not go together.
func New(bucket storage.Bucket, self Self, opts *Options) (*Membership, error) {
	o := opts.filled()
	m := &Membership{bucket: bucket, opts: o, log: o.Logger}
	m.heart.turn, m.standing.changed = make(chan struct{}, 1), make(chan struct{})
	if bucket == nil {
		return nil, fmt.Errorf("make membership: %w", errNoBucket)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("make membership: %w", err)
	}
	var err error
	if m.row, err = self.row(); err != nil {
		return nil, fmt.Errorf("make membership: %w", err)
	}
	return m, nil
}

// Join makes this node a member of the bucket and publishes the first view. A node
// that shares the bucket does so at once, and takes the place of older incarnations
// at its node address. If it or another one serves alone, it takes the time of
// suspicion when that other one is gone and returns an [*AliveError] when it is not.
// A [*StrayError] says that there is no epoch and a node lives all the same.
// A [*storage.FormatError] says that a newer version serves the bucket; other errors
// why the bucket could not be asked. After an error nothing of this node is left that
// the bucket let it remove.
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
	beating, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var started bool
	var plan entry
	done, err := edit(ctx, m.bucket, func(newest storage.Epoch) ([]storage.Member, bool, error) {
		plan = enter(newest.Members, m.row)
		if newest.N == 0 {
			if err := m.awaitStrays(ctx); err != nil {
				return nil, false, err
			}
		}
		if len(plan.judged) > 0 {
			m.log.Info("watch the heartbeat of the node that served last", "member", plan.judged[0].ID,
				"address", plan.judged[0].Address, "members", len(plan.judged), "for", m.opts.Suspect)
		}
		if err := m.awaitSilence(ctx, newest.N, plan.judged); err != nil {
			return nil, false, err
		}
		if !started || len(plan.judged) > 0 {
			late, err := m.beatUntilStored(ctx)
			if err != nil {
				return nil, false, err
			}
			if !started {
				started = true
				wg.Go(func() { m.beats(beating) })
			}
			if late && len(plan.judged) > 0 {
				m.log.Info("the bucket took no heartbeat for a while, look again", "member", m.row.ID)
				return nil, false, errAgain
			}
		}
		rows, changed := plan.with(m.entering(plan.kept))
		return rows, changed, nil
	})
	if err != nil {
		return err
	}
	for _, old := range plan.older {
		m.log.Info("take the place of an older incarnation at this node address", "member", old.ID, "node", old.Node, "epoch", done.epoch.N)
	}
	for _, old := range plan.judged {
		m.log.Info("take the place of a node that is gone", "member", old.ID, "address", old.Address, "epoch", done.epoch.N)
	}
	m.replaced, m.gone = done, idsOf(plan.gone())
	m.saw(done.epoch, done.since)
	return nil
}

// awaitSilence returns nil once none of these members has shown life for the time
// of suspicion, and an *AliveError when one does.
func (m *Membership) awaitSilence(ctx context.Context, epoch int64, members []storage.Member) error {
	if len(members) == 0 {
		return nil
	}
	ids, watches, marks := idsOf(members), make([]watch, len(members)), make([]mark, len(members))
	for {
		for i, s := range look(ctx, m.bucket, ids) {
			if s.err != nil {
				return s.err
			}
			marks[i] = s.mark
		}
		switch v, i := judge(watches, marks, m.opts.looks()); v {
		case alive:
			return &AliveError{Member: members[i], Epoch: epoch}
		case dead:
			return nil
		}
		if !pause(ctx, m.opts.lookEvery()) {
			return fmt.Errorf("watch heartbeats: %w", context.Cause(ctx))
		}
	}
}

// awaitStrays returns nil if no node lives, errAgain once there is an epoch, and a
// *StrayError if one lives and there is none for some times Suspect. A node that finds no
// epoch is the first, or the epochs were deleted while others run; those end by themselves
// when they notice.
func (m *Membership) awaitStrays(ctx context.Context) error {
	for began := time.Now(); ; {
		ids, err := storage.Heartbeats(ctx, m.bucket)
		if err != nil {
			return err
		}
		var strays []storage.Member
		for _, id := range ids {
			if id != m.row.ID {
				strays = append(strays, storage.Member{ID: id})
			}
		}
		err = m.awaitSilence(ctx, 0, strays)
		var alive *AliveError
		if !errors.As(err, &alive) {
			return err
		}
		first, _, err := storage.NewestEpoch(ctx, m.bucket, 0)
		switch {
		case err != nil:
			return err
		case first.N > 0:
			return errAgain // It is a node that was faster.
		case time.Since(began) > strayPatience*m.opts.Suspect:
			return &StrayError{Member: alive.Member.ID}
		}
	}
}

// Leave takes this node out of the newest epoch, if it stands there, and removes
// its heartbeat and the epochs that are replaced. The node is passive from the call
// on. Nobody need wait then: not the other members, not the next start. It sends
// nothing if Join never wrote anything.
func (m *Membership) Leave(ctx context.Context) error {
	if !m.everBeat() {
		return nil
	}
	m.unconfirm(nil)
	done, err := edit(ctx, m.bucket, func(e storage.Epoch) ([]storage.Member, bool, error) {
		rows, changed := without(e.Members, m.row.ID)
		return rows, changed, nil
	})
	if err != nil {
		return fmt.Errorf("leave members: %w", err)
	}
	// The row goes first: as long as it stands, silence means a crash.
	m.tidy(ctx, done, []string{m.row.ID})
	return nil
}

// SetDraining sets or removes the mark of this node that it owns nothing any more
// and hands over what it has. The new view is published before it returns. A
// [*ReplacedError] says that the newest epoch lacks this node.
func (m *Membership) SetDraining(ctx context.Context, on bool) error {
	done, err := edit(ctx, m.bucket, func(e storage.Epoch) ([]storage.Member, bool, error) {
		rows, changed, found := drained(e.Members, m.row.ID, on)
		if !found {
			return nil, false, &ReplacedError{Epoch: e.N, Members: e.Members}
		}
		return rows, changed, nil
	})
	if err != nil {
		return fmt.Errorf("set draining: %w", err)
	}
	m.saw(done.epoch, done.since)
	m.tidy(ctx, done, nil)
	return nil
}

// tidy deletes the epochs that one has replaced, and heartbeats. What a failure
// leaves behind disturbs nobody; the next edit of the members deletes the epochs.
func (m *Membership) tidy(ctx context.Context, done edited, gone []string) {
	limited, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	err := storage.DeleteEpochs(limited, m.bucket, done.epoch.N, done.replaced)
	for _, id := range gone {
		err = errors.Join(err, storage.DeleteHeartbeat(limited, m.bucket, id))
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("delete what members that are gone have left", "err", err)
	}
}
