//go:build !mutants

package local

// The checks of a folder hold unconditionally. A build with the tag mutants can switch one
// off, to show that the tests notice.

func comparesExtents() bool { return true }
func comparesTables() bool  { return true }
