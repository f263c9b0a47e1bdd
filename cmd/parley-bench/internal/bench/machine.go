package bench

import (
	"fmt"
	"runtime"

	"github.com/prometheus/procfs"

	"github.com/parleyrun/parley/internal/proc"
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
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			m.Model = cpus[0].ModelName
		}
	}
	return m
}

// meter begins to add the processor time of a process to a sum, in seconds. What it returns ends
// that. Nothing is added where the time is not known.
func meter(sum **float64, pid int) (end func()) {
	before, err := proc.UsageOf(pid)
	return func() {
		after, gone := proc.UsageOf(pid)
		if err != nil || gone != nil {
			return
		}
		if *sum == nil {
			*sum = new(float64)
		}
		**sum += (after.CPU - before.CPU).Seconds()
	}
}
