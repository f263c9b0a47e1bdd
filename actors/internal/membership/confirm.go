package membership

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// standing is the confirmation state of a node's own row. Times are monotonic.
type standing struct {
	sync.Mutex
	known     storage.Epoch // newest epoch seen with the row
	confirmed time.Time     // start of the last request that showed the row; zero is never
	beat      time.Time     // send time of the newest stored heartbeat; zero is never
	missed    int64         // heartbeats that were not stored
	gone      int           // consecutive polls that found the known epoch deleted and none above it
	lost      error         // no longer a member: a *ReplacedError or *GoneError
	beatErr   error         // error of the last heartbeat
	pollErr   error         // error of the last poll
	changed   chan struct{} // closed at the next confirmation or heartbeat
}

func (s *standing) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (m *Membership) heartbeatSent(sent time.Time, err error, ended bool) {
	s := &m.standing
	s.Lock()
	defer s.Unlock()
	switch {
	case err == nil:
		s.beat, s.beatErr = sent, nil
		s.notify()
	case !ended:
		s.beatErr = err
		s.missed++
	}
}

// missed returns the number of heartbeats that were not stored.
func (m *Membership) missed() int64 {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.missed
}

// known returns the newest epoch seen with the row.
func (m *Membership) known() storage.Epoch {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.known
}

// learn records an epoch with the row that was the newest at some time after since, and publishes it if
// it is new.
func (m *Membership) learn(e storage.Epoch, since time.Time) {
	m.publishing.Lock()
	defer m.publishing.Unlock()
	if m.confirm(e, since) {
		m.opts.Publish(View{Epoch: e.N, Members: slices.Clone(e.Members)})
	}
}

func (m *Membership) confirm(e storage.Epoch, since time.Time) (news bool) {
	s := &m.standing
	s.Lock()
	defer s.Unlock()
	if s.lost != nil {
		return false
	}
	if since.After(s.confirmed) {
		s.confirmed = since
	}
	s.gone = 0
	if news = e.N > s.known.N; news {
		s.known = e
	}
	s.pollErr = nil
	s.notify()
	return news
}

// unconfirm clears the confirmation: the row was seen missing, or is about to be removed.
func (m *Membership) unconfirm(lost error) {
	s := &m.standing
	s.Lock()
	defer s.Unlock()
	s.confirmed, s.lost = time.Time{}, lost
	s.notify()
}

// missing records a poll that found the known epoch deleted and none above it. It returns the number
// of such polls in a row.
func (m *Membership) missing() int {
	m.standing.Lock()
	m.standing.gone++
	n := m.standing.gone
	m.standing.Unlock()
	m.unconfirm(nil)
	return n
}

// Gone reports whether the bucket's epochs were found deleted. The node is then passive, and ends
// unless they reappear.
func (m *Membership) Gone() bool {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.gone > 0
}

// Confirmed returns the age of the newest confirmation of the own row: the time since the start of the
// request that showed it in the newest epoch, or that created that epoch. It is computed at each call.
// Without a confirmation it is the maximum.
func (m *Membership) Confirmed() time.Duration {
	m.standing.Lock()
	defer m.standing.Unlock()
	return age(m.standing.confirmed)
}

func age(t time.Time) time.Duration {
	if t.IsZero() {
		return math.MaxInt64
	}
	return time.Since(t)
}

// Fresh reports whether the row was confirmed within a Heartbeat, so that this node may answer as the
// owner of its conversations.
func (m *Membership) Fresh() bool { return m.Confirmed() <= m.opts.Heartbeat }

// Passive reports whether the confirmation of the row, or the stored heartbeat, is older than Fence.
// Others may be about to take over, and no new work may begin.
func (m *Membership) Passive() bool {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.unconfirmedFor() > m.opts.Fence
}

// unconfirmedFor returns the age of the newest confirmation or of the newest stored heartbeat,
// whichever is older.
func (s *standing) unconfirmedFor() time.Duration { return max(age(s.confirmed), age(s.beat)) }

// AwaitActive returns nil as soon as the node is not passive. It returns a [*ReplacedError] or
// [*GoneError] if it never will be active again, and otherwise the cause of ctx's end.
func (m *Membership) AwaitActive(ctx context.Context) error {
	for {
		m.standing.Lock()
		passive, lost, changed := m.standing.unconfirmedFor() > m.opts.Fence, m.standing.lost, m.standing.changed
		m.standing.Unlock()
		switch {
		case !passive:
			return nil
		case lost != nil:
			return lost
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// logPassive logs the start and the end of each passive period until ctx ends.
func (m *Membership) logPassive(ctx context.Context) {
	var began time.Time // start of the logged passive period; zero is none
	var cause error
	s := &m.standing
	for {
		s.Lock()
		left, epoch, lost, changed := m.opts.Fence-s.unconfirmedFor(), s.known.N, s.lost, s.changed
		err := errors.Join(s.pollErr, s.beatErr)
		s.Unlock()
		switch {
		case left < 0 && began.IsZero() && lost == nil:
			began, cause = time.Now(), err
			m.log.Warn("membership unconfirmed; node is passive", "member", m.row.ID, "epoch", epoch, "err", err)
		case left >= 0 && !began.IsZero():
			m.log.Info("membership confirmed again", "member", m.row.ID, "epoch", epoch, "after", time.Since(began), "cause", cause)
			began = time.Time{}
		}
		var timer <-chan time.Time
		if left >= 0 {
			timer, changed = time.After(left+1), nil
		}
		select {
		case <-timer:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
