//go:build !mutants

package work

// The rule for outputs holds unconditionally. A build with the tag mutants can switch it off,
// to verify that the tests notice.

func waitsForRoom() bool { return true }
