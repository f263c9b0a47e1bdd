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

// strayWaits bounds, in multiples of Suspect, the wait of a node that finds no epoch for live nodes to
// end: one for detection, one for their silence, one as reserve.
const strayWaits = 3

// cleanUpTimeout bounds the deletion of obsolete objects.
const cleanUpTimeout = 5 * time.Second

// Membership is this node's row among the members of a bucket. Join, Run and Leave are called in this
// order, one at a time. The other methods may be called at any time.
type Membership struct {
	bucket storage.Bucket
	row    storage.Member // with its full weight
	opts   Options
	log    *slog.Logger

	heart      heart
	standing   standing
	publishing sync.Mutex // held during Publish, so that views stay in order

	replaced edited   // result of Join
	gone     []string // members it replaced
}

// New returns a membership that has not joined. It sends no request. It rejects an invalid row, and
// inconsistent times.
func New(bucket storage.Bucket, self Self, opts *Options) (*Membership, error) {
	o := opts.filled()
	m := &Membership{bucket: bucket, opts: o, log: o.Logger}
	m.heart.turn, m.standing.changed = make(chan struct{}, 1), make(chan struct{})
	if bucket == nil {
		return nil, fmt.Errorf("create membership: %w", errNoBucket)
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("create membership: %w", err)
	}
	var err error
	if m.row, err = self.row(); err != nil {
		return nil, fmt.Errorf("create membership: %w", err)
	}
	return m, nil
}

// Join makes this node a member of the bucket and publishes the first view. A node that shares the
// bucket joins immediately and replaces older incarnations at its node address. If this node or
// another serves alone, Join waits for Suspect, and returns an [*AliveError] if the other one is
// alive. A [*StrayError] reports a live node without any epoch. A [*storage.FormatError] reports that
// a newer version serves the bucket. Other errors are failures of the bucket. After an error Join has
// removed everything of this node that the bucket allowed.
func (m *Membership) Join(ctx context.Context) error {
	err := m.join(ctx)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.Suspect)
	defer cancel()
	if left := m.Leave(undo); left != nil {
		m.log.Warn("cleanup after failed join failed", "member", m.row.ID, "err", left)
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
		if len(plan.suspects) > 0 {
			m.log.Info("waiting for silence of previous nodes", "member", plan.suspects[0].ID,
				"address", plan.suspects[0].Address, "members", len(plan.suspects), "for", m.opts.Suspect)
		}
		if err := m.awaitSilence(ctx, newest.N, plan.suspects); err != nil {
			return nil, false, err
		}
		if !started || len(plan.suspects) > 0 {
			late, err := m.beatUntilStored(ctx)
			if err != nil {
				return nil, false, err
			}
			if !started {
				started = true
				wg.Go(func() { m.beats(beating) })
			}
			if late && len(plan.suspects) > 0 {
				m.log.Info("own heartbeats were delayed; watching again", "member", m.row.ID)
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
		m.log.Info("replaced older incarnation at node address", "member", old.ID, "node", old.Node, "epoch", done.epoch.N)
	}
	for _, old := range plan.suspects {
		m.log.Info("replaced silent node", "member", old.ID, "address", old.Address, "epoch", done.epoch.N)
	}
	m.replaced, m.gone = done, idsOf(plan.gone())
	m.learn(done.epoch, done.since)
	return nil
}

// awaitSilence returns nil once no heartbeat of these members has changed for Suspect, and an
// *AliveError if one does.
func (m *Membership) awaitSilence(ctx context.Context, epoch int64, members []storage.Member) error {
	if len(members) == 0 {
		return nil
	}
	ids, watches, marks := idsOf(members), make([]watch, len(members)), make([]mark, len(members))
	for {
		for i, s := range readHeartbeats(ctx, m.bucket, ids) {
			if s.err != nil {
				return s.err
			}
			marks[i] = s.mark
		}
		switch v, i := combine(watches, marks, m.opts.checks()); v {
		case alive:
			return &AliveError{Member: members[i], Epoch: epoch}
		case dead:
			return nil
		}
		if !pause(ctx, m.opts.checkEvery()) {
			return fmt.Errorf("watch heartbeats: %w", context.Cause(ctx))
		}
	}
}

// awaitStrays returns nil if no node is alive, errAgain once there is an epoch, and a *StrayError if a
// node stays alive without an epoch. A node that finds no epoch is the first, or the epochs were
// deleted while others run. Those detect that and end.
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
			return errAgain // another starting node created it
		case time.Since(began) > strayWaits*m.opts.Suspect:
			return &StrayError{Member: alive.Member.ID}
		}
	}
}

// Leave removes this node from the newest epoch, and removes its heartbeat and the replaced epochs.
// The node is passive from the call on. Neither the other members nor the next start need to wait
// afterwards. Leave sends nothing if Join wrote nothing.
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
	// Remove the row first: while it exists, silence means a crash.
	m.cleanUp(ctx, done, []string{m.row.ID})
	return nil
}

// SetDraining sets or clears the draining mark of this node, which then owns nothing and hands over
// its conversations. The new view is published before it returns. It returns a [*ReplacedError] if the
// newest epoch lacks this node.
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
	m.learn(done.epoch, done.since)
	m.cleanUp(ctx, done, nil)
	return nil
}

// cleanUp deletes replaced epochs, and heartbeats. Leftovers of a failure are harmless; the next edit of
// the members deletes the epochs.
func (m *Membership) cleanUp(ctx context.Context, done edited, gone []string) {
	limited, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	err := storage.DeleteEpochs(limited, m.bucket, done.epoch.N, done.replaced)
	for _, id := range gone {
		err = errors.Join(err, storage.DeleteHeartbeat(limited, m.bucket, id))
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("cleanup of former members failed", "err", err)
	}
}
