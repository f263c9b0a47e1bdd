package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// Run sends heartbeats, confirms the row, publishes new views and expels crashed members until ctx
// ends. Then it returns nil. It returns a [*ReplacedError] as soon as the newest epoch lacks this
// node. It returns a [*GoneError] if the epochs were deleted and have not reappeared for Suspect.
func (m *Membership) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.beats(ctx) })
	wg.Go(func() { m.logPassive(ctx) })
	wg.Go(func() { m.watchOthers(ctx) })
	wg.Go(func() { m.keepShare(ctx) })
	wg.Go(func() { m.cleanUp(ctx, m.replaced, m.gone) })
	err := m.polls(ctx)
	cancel()
	wg.Wait()
	if err != nil {
		return fmt.Errorf("stay a member: %w", err)
	}
	return nil
}

// polls returns when a newer epoch lacks this node, or ctx ends.
func (m *Membership) polls(ctx context.Context) error {
	m.standing.Lock()
	began := m.standing.confirmed
	m.standing.Unlock()
	for pause(ctx, time.Until(began.Add(m.opts.checkEvery()))) {
		began = time.Now()
		if err := m.poll(ctx, began); err != nil {
			return err
		}
	}
	return nil
}

// poll reads the known epoch and newer ones. It returns only a *ReplacedError or a *GoneError.
func (m *Membership) poll(ctx context.Context, began time.Time) error {
	limited, cancel := context.WithTimeout(ctx, m.opts.requestTimeout())
	defer cancel()
	e := m.known()
	newer, exists, err := storage.ConfirmEpoch(limited, m.bucket, e.N)
	if err != nil {
		m.standing.Lock()
		defer m.standing.Unlock()
		m.standing.pollErr = err
		return nil
	}
	if !exists {
		gone := &GoneError{Epoch: e.N}
		switch n := m.missing(); {
		case n > m.opts.checks():
			m.unconfirm(gone)
			return gone
		case n == 1:
			m.log.Error("membership epochs deleted; node is passive", "member", m.row.ID, "epoch", e.N,
				"remedy", "start all nodes again; never delete members/ of the bucket while a node runs")
		}
		return nil
	}
	if newer.N > 0 {
		e = newer
	}
	if !e.Has(m.row.ID) {
		lost := &ReplacedError{Epoch: e.N, Members: e.Members}
		m.unconfirm(lost)
		return lost
	}
	m.learn(e, began)
	return nil
}

// watchOthers checks the members after this one and expels crashed ones until ctx ends.
func (m *Membership) watchOthers(ctx context.Context) {
	var r ring
	var wg sync.WaitGroup // counts the running cleanups
	defer wg.Wait()
	for pause(ctx, m.opts.checkEvery()) {
		ids := idsOf(successors(m.known().Members, m.row.ID, watchedBy))
		observations := m.readInTime(ctx, ids)
		gone := r.observe(ids, observations, m.missed(), m.opts.checks())
		if len(gone) == 0 || ctx.Err() != nil {
			continue
		}
		done, err := m.expel(ctx, &r, gone)
		var aborted *expelAbortedError
		switch {
		case errors.As(err, &aborted), ctx.Err() != nil:
		case err != nil:
			m.log.Warn("expel members failed; retrying", "members", gone, "nodes", nodesOf(m.known().Members, gone), "err", err)
		case len(done.replaced) > 0:
			wg.Go(func() { m.cleanUp(ctx, done, gone) })
		}
	}
}

// readInTime is readHeartbeats bounded by a Heartbeat.
func (m *Membership) readInTime(ctx context.Context, ids []string) []observation {
	limited, cancel := context.WithTimeout(ctx, m.opts.Heartbeat)
	defer cancel()
	return readHeartbeats(limited, m.bucket, ids)
}

// expelAbortedError reports why silent members are not expelled.
type expelAbortedError struct{ why string }

// Error implements error.
func (e *expelAbortedError) Error() string { return e.why }

// expel removes members from the newest epoch, if they are still silent after a heartbeat of this node
// is stored, and after every lost race. It is bounded by Fence, because the decision becomes stale.
func (m *Membership) expel(ctx context.Context, r *ring, gone []string) (edited, error) {
	limited, cancel := context.WithTimeout(ctx, m.opts.Fence)
	defer cancel()
	if err := m.beat(limited); err != nil {
		return edited{}, &expelAbortedError{"own heartbeat was not stored"}
	}
	done, err := edit(limited, m.bucket, func(newest storage.Epoch) ([]storage.Member, bool, error) {
		observations := m.readInTime(limited, gone)
		for i, id := range gone {
			if !r.still(id, observations[i]) {
				return nil, false, &expelAbortedError{"heartbeat of member " + id + " changed"}
			}
		}
		switch {
		case m.missed() != r.missed:
			return nil, false, &expelAbortedError{"own heartbeats were not stored"}
		case m.Passive():
			return nil, false, &expelAbortedError{"this node is passive"}
		case !newest.Has(m.row.ID):
			return nil, false, &expelAbortedError{"this node is replaced"}
		}
		rows, changed := without(newest.Members, gone...)
		return rows, changed, nil
	})
	if err != nil {
		return edited{}, err
	}
	nodes := nodesOf(m.known().Members, gone)
	m.learn(done.epoch, done.since)
	if len(done.replaced) > 0 {
		m.log.Warn("expelled silent members",
			"members", slices.Clone(gone), "nodes", nodes, "epoch", done.epoch.N, "for", m.opts.Suspect)
	}
	return done, nil
}
