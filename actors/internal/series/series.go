// Package series allocates numbers for objects that replace each other: journals, each written whole
// under the next number. Packages pending and export use it.
//
//  1. A number is used once, and its object never changes.
//  2. A number with an unknown outcome is abandoned: nothing depends on it, and it may land later.
//  3. A number is deleted only after a higher one has landed.
//
// The package is pure. The user of a Series guards it. After a crash the numbers are in the bucket,
// under the incarnation that used them.
package series

import "slices"

// MaxReplaced bounds the replaced numbers that are deleted by name. A scan, which lists the objects,
// finds older ones.
const MaxReplaced = 16

// Series holds the numbers of one journal, or of one shard of it. Use Begin.
type Series struct {
	Newest int64 // Newest used number, -1 for none.
	Landed int64 // Newest landed number, -1 for none.
	Swept  int64 // Numbers below it need no deletion.
	Behind bool  // The newest number was abandoned.
}

// Begin returns an unused series.
func Begin() Series { return Series{Newest: -1, Landed: -1} }

// Next allocates the next number.
func (s *Series) Next() int64 {
	s.Newest++
	s.Behind = false
	return s.Newest
}

// Land records that a number has landed.
func (s *Series) Land(n int64) { s.Landed = n }

// LeaveBehind abandons the newest number, whose outcome is unknown.
func (s *Series) LeaveBehind() { s.Behind = true }

// Replaced returns the keys of numbers below n that may be stored, at most [MaxReplaced]. They include
// abandoned numbers, some of which may have landed.
func (s *Series) Replaced(n int64, key func(int64) string) []string {
	var keys []string
	for k := max(s.Swept, n-MaxReplaced); k < n; k++ {
		keys = append(keys, key(k))
	}
	return keys
}

// Stale returns the stored keys that are older than the newest landed number: leftovers of failed
// deletions, and abandoned numbers that landed late. Keys sort like their numbers.
func (s *Series) Stale(stored []string, key func(int64) string) []string {
	if s.Landed < 0 {
		return nil
	}
	newest := key(s.Landed)
	return slices.DeleteFunc(slices.Clone(stored), func(k string) bool { return k >= newest })
}
