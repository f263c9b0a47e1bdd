//go:build !unix

package server

// descriptorLimit returns 0, no known limit, because this system has no RLIMIT_NOFILE.
func descriptorLimit() int { return 0 }
