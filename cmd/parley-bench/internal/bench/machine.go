package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// Machine is what the figures are true of.
type Machine struct {
	CPUs  int    `json:"cpus"`
	Model string `json:"model,omitempty"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

// String is the first line of a table.
func (m Machine) String() string {
	model := ""
	if m.Model != "" {
		model = " of " + m.Model
	}
	return fmt.Sprintf("%d CPUs%s, %s/%s, %s", m.CPUs, model, m.OS, m.Arch, m.Go)
}

// thisMachine describes the machine of this process.
func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	// Where there is no /proc, the model is not known.
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
			m.Model = cpus[0].ModelName
		}
	}
	return m
}

// tick is the unit of times in /proc, whatever the kernel's own is.
const tick = time.Second / 100

// usage is what a process has used so far.
type usage struct {
	cpu    time.Duration
	memory Memory
}

// usageOf reads what the kernel counts for a process. It fails where there is no
// /proc, and for a process that is gone.
func usageOf(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, err
	}
	status, err := p.NewStatus()
	if err == nil && (status.VmRSS == 0 || status.VmHWM == 0 || status.RssAnon == 0) {
		err = errors.New("sizes of memory are missing")
	}
	if err != nil {
		return usage{}, fmt.Errorf("read status of process %d: %w", pid, err)
	}
	return usage{
		cpu:    time.Duration(stat.UTime+stat.STime) * tick,
		memory: Memory{RSS: int64(status.VmRSS), Peak: int64(status.VmHWM), Anonymous: int64(status.RssAnon)},
	}, nil
}

// meter begins to add the processor time of a process to a sum, in seconds. What it returns ends
// that. Nothing is added where the time is not known.
func meter(sum **float64, pid int) (end func()) {
	before, err := usageOf(pid)
	return func() {
		after, gone := usageOf(pid)
		if err != nil || gone != nil {
			return
		}
		if *sum == nil {
			*sum = new(float64)
		}
		**sum += (after.cpu - before.cpu).Seconds()
	}
}
