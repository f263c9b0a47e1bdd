package proc

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Memory is the memory of a process in bytes, as counted by the kernel.
type Memory struct {
	RSS       int64 `json:"rss"`
	Peak      int64 `json:"peak"`
	Anonymous int64 `json:"anonymous"` // Part of RSS without a file.
}

// Usage is the resource usage of a process so far.
type Usage struct {
	CPU    time.Duration // User and system time.
	Memory Memory
}

// tick is the unit of times in /proc, independent of the kernel's own.
const tick = time.Second / 100

// UsageOf reads the usage of a process from /proc. It fails without /proc, and for a process that has
// ended.
func UsageOf(pid int) (u Usage, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, err
	}
	stat, err := p.Stat()
	if err != nil {
		return u, err
	}
	status, err := p.NewStatus()
	if err != nil {
		return u, err
	}
	u.CPU = time.Duration(stat.UTime+stat.STime) * tick
	u.Memory = Memory{RSS: int64(status.VmRSS), Peak: int64(status.VmHWM), Anonymous: int64(status.RssAnon)}
	if u.Memory.RSS == 0 || u.Memory.Peak == 0 || u.Memory.Anonymous == 0 {
		return u, fmt.Errorf("process %d has no memory", pid)
	}
	return u, nil
}
