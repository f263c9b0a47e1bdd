// Package series numbers objects that replace each other. An example is a journal: it is written whole
// under the next number, and then the object of the previous number is deleted. Packages pending and
// export use it.
//
// An object lands when the bucket acknowledges its write.
//
//  1. A number is used once, and its object never changes.
//  2. A number with an unknown outcome is abandoned: the next write uses a higher one. Its object
//     may still land later.
//  3. A number is deleted only after a higher one has landed.
//
// The package is pure: it allocates and remembers numbers, the caller sends the requests. A Series is
// not safe for concurrent use. Keys contain the incarnation of the node, so a restarted node begins at
// 0 again. Other nodes find the objects of a crashed one by listing.
package series

import "slices"

// MaxReplaced bounds the keys that [Series.Replaced] returns. Older leftovers are found by listing the
// bucket; see [Series.Stale].
const MaxReplaced = 16

// Series holds the numbers of one journal, or of one shard of it. The zero value is not usable; see
// [Begin].
type Series struct {
	Newest int64 // Newest allocated number, -1 for none.
	Landed int64 // Newest landed number, -1 for none.
	Swept  int64 // Lowest number that may still be stored; the caller sets it after deletions.
	Behind bool  // The newest number was abandoned, so another write is due.
}

// Begin returns a series without numbers; the first is 0.
func Begin() Series { return Series{Newest: -1, Landed: -1} }

// Next allocates the next number.
func (s *Series) Next() int64 {
	s.Newest++
	s.Behind = false
	return s.Newest
}

// Land records that the object of number n has landed.
func (s *Series) Land(n int64) { s.Landed = n }

// Abandon abandons the newest number, because the outcome of its write is unknown.
func (s *Series) Abandon() { s.Behind = true }

// Replaced returns the keys of the numbers below n that may still be stored, the newest [MaxReplaced]
// of them. It includes abandoned numbers, because some may have landed.
func (s *Series) Replaced(n int64, key func(int64) string) []string {
	var keys []string
	for k := max(s.Swept, n-MaxReplaced); k < n; k++ {
		keys = append(keys, key(k))
	}
	return keys
}

// Stale filters the listed keys of the series: it returns those below the newest landed number. They
// are leftovers of failed deletions, and abandoned numbers that landed late. Keys must sort like their
// numbers.
func (s *Series) Stale(stored []string, key func(int64) string) []string {
	if s.Landed < 0 {
		return nil
	}
	newest := key(s.Landed)
	return slices.DeleteFunc(slices.Clone(stored), func(k string) bool { return k >= newest })
}
