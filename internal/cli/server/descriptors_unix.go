//go:build unix

package server

import (
	"math"
	"syscall"
)

// descriptorLimit returns the maximum of open files of the process, 0 for no limit.
func descriptorLimit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0
	}
	return int(r.Cur)
}
