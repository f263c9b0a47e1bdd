//go:build !unix

package main

// descriptorLimit is how many files the process may have open, 0 for no limit.
func descriptorLimit() int { return 0 }
