package membership

import (
	"context"
	"slices"

	"github.com/parleyrun/parley/storage"
)

// A node has its share of the conversations while its row has its weight. It enters
// without one if others have theirs, takes it when more than half of those answer it,
// and gives it up when more than half of the members do not answer it and one of them
// reaches more members than it does. So one that nobody reaches owns nothing, of two
// parts of a cluster the larger one goes on, and where no part is larger than another
// all stay as they are. Each node decides about its own row, from its own requests:
// an answer takes the way in both directions. What others reach is in their heartbeats,
// which only a node that is cut off reads for it.
//
// A row without its weight has 0, and "wants" says what it will be: a version that does
// not know the latter, and drops it when it edits the members, gives that node nothing
// either. Nobody but the node itself changes its weight.

// answers says which members answer a node, itself included.
type answers map[string]bool

func (m *Membership) answers() answers {
	a := answers{m.row.ID: true}
	for _, id := range m.opts.Reached() {
		a[id] = true
	}
	return a
}

// of counts the members with a share, or all of them, and those of them that answer.
func (a answers) of(members []storage.Member, all bool) (reached, total int) {
	for _, m := range members {
		if !all && m.Weight == 0 {
			continue
		}
		total++
		if a[m.ID] {
			reached++
		}
	}
	return reached, total
}

// mayTake reports whether a member without a share may take it: nobody else has one,
// or more than half of those that have answer.
func (a answers) mayTake(members []storage.Member) bool {
	reached, total := a.of(members, false)
	return total == 0 || 2*reached > total
}

// cutOff reports whether more than half of the members do not answer.
func (a answers) cutOff(members []storage.Member) bool {
	reached, total := a.of(members, true)
	return 2*reached < total
}

// entering returns the row of a node that joins beside these members.
func (m *Membership) entering(kept []storage.Member) storage.Member {
	row := m.row
	if m.opts.Reached != nil && slices.ContainsFunc(kept, func(k storage.Member) bool { return k.Weight > 0 }) {
		row.Weight, row.Wants = 0, row.Weight
	}
	return row
}

// weighed returns the rows with the weight of one member, of which wants is what it is
// to have, and whether that makes a difference. found says that it stands there.
func weighed(members []storage.Member, id string, weight, wants int) (rows []storage.Member, changed, found bool) {
	i := slices.IndexFunc(members, func(m storage.Member) bool { return m.ID == id })
	if i < 0 {
		return members, false, false
	}
	if members[i].Weight == weight {
		return members, false, true
	}
	rows = slices.Clone(members)
	rows[i].Weight, rows[i].Wants = weight, wants-weight
	return rows, true, true
}

// reach is what a node's heartbeat says about the other members.
func (m *Membership) reach() *storage.Reach {
	if m.opts.Reached == nil {
		return nil
	}
	a, r := m.answers(), &storage.Reach{}
	for _, other := range m.known().Members {
		switch {
		case other.ID == m.row.ID:
		case a[other.ID]:
			r.Reached++
		case len(r.Missing) < storage.MaxMissing:
			r.Missing = append(r.Missing, other.ID)
		}
	}
	return r
}

// share is what a node notes between its looks at who answers. Looks are the time, as
// for a heartbeat.
type share struct {
	lost  bool            // It has given its share up.
	good  int             // Looks in a row at which it could take it.
	cut   int             // Looks in a row at which it was cut off.
	late  int             // Looks since it joined at which it could not take its first share.
	beats map[string]mark // Of those that did not answer, when they were read last.
}

// keepShare takes and gives up this node's share as others answer it, until ctx ends.
func (m *Membership) keepShare(ctx context.Context) {
	if m.opts.Reached == nil || m.row.Weight == 0 {
		return
	}
	var s share
	for pause(ctx, m.opts.lookEvery()) {
		members, a := m.known().Members, m.answers()
		i := slices.IndexFunc(members, func(row storage.Member) bool { return row.ID == m.row.ID })
		switch {
		case i < 0 || m.Passive():
			s.good, s.cut = 0, 0
		case members[i].Weight == 0:
			if s.takes(a.mayTake(members), m.opts.looks()) {
				m.setShare(ctx, m.row.Weight)
			} else if !s.lost {
				m.reportUnreached(&s, members, a)
			}
		case s.looksAround(a.cutOff(members), m.opts.looks()) && s.outvoted(m.glimpse(ctx, members, a), m.row.ID, len(a)):
			m.setShare(ctx, 0)
			s = share{lost: true}
		}
	}
}

