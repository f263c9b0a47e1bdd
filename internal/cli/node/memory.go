package node

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/memory"
)

// unlimited is from when on, in bytes, a limit is none: the kernel's largest value of a
// container without one, rounded down.
const unlimited = 1 << 60

// maxOutside is the most, in bytes, that is set aside for memory that the collector does
// not know.
const maxOutside = 256 << 20

// memoryLimit is what the process may occupy.
type memoryLimit struct {
	bytes int64 // 0 if it is not known
	from  string
	soft  bool // the collector knows it
}

// findMemory returns what the process may occupy: as it is configured, as GOMEMLIMIT or
// the container says, or what the machine has.
func findMemory(configured int64, root fs.FS) memoryLimit {
	if configured > 0 {
		return memoryLimit{bytes: configured, from: "limits.memoryBytes"}
	}
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return memoryLimit{bytes: n, from: "GOMEMLIMIT", soft: true}
	}
	if n := containerMemory(root); n > 0 {
		return memoryLimit{bytes: n, from: "container"}
	}
	if n := machineMemory(root); n > 0 {
		return memoryLimit{bytes: n, from: "machine"}
	}
	return memoryLimit{from: "nothing"}
}

// containerMemory returns the smallest limit of the groups that the process is in, 0 for
// none.
func containerMemory(root fs.FS) int64 {
	smallest := int64(0)
	note := func(file string) {
		b, err := fs.ReadFile(root, file)
		if err != nil {
			return // no such group here
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
		if err == nil && n > 0 && n < unlimited && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	note("sys/fs/cgroup/memory/memory.limit_in_bytes")
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		_, group, ok := strings.Cut(strings.TrimSpace(line), "::")
		for at := group; ok; at = path.Dir(at) {
			note(path.Join("sys/fs/cgroup", at, "memory.max"))
			if at == "/" || at == "." {
				break
			}
		}
	}
	return smallest
}

// machineMemory returns what the machine has, 0 if it does not say.
func machineMemory(root fs.FS) int64 {
	info, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// heapLimit is what the collector may let the process have of a limit. The rest is for what
// it does not know, the program itself and the caches and tables of the data folder, and for
// what is allocated while it works.
func heapLimit(limit int64) int64 { return limit - min(limit/3, maxOutside) }

// newBudget makes the budget of a node: half of what the process may occupy, since as
// much again is garbage that is not collected yet. The collector is told to work harder
// as a limit comes near that it does not know, until forget is called: the next node of
// the process would take that for GOMEMLIMIT.
func newBudget(configured int64, root fs.FS, log *slog.Logger) (_ *memory.Budget, forget func()) {
	limit, before := findMemory(configured, root), debug.SetMemoryLimit(-1)
	if limit.bytes > 0 && !limit.soft && limit.from != "machine" {
		debug.SetMemoryLimit(heapLimit(limit.bytes))
	}
	log.Debug("memory of this node", "limit", limit.bytes, "from", limit.from, "budget", limit.bytes/2)
	return memory.New(limit.bytes / 2), func() { debug.SetMemoryLimit(before) }
}
