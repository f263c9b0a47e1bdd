package noderun

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory reads how much memory a process has resident, and the most that it ever had, in
// bytes. One that is about to end has none.
func Memory(pid int) (now, most int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	return MemoryIn(string(status))
}

// MemoryIn is Memory of what the system says of a process.
func MemoryIn(status string) (now, most int64, err error) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kib << 10
		case "VmHWM":
			most = kib << 10
		}
	}
	if now == 0 || most == 0 {
		return 0, 0, fmt.Errorf("no memory in %q", status)
	}
	return now, most, nil
}