// takes reports whether a node without a share is to take it: at once the first time,
// and after the time of suspicion once it had given it up, so that links that come and
// go do not move conversations.
func (s *share) takes(may bool, enough int) bool {
	if !may {
		s.good = 0
		return false
	}
	s.good++
	return !s.lost || s.good > enough
}

// reportUnreached logs once, after the time of suspicion, that a new member has no share because most owners do not answer.
func (m *Membership) reportUnreached(s *share, members []storage.Member, a answers) {
	if s.late++; s.late != m.opts.looks() {
		return
	}
	var unreached []string
	for _, other := range members {
		if !a[other.ID] {
			unreached = append(unreached, other.Node)
		}
	}
	m.log.Warn("members do not answer this node", "member", m.row.ID, "node", m.row.Node, "unreached", unreached,
		"consequence", "it owns no conversations until most members answer",
		"remedy", "check the network, its certificate and the address at which others dial it")
}

// looksAround reports whether a node that is cut off is to ask what the others reach:
// when it begins, and each time that the time of suspicion has passed.
func (s *share) looksAround(cut bool, enough int) bool {
	if !cut {
		s.cut, s.beats = 0, nil
		return false
	}
	s.cut++
	return (s.cut-1)%enough == 0
}

// glimpse reads the heartbeats of the members that do not answer.
func (m *Membership) glimpse(ctx context.Context, members []storage.Member, a answers) []sight {
	var ids []string
	for _, other := range members {
		if !a[other.ID] {
			ids = append(ids, other.ID)
		}
	}
	return m.glance(ctx, ids)
}

// outvoted reports whether one of these members lives, does not reach this node either,
// and reaches more members than the own number, which counts the node itself. What a
// member says counts once its heartbeat has changed.
func (s *share) outvoted(sights []sight, self string, own int) bool {
	before := s.beats
	s.beats = make(map[string]mark, len(sights))
	for _, seen := range sights {
		b := seen.beat
		if b.Member == "" {
			continue
		}
		s.beats[b.Member] = seen.mark
		last, ok := before[b.Member]
		if ok && last != seen.mark && b.Reach != nil && slices.Contains(b.Reach.Missing, self) && b.Reach.Reached+1 > own {
			return true
		}
	}
	return false
}

// setShare gives this node's row a weight, if the newest members still ask for it. What
// goes wrong is tried again with the next look.
func (m *Membership) setShare(ctx context.Context, weight int) {
	limited, cancel := context.WithTimeout(ctx, m.opts.Fence)
	defer cancel()
	done, err := edit(limited, m.bucket, func(newest storage.Epoch) ([]storage.Member, bool, error) {
		a := m.answers()
		if weight > 0 && !a.mayTake(newest.Members) || weight == 0 && !a.cutOff(newest.Members) {
			return newest.Members, false, nil
		}
		rows, changed, found := weighed(newest.Members, m.row.ID, weight, m.row.Weight)
		if !found {
			return nil, false, &ReplacedError{Epoch: newest.N, Members: newest.Members}
		}
		return rows, changed, nil
	})
	switch {
	case err != nil && ctx.Err() == nil:
		m.log.Warn("change the share of this node, try again", "member", m.row.ID, "weight", weight, "err", err)
	case err != nil || len(done.replaced) == 0:
	case weight == 0:
		m.log.Warn("most members do not answer this node and reach each other: it owns nothing until they do; check the network, "+
			"its certificate and the address at which others dial it", "member", m.row.ID, "epoch", done.epoch.N)
	default:
		m.log.Info("most members with a share answer: this node takes its own", "member", m.row.ID, "epoch", done.epoch.N, "weight", weight)
	}
	if err == nil && done.epoch.Has(m.row.ID) {
		m.saw(done.epoch, done.since)
		m.tidy(ctx, done, nil)
	}
}
