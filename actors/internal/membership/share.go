package membership

import (
	"context"
	"slices"

	"github.com/parleyrun/parley/storage"
)

// A node has its share of the conversations while its row has its weight. It enters without a weight
// if others have one, and takes it when more than half of those answer. It returns it when more than
// half of the members do not answer and one of them reaches more members. So a node that no other
// reaches owns nothing, and of two parts of a cluster the larger one continues. If no part is larger,
// all keep their shares. Each node decides about its own row from its own requests, because an answer
// proves both directions. Heartbeats contain what others reach; only a node that is cut off reads
// that.
//
// A row without its weight has weight 0 and the future weight in "wants". A version that does not know
// "wants", and drops it in an edit, gives that node nothing either. Only a node itself changes its
// weight.

// answers is the set of members that answer a node, including itself.
type answers map[string]bool

func (m *Membership) answers() answers {
	a := answers{m.row.ID: true}
	for _, id := range m.opts.Reached() {
		a[id] = true
	}
	return a
}

// of counts the members with a weight, or all, and those of them that answer.
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

// mayTake reports whether a member with weight 0 may take its weight: no member has one, or more than
// half of those with one answer.
func (a answers) mayTake(members []storage.Member) bool {
	reached, total := a.of(members, false)
	return total == 0 || 2*reached > total
}

// cutOff reports whether more than half of the members do not answer.
func (a answers) cutOff(members []storage.Member) bool {
	reached, total := a.of(members, true)
	return 2*reached < total
}

// entering returns the row of a node that joins these members.
func (m *Membership) entering(kept []storage.Member) storage.Member {
	row := m.row
	if m.opts.Reached != nil && slices.ContainsFunc(kept, func(k storage.Member) bool { return k.Weight > 0 }) {
		row.Weight, row.Wants = 0, row.Weight
	}
	return row
}

// weighed returns the rows with a changed weight of one member; wants is its full weight. changed
// reports a difference, found that the member exists.
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

// reach returns the reachability of the other members for the heartbeat.
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

// share is the state between the checks of a node's answers. Time is counted in checks, as for
// heartbeats.
type share struct {
	lost  bool            // the node returned its share
	good  int             // consecutive checks at which it could take it
	cut   int             // consecutive checks at which it was cut off
	late  int             // checks since the start at which it could not take its first share
	beats map[string]mark // last heartbeats of the members without an answer
}

// keepShare takes and returns this node's share as others answer it, until ctx ends.
func (m *Membership) keepShare(ctx context.Context) {
	if m.opts.Reached == nil || m.row.Weight == 0 {
		return
	}
	var s share
	for pause(ctx, m.opts.checkEvery()) {
		members, a := m.known().Members, m.answers()
		i := slices.IndexFunc(members, func(row storage.Member) bool { return row.ID == m.row.ID })
		switch {
		case i < 0 || m.Passive():
			s.good, s.cut = 0, 0
		case members[i].Weight == 0:
			if s.takes(a.mayTake(members), m.opts.checks()) {
				m.setShare(ctx, m.row.Weight)
			} else if !s.lost {
				m.reportUnreached(&s, members, a)
			}
		case s.asksOthers(a.cutOff(members), m.opts.checks()) && s.outvoted(m.readSilent(ctx, members, a), m.row.ID, len(a)):
			m.setShare(ctx, 0)
			s = share{lost: true}
		}
	}
}

// takes reports whether a node takes its share: immediately the first time, and after Suspect once it
// had returned it, so that flapping links do not move conversations.
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
	if s.late++; s.late != m.opts.checks() {
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

// asksOthers reports whether a node that is cut off reads what the others reach: at the beginning, and
// once per Suspect.
func (s *share) asksOthers(cut bool, enough int) bool {
	if !cut {
		s.cut, s.beats = 0, nil
		return false
	}
	s.cut++
	return (s.cut-1)%enough == 0
}

// readSilent reads the heartbeats of the members that do not answer.
func (m *Membership) readSilent(ctx context.Context, members []storage.Member, a answers) []observation {
	var ids []string
	for _, other := range members {
		if !a[other.ID] {
			ids = append(ids, other.ID)
		}
	}
	return m.readInTime(ctx, ids)
}

// outvoted reports whether one of these members is alive, does not reach this node either, and reaches
// more members than own. own includes the node itself. A member counts once its heartbeat has changed.
func (s *share) outvoted(observations []observation, self string, own int) bool {
	before := s.beats
	s.beats = make(map[string]mark, len(observations))
	for _, seen := range observations {
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

// setShare changes the weight of this node's row, if the newest members still justify it. After a
// failure the next check retries.
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
		m.log.Warn("change of share failed; retrying", "member", m.row.ID, "weight", weight, "err", err)
	case err != nil || len(done.replaced) == 0:
	case weight == 0:
		m.log.Warn("returned share; most members unreachable", "member", m.row.ID, "epoch", done.epoch.N,
			"remedy", "check the network, the certificate and the advertised address")
	default:
		m.log.Info("took share; most members reachable", "member", m.row.ID, "epoch", done.epoch.N, "weight", weight)
	}
	if err == nil && done.epoch.Has(m.row.ID) {
		m.learn(done.epoch, done.since)
		m.cleanUp(ctx, done, nil)
	}
}
