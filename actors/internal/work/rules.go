//go:build !mutants

package work

// The rule always holds. A build with the tag mutants can switch it off, to verify that tests detect
// it.

func waitsForRoom() bool { return true }
