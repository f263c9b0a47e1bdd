//go:build !mutants

package machine

// What a machine owes the busy journal, and who leaves memory, holds unconditionally. A
// build with the tag mutants can switch a rule off, to show that the simulation notices.

func fencesIdle(claimed bool) bool { return true }
func listsTakeover() bool          { return true }
func holdsWhenListed() bool        { return true }
func unlistsWhenDurable() bool     { return true }
func vouchesForReplay() bool       { return true }
func staysListed() bool            { return true }
func staysAtWork() bool            { return true }
