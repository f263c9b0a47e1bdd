//go:build !unix

package server

// descriptorLimit returns the maximum of open files of the process, 0 for no limit.
func descriptorLimit() int { return 0 }
