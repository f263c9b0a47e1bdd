package grain

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// hash64 is FNV-1a 64 (Fowler, Noll, Vo) followed by mix64. FNV alone hardly spreads keys that differ
// only in their last byte, such as the addresses of neighbouring ports.
func hash64(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return mix64(h.Sum64())
}

// mix64 is the finalizer of splitmix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014, with the constants of Vigna's public-domain splitmix64.c.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// score returns the score of a member of this weight for an identity; key and node are their hashes.
// The highest score wins, so a change moves only the share of the changed member (rendezvous hashing:
// Thaler and Ravishankar, 1998). -weight/ln(u) makes the shares proportional to the weights (the
// logarithmic method: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", SPAA 2005).
//
// A logarithm may differ in its last bit between processors. Members then disagree about an identity
// whose two best scores are that close. That is as rare as a hash collision and as harmless as two
// views.
func score(key, node uint64, weight int) float64 {
	// 52.5 bits: the sum is exact, so u is never 0 or 1.
	u := (float64(mix64(key^node)>>12) + 0.5) / (1 << 52)
	return -float64(weight) / math.Log(u)
}

// View is one state of the members; see Options.ViewChanged. It is immutable.
type View struct {
	Members []Member
}

// Owner returns the member that owns id, or false. A member with weight 0 owns nothing. A draining
// member owns identities only if all members with weight drain.
func (v View) Owner(id string) (Member, bool) {
	best := newView(v.Members, time.Time{}).best(id)
	if best.at < 0 {
		return Member{}, false
	}
	return v.Members[best.at], true
}

// choice is the best score so far. Of equal scores the lower address wins.
type choice struct {
	at      int
	address string
	score   float64
}

func (c choice) or(at int, address string, score float64) choice {
	if c.at < 0 || score > c.score || (score == c.score && address < c.address) {
		return choice{at, address, score}
	}
	return c
}

// view is a View with its hashes.
type view struct {
	View
	nodes []node // one per member, in the same order
	since time.Time
	past  []*view // previous views that Release considers, newest first, without their own past
}

type node struct {
	Member
	address string
	hash    uint64
	claims  bool // may own identities in this view
}

func newView(members []Member, since time.Time) *view {
	v := &view{View: View{Members: slices.Clone(members)}, since: since}
	undrained := slices.ContainsFunc(members, Member.owns)
	for _, m := range members {
		claims := m.owns() || !undrained && m.Weight > 0
		v.nodes = append(v.nodes, node{Member: m, address: m.Address(), hash: hash64(m.Address()), claims: claims})
	}
	return v
}

// owner returns the address of View.Owner, or "".
func (v *view) owner(id string) string {
	if len(v.nodes) == 1 && v.nodes[0].claims {
		return v.nodes[0].address
	}
	return v.best(id).address
}

// best returns the best score for id; at is -1 if there is none.
func (v *view) best(id string) choice {
	key, best := hash64(id), choice{at: -1}
	for i, n := range v.nodes {
		if n.claims {
			best = best.or(i, n.address, score(key, n.hash, n.Weight))
		}
	}
	return best
}

// ranked returns the addresses of up to most members other than self, ordered by their score for id
// regardless of draining. If drained is set, only draining members are included.
func (v *view) ranked(id, self string, most int, drained bool) []string {
	key := hash64(id)
	var claims []choice
	for i, n := range v.nodes {
		if n.address != self && (n.Draining || !drained) {
			claims = append(claims, choice{i, n.address, score(key, n.hash, n.Weight)})
		}
	}
	slices.SortFunc(claims, func(a, b choice) int {
		if a.or(b.at, b.address, b.score) == a {
			return -1
		}
		return 1
	})
	addresses := make([]string, 0, most)
	for _, c := range claims[:min(most, len(claims))] {
		addresses = append(addresses, c.address)
	}
	return addresses
}

// mayRun returns the addresses of other members that may still run id. If the view has changed
// recently, these are the members with the best scores and the owners in previous views. Otherwise
// only draining members may.
func (v *view) mayRun(id, self string, settled bool) []string {
	addresses := v.ranked(id, self, maxAsked, settled)
	if settled {
		return addresses
	}
	for _, before := range v.past {
		a := before.owner(id)
		if a != "" && a != self && v.has(a) && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// follow records the view that v replaces, and earlier ones that are not settled.
func (v *view) follow(old *view, settle time.Duration) {
	v.past = append(v.past, &view{View: old.View, nodes: old.nodes, since: old.since})
	until := old.since
	for _, before := range old.past {
		if len(v.past) == maxPast || v.since.Sub(until) >= settle {
			return
		}
		v.past, until = append(v.past, before), before.since
	}
}

func (v *view) has(address string) bool {
	return slices.ContainsFunc(v.nodes, func(n node) bool { return n.address == address })
}

func (v *view) hasID(id string) bool {
	return slices.ContainsFunc(v.nodes, func(n node) bool { return n.ID == id })
}
