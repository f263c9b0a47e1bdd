package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
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
	// Where there is no such file, the model is not known.
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.Model = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// ticksPerSecond is the unit of times in /proc, whatever the kernel's own is.
const ticksPerSecond = 100

// usage is what a process has used so far.
type usage struct {
	cpu    time.Duration
	memory Memory
}

// usageOf reads what the kernel counts for a process. It fails where there is no
// /proc, and for a process that is gone.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	var u usage
	if u.cpu, err = parseStat(string(stat)); err != nil {
		return usage{}, fmt.Errorf("read stat of process %d: %w", pid, err)
	}
	if u.memory, err = parseStatus(string(status)); err != nil {
		return usage{}, fmt.Errorf("read status of process %d: %w", pid, err)
	}
	return u, nil
}

// parseStat returns user and system time. The name of the program stands in
// brackets and may hold anything, brackets too.
func parseStat(s string) (time.Duration, error) {
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	const user, system = 11, 12 // Counted from the state, which follows the name.
	if len(fields) <= system {
		return 0, fmt.Errorf("%d fields are too few", len(fields))
	}
	var ticks int64
	for _, f := range fields[user : system+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

func parseStatus(s string) (Memory, error) {
	var m Memory
	found := 0
	for line := range strings.Lines(s) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "VmRSS":
			into = &m.RSS
		case "VmHWM":
			into = &m.Peak
		case "RssAnon":
			into = &m.Anonymous
		default:
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, err
		}
		*into = kilobytes << 10
		found++
	}
	if found != 3 {
		return Memory{}, errors.New("sizes of memory are missing")
	}
	return m, nil
}
