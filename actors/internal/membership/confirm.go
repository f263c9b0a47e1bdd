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

// standing is what a node knows about its own row. The times are those of the
// monotonic clock.
type standing struct {
	sync.Mutex
	known     storage.Epoch // Newest one that was seen to hold the row.
	confirmed time.Time     // When the request began that showed the row last; zero is never.
	beat      time.Time     // When the newest stored heartbeat was sent; zero is never.
	missed    int64         // Heartbeats that were not stored.
	gone      int           // Polls in a row that found the known epoch deleted, and none above it.
	lost      error         // This node is no member any more: a *ReplacedError or *GoneError.
	beatErr   error         // Of the last heartbeat.
	pollErr   error         // Of the last poll.
	changed   chan struct{} // Closed when the next confirmation or heartbeat is noted.
}

func (s *standing) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// beaten notes what came of a heartbeat.
func (m *Membership) beaten(sent time.Time, err error, ended bool) {
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

// missed returns how many heartbeats were not stored.
func (m *Membership) missed() int64 {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.missed
}

// known returns the newest epoch that was seen to hold the row.
func (m *Membership) known() storage.Epoch {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.known
}

// saw notes an epoch that holds the row and was the newest one some time after
// since, and publishes it if it is news.
func (m *Membership) saw(e storage.Epoch, since time.Time) {
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

// unconfirm forgets that the row stands: it was seen missing, or is to be removed.
func (m *Membership) unconfirm(lost error) {
	s := &m.standing
	s.Lock()
	defer s.Unlock()
	s.confirmed, s.lost = time.Time{}, lost
	s.notify()
}

// missing notes that a poll found the known epoch deleted and none above it, and returns
// how many have in a row.
func (m *Membership) missing() int {
	m.standing.Lock()
	m.standing.gone++
	n := m.standing.gone
	m.standing.Unlock()
	m.unconfirm(nil)
	return n
}

// Gone reports whether the epochs of the bucket were found deleted: this node is passive,
// and ends unless they come back.
func (m *Membership) Gone() bool {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.gone > 0
}

// Confirmed returns the age of the newest confirmation of the own row: the time
// since the request began that showed it in the newest epoch, or that created that
// epoch. It is computed at the call. Without any it is as long as can be.
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

// Fresh reports whether the row was confirmed within a Heartbeat, so that this
// node may answer as the owner of what the members make it own.
func (m *Membership) Fresh() bool { return m.Confirmed() <= m.opts.Heartbeat }

// Passive reports whether the row, or a stored heartbeat, is older than Fence:
// others may be about to take over, and nothing new should begin.
func (m *Membership) Passive() bool {
	m.standing.Lock()
	defer m.standing.Unlock()
	return m.standing.unconfirmedFor() > m.opts.Fence
}

// unconfirmedFor returns the age of the older one of the newest confirmation and the
// newest stored heartbeat.
func (s *standing) unconfirmedFor() time.Duration { return max(age(s.confirmed), age(s.beat)) }

// AwaitActive returns nil as soon as the node is not passive, a [*ReplacedError] or
// [*GoneError] if it never will be again, and otherwise why ctx ended.
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

// sayPassive logs when the node begins to be passive, and when that ends, until
// ctx does.
func (m *Membership) sayPassive(ctx context.Context) {
	var began time.Time // Zero: it is not passive, as far as was said.
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
			m.log.Warn("cannot confirm that this node is a member, nothing new begins until it can", "member", m.row.ID, "epoch", epoch, "err", err)
		case left >= 0 && !began.IsZero():
			m.log.Info("this node is confirmed as a member again", "member", m.row.ID, "epoch", epoch, "after", time.Since(began), "cause", cause)
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
