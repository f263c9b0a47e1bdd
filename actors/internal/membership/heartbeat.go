package membership

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// readsAtOnce bounds the concurrent reads of heartbeats.
const readsAtOnce = 32

// heart is the state of a node's heartbeats. One is sent at a time, so that they are stored in order.
// The holder of turn owns the other fields.
type heart struct {
	turn  chan struct{}
	count int64     // number of the newest heartbeat, 0 before the first
	sent  time.Time // its send time
}

func (h *heart) lock()   { h.turn <- struct{}{} }
func (h *heart) unlock() { <-h.turn }

func (m *Membership) beat(ctx context.Context) error {
	m.heart.lock()
	defer m.heart.unlock()
	m.heart.count++
	m.heart.sent = time.Now()
	active, busy := m.opts.Load()
	limited, cancel := context.WithTimeout(ctx, m.opts.requestTimeout())
	defer cancel()
	err := storage.PutHeartbeat(limited, m.bucket, storage.Heartbeat{
		Member: m.row.ID, Count: m.heart.count, At: conversation.TimeOf(m.heart.sent),
		Active: max(active, 0), Busy: max(busy, 0), Reach: m.reach(),
	})
	m.heartbeatSent(m.heart.sent, err, ctx.Err() != nil)
	return err
}

// untilBeat returns the time until the next heartbeat is due.
func (m *Membership) untilBeat() time.Duration {
	m.heart.lock()
	defer m.heart.unlock()
	return time.Until(m.heart.sent.Add(m.opts.Heartbeat))
}

// everBeat reports whether a heartbeat was sent.
func (m *Membership) everBeat() bool {
	m.heart.lock()
	defer m.heart.unlock()
	return m.heart.count > 0
}

// beats sends heartbeats until ctx ends.
func (m *Membership) beats(ctx context.Context) {
	for pause(ctx, m.untilBeat()) {
		if cut, changed := m.cutOff(); cut {
			m.skipBeat(ctx, changed)
			continue
		}
		// recorded; the next heartbeat is the retry
		_ = m.beat(ctx)
	}
}

// cutOff reports whether the row was unconfirmed for longer than Suspect, and returns a channel that
// is closed at the next change. Such a node serves nothing, even if its heartbeats can be stored. It
// stops them so that others take its share.
func (m *Membership) cutOff() (bool, <-chan struct{}) {
	s := &m.standing
	s.Lock()
	defer s.Unlock()
	return !s.confirmed.IsZero() && age(s.confirmed) > m.opts.Suspect, s.changed
}

// skipBeat skips one heartbeat: it waits until the row is confirmed again or the next one is due. The
// skipped one counts as not stored, because this node's observations of others prove nothing either.
func (m *Membership) skipBeat(ctx context.Context, changed <-chan struct{}) {
	m.standing.Lock()
	m.standing.missed++
	m.standing.Unlock()
	t := time.NewTimer(m.opts.Heartbeat)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// beatUntilStored returns once a heartbeat is stored. late reports that it had to be repeated. A
// bucket that accepts no heartbeats silences every node, so silence observed before proves nothing
// then.
func (m *Membership) beatUntilStored(ctx context.Context) (late bool, err error) {
	for ; ; late = true {
		err := m.beat(ctx)
		if err == nil || errors.Is(err, storage.ErrRefused) || !pause(ctx, m.untilBeat()) {
			return late, err
		}
	}
}

// readHeartbeats reads the heartbeats of members. An unreadable heartbeat is an ordinary mark:
// heartbeats are hints, and a corrupt one must neither prevent a start nor keep its node among the
// members.
func readHeartbeats(ctx context.Context, b storage.Bucket, ids []string) []observation {
	observations := make([]observation, len(ids))
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			h, err := storage.ReadHeartbeat(ctx, b, id)
			var corrupt *storage.CorruptError
			switch {
			case err == nil:
				observations[i] = observation{mark: mark(h.Count), beat: h}
			case errors.Is(err, storage.ErrNotFound):
				observations[i].mark = absent
			case errors.As(err, &corrupt):
				observations[i].mark = unreadable
			default:
				observations[i].err = err
			}
			return nil
		})
	}
	_ = g.Wait() // each observation has its own error
	return observations
}

func idsOf(members []storage.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return ids
}

// nodesOf returns the addresses of members: the node address, or else the public one.
func nodesOf(members []storage.Member, ids []string) []string {
	var nodes []string
	for _, m := range members {
		if slices.Contains(ids, m.ID) {
			nodes = append(nodes, cmp.Or(m.Node, m.Address))
		}
	}
	return nodes
}
