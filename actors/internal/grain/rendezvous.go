package grain

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// hash64 is FNV-1a 64 (Fowler, Noll, Vo) followed by mix64. FNV alone hardly spreads keys that differ
// in their last byte only, such as the addresses of neighbouring ports.
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

// score is how much a member of this weight claims an identity, key and node being their hashes. The
// highest claim wins, so a member that comes or goes moves only its own share (rendezvous hashing:
// Thaler and Ravishankar, 1998), and -weight/ln(u) makes the shares proportional to the weights (the
// logarithmic method: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", SPAA 2005).
//
// A logarithm may differ in its last bit between processors. Members then disagree about an identity
// whose two best claims are that close, which is as rare as a collision and as harmless as two views.
func score(key, node uint64, weight int) float64 {
	// 52 bits and a half: the sum is exact, so u is never 0 or 1.
	u := (float64(mix64(key^node)>>12) + 0.5) / (1 << 52)
	return -float64(weight) / math.Log(u)
}

// View is one picture of the members; see Options.ViewChanged. It is not changed after it was given out.
type View struct {
	Members []Member
}

// Owner is the member that id belongs to, and false if there is none: one without weight owns nothing,
// and one that drains only if all that have weight do. Somebody has to.
func (v View) Owner(id string) (Member, bool) {
	best := newView(v.Members, time.Time{}).best(id)
	if best.at < 0 {
		return Member{}, false
	}
	return v.Members[best.at], true
}

// choice is the best claim so far. Of equal claims the lower address wins.
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
	nodes []node // one for each member, in their order
	since time.Time
	past  []*view // those before it that Release still heeds, newest first, without theirs
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

// owner is the address of View.Owner, "" if there is none.
func (v *view) owner(id string) string {
	if len(v.nodes) == 1 && v.nodes[0].claims {
		return v.nodes[0].address
	}
	return v.best(id).address
}

// best is the best claim on id; at is -1 if there is none.
func (v *view) best(id string) choice {
	key, best := hash64(id), choice{at: -1}
	for i, n := range v.nodes {
		if n.claims {
			best = best.or(i, n.address, score(key, n.hash, n.Weight))
		}
	}
	return best
}

// ranked are the addresses of at most most members other than the one at self, those first that would
// own id if nobody was draining; with drained, of those that are draining.
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

// mayRun are the addresses of members other than the one at self that may still run id: in a view that
// has changed lately those with the best claims and whoever it belonged to in the views before,
// otherwise those that are draining.
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

// follow notes the view that v replaces and those before it, as far as they are not settled.
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
