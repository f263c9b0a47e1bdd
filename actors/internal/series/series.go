// Package series numbers objects of which each replaces the one before: journals, which are
// written whole under the next number. Packages busy and export keep theirs by it.
//
//  1. A number is taken once, and the object under it never gets other bytes.
//  2. A number whose outcome stays unknown is left behind for the next: nothing rests on it,
//     and it may land later.
//  3. A number is deleted only after a higher one has landed.
//
// It is pure: who uses a Series guards it. After a crash the numbers are in the bucket, under
// the incarnation that took them.
package series

import "slices"

// MaxReplaced bounds how many replaced numbers are deleted by name. What is older a sweep
// finds, which lists what is there.
const MaxReplaced = 16

// Series is the numbers of one journal, or of one shard of it. Use Begin.
type Series struct {
	Newest int64 // That was taken, -1 if none was.
	Landed int64 // The newest that has landed, -1 if none has.
	Swept  int64 // Numbers below it need no deletion.
	Behind bool  // The newest was left behind.
}

// Begin returns a series of which no number is taken.
func Begin() Series { return Series{Newest: -1, Landed: -1} }

// Next takes the next number.
func (s *Series) Next() int64 {
	s.Newest++
	s.Behind = false
	return s.Newest
}

// Land notes that a number has landed.
func (s *Series) Land(n int64) { s.Landed = n }

// LeaveBehind gives up the newest number, whose outcome is unknown.
func (s *Series) LeaveBehind() { s.Behind = true }

// Replaced returns the keys of the numbers below n that may be stored, at most
// [MaxReplaced]. Numbers that were left behind are among them: some of their attempts may
// have landed.
func (s *Series) Replaced(n int64, key func(int64) string) []string {
	var keys []string
	for k := max(s.Swept, n-MaxReplaced); k < n; k++ {
		keys = append(keys, key(k))
	}
	return keys
}

// Stale returns those of the stored keys that are older than the newest landed number: what
// a failed deletion has left, and numbers that were left behind and landed late. Keys sort
// as their numbers do.
func (s *Series) Stale(stored []string, key func(int64) string) []string {
	if s.Landed < 0 {
		return nil
	}
	newest := key(s.Landed)
	return slices.DeleteFunc(slices.Clone(stored), func(k string) bool { return k >= newest })
}
