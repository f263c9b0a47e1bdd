package server

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/memory"
)

// unlimited is the limit, in bytes, from which a container has none: the kernel's maximum, rounded
// down.
const unlimited = 1 << 60

// maxOutside is the maximum, in bytes, reserved for memory that the garbage collector does not manage.
const maxOutside = 256 << 20

// memoryLimit is the memory limit of the process.
type memoryLimit struct {
	bytes int64 // 0 if unknown
	from  string
	soft  bool // set as the collector's soft limit
}

// findMemory returns the memory limit: the configured one, else GOMEMLIMIT, else that of the container
// or the machine.
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

// cgroups is a mounted hierarchy of control groups that limit memory.
type cgroups struct {
	root string // root of the hierarchy, as far as it is mounted
	at   string // mount point
	file string // with the limit of a group
}

const (
	fileV1 = "memory.limit_in_bytes"
	fileV2 = "memory.max"
)

// containerMemory returns the smallest limit of the control groups of the process and their parents, 0
// for none.
func containerMemory(root fs.FS) int64 {
	smallest := int64(0)
	note := func(file string) {
		b, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
		if err != nil {
			return // no such group here
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
		if err == nil && n > 0 && n < unlimited && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	v1, v2 := mountedGroups(root)
	note(path.Join(v1.at, v1.file))
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		switch {
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			v1.each(f[2], note)
		case f[0] == "0" && f[1] == "":
			v2.each(f[2], note)
		}
	}
	return smallest
}

// each calls visit with the file of a group and of each of its parents.
func (c cgroups) each(group string, visit func(file string)) {
	group = path.Join("/", group)
	if within, ok := strings.CutPrefix(group, strings.TrimSuffix(c.root, "/")); ok && (within == "" || within[0] == '/') {
		group = path.Join("/", within)
	}
	for ; ; group = path.Dir(group) {
		visit(path.Join(c.at, group, c.file))
		if group == "/" {
			return
		}
	}
}

// mountedGroups returns the mount points of both versions of control groups, or their defaults.
func mountedGroups(root fs.FS) (v1, v2 cgroups) {
	v1, v2 = cgroups{"/", "/sys/fs/cgroup/memory", fileV1}, cgroups{"/", "/sys/fs/cgroup", fileV2}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	mounts, _ := fs.ReadFile(root, "proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		mount, kind, ok := strings.Cut(line, " - ") // any number of fields precedes it
		f, k := strings.Fields(mount), strings.Fields(kind)
		if !ok || len(f) < 5 || len(k) < 3 {
			continue
		}
		switch at := (cgroups{root: unescape.Replace(f[3]), at: unescape.Replace(f[4])}); {
		case k[0] == "cgroup" && slices.Contains(strings.Split(k[2], ","), "memory"):
			v1 = at
			v1.file = fileV1
		case k[0] == "cgroup2":
			v2 = at
			v2.file = fileV2
		}
	}
	return v1, v2
}

// machineMemory returns the memory of the machine, 0 if unknown.
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

// heapLimit returns the part of a limit for the Go heap. The rest is for memory that the garbage
// collector does not manage: the program, and caches and tables of the data folder. It also covers
// allocations during a collection.
func heapLimit(limit int64) int64 { return limit - min(limit/3, maxOutside) }

// newBudget returns the memory budget of a node: half of the limit, because uncollected garbage may
// take as much again. If the collector has no limit, newBudget sets one. resetLimit removes it, so that
// the next node of the process does not mistake it for GOMEMLIMIT.
func newBudget(configured int64, root fs.FS, log *slog.Logger) (_ *memory.Budget, reset func()) {
	limit, before := findMemory(configured, root), debug.SetMemoryLimit(-1)
	if limit.bytes > 0 && !limit.soft && limit.from != "machine" {
		debug.SetMemoryLimit(heapLimit(limit.bytes))
	}
	log.Debug("memory of this node", "limit", limit.bytes, "from", limit.from, "budget", limit.bytes/2)
	return memory.New(limit.bytes / 2), func() { debug.SetMemoryLimit(before) }
}
