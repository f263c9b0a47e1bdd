//go:build !unix

package server

// descriptorLimit is how many files the process may have open, 0 for no limit.
func descriptorLimit() int { return 0 }
