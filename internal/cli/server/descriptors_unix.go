//go:build unix

package server

import (
	"math"
	"syscall"
)

// descriptorLimit returns the soft limit on open file descriptors of this process (RLIMIT_NOFILE). It
// returns 0 if there is none or it cannot be read.
func descriptorLimit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0
	}
	return int(r.Cur)
}
