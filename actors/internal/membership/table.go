package membership

import (
	"slices"
	"strings"

	"github.com/parleyrun/parley/storage"
)

// watchedBy is the number of members that a node checks.
const watchedBy = 3

// entry is the plan of a joining node for the existing rows.
type entry struct {
	kept     []storage.Member // rows to share the bucket with, including the own one if present
	older    []storage.Member // older incarnations at the same node address
	suspects []storage.Member // replaced if they are silent
	present  bool             // the own row exists
}

// enter sorts the existing rows for a joining node. A node that serves alone shares with no other.
func enter(members []storage.Member, row storage.Member) entry {
	var e entry
	for _, m := range members {
		switch {
		case m.ID == row.ID:
			e.present = true
			e.kept = append(e.kept, m)
		case m.Node == "" || row.Node == "":
			e.suspects = append(e.suspects, m)
		case m.Node == row.Node:
			e.older = append(e.older, m)
		default:
			e.kept = append(e.kept, m)
		}
	}
	return e
}

func (e entry) gone() []storage.Member { return slices.Concat(e.older, e.suspects) }

// with returns the rows after the entry, and whether they differ from those before.
func (e entry) with(row storage.Member) ([]storage.Member, bool) {
	if e.present {
		return e.kept, len(e.older)+len(e.suspects) > 0
	}
	return append(slices.Clone(e.kept), row), true
}

// without returns the rows except ids, and whether that makes a difference.
func without(members []storage.Member, ids ...string) ([]storage.Member, bool) {
	rest := slices.DeleteFunc(slices.Clone(members), func(m storage.Member) bool { return slices.Contains(ids, m.ID) })
	return rest, len(rest) < len(members)
}

// drained returns the rows with the draining mark of one member set to on. changed reports a
// difference, found that the member exists.
func drained(members []storage.Member, id string, on bool) (rows []storage.Member, changed, found bool) {
	i := slices.IndexFunc(members, func(m storage.Member) bool { return m.ID == id })
	if i < 0 {
		return members, false, false
	}
	if members[i].Draining == on {
		return members, false, true
	}
	rows = slices.Clone(members)
	rows[i].Draining = on
	return rows, true, true
}

// successors returns the n members after id in the ring of all, by ID. A single node has none.
func successors(members []storage.Member, id string, n int) []storage.Member {
	ring, _ := without(members, id)
	slices.SortFunc(ring, func(a, b storage.Member) int { return strings.Compare(a.ID, b.ID) })
	after := slices.IndexFunc(ring, func(m storage.Member) bool { return m.ID > id })
	if after > 0 {
		ring = slices.Concat(ring[after:], ring[:after])
	}
	return ring[:min(n, len(ring))]
}
