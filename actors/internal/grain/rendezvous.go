package grain

import (
	"hash/fnv"

	"github.com/asynkron/protoactor-go/cluster"
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

// view is one immutable picture of the members that run the kind.
type view struct {
	nodes []node
}

type node struct {
	address string
	hash    uint64
}

func newView(members []*cluster.Member, kind string) *view {
	v := &view{nodes: make([]node, 0, len(members))}
	for _, m := range members {
		if m.HasKind(kind) {
			v.nodes = append(v.nodes, node{address: m.Address(), hash: hash64(m.Address())})
		}
	}
	return v
}

// owner is the address with the highest weight for id (rendezvous hashing: Thaler and Ravishankar,
// 1998), so a member that comes or goes moves only its own share. It is "" when there is no member.
func (v *view) owner(id string) string {
	key := hash64(id)
	var best string
	var top uint64
	for _, n := range v.nodes {
		w := mix64(key ^ n.hash)
		if best == "" || w > top || (w == top && n.address < best) {
			best, top = n.address, w
		}
	}
	return best
}

func (v *view) has(address string) bool {
	for _, n := range v.nodes {
		if n.address == address {
			return true
		}
	}
	return false
}
