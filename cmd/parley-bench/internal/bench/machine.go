package bench

import (
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"

	"github.com/parleyrun/parley/internal/proc"
)

// Machine describes the machine of a run.
type Machine struct {
	CPUs  int    `json:"cpus"`
	Model string `json:"model,omitempty"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

func (m Machine) String() string {
	model := ""
	if m.Model != "" {
		model = " of " + m.Model
	}
	return fmt.Sprintf("%d CPUs%s, %s/%s, %s", m.CPUs, model, m.OS, m.Arch, m.Go)
}

func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	// Without /proc the model stays unknown.
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			m.Model = cpus[0].ModelName
		}
	}
	return m
}

// metered adds the duration of run, in seconds, to the scenario, and the processor time of each
// process to its sum, where it is known. It returns the duration.
func (s *Scenario) metered(pids map[**float64]int, run func() error) (seconds float64, err error) {
	before := map[**float64]proc.Usage{}
	for sum, pid := range pids {
		if u, err := proc.UsageOf(pid); err == nil {
			before[sum] = u
		}
	}
	start := time.Now()
	if err := run(); err != nil {
		return 0, err
	}
	seconds = time.Since(start).Seconds()
	s.Seconds += seconds
	for sum, u := range before {
		after, err := proc.UsageOf(pids[sum])
		if err != nil {
			continue
		}
		if *sum == nil {
			*sum = new(float64)
		}
		**sum += (after.CPU - u.CPU).Seconds()
	}
	return seconds, nil
}
