package server

import (
	"log/slog"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestFindMemory(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		out := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return out
	}
	const meminfo, total = "proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 17 kB\n"
	for _, c := range []struct {
		name       string
		configured int64
		soft       int64
		root       fstest.MapFS
		want       memoryLimit
	}{
		{"nothing is known", 0, 0, files(), memoryLimit{from: "nothing"}},
		{"machine", 0, 0, files(meminfo, total), memoryLimit{bytes: 8 << 30, from: "machine"}},
		{"container", 0, 0, files(meminfo, total, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "536870912\n"),
			memoryLimit{bytes: 512 << 20, from: "container"}},
		{"container without a limit", 0, 0, files(meminfo, total, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n"),
			memoryLimit{bytes: 8 << 30, from: "machine"}},
		{"smallest of nested groups", 0, 0, files("proc/self/cgroup", "0::/pod/one\n",
			"sys/fs/cgroup/pod/one/memory.max", "max\n", "sys/fs/cgroup/pod/memory.max", "1000000\n", "sys/fs/cgroup/memory.max", "2000000\n"),
			memoryLimit{bytes: 1_000_000, from: "container"}},
		{"older container", 0, 0, files("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n", "proc/self/cgroup", "4:memory:/x\n"),
			memoryLimit{bytes: 256 << 20, from: "container"}},
		{"older sub-group", 0, 0, files("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/pod/one\n1:name=systemd:/y\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", "sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "300000000\n",
			"sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "200000000\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000\n"),
			memoryLimit{bytes: 200_000_000, from: "container"}},
		{"older group around it", 0, 0, files("proc/self/cgroup", "4:memory:/pod/one\n",
			"sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "100000000\n", "sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "200000000\n"),
			memoryLimit{bytes: 100_000_000, from: "container"}},
		{"older sub-group of a container", 0, 0, files("proc/self/cgroup", "4:memory:/docker/abc/sub\n",
			"proc/self/mountinfo", "30 25 0:26 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n31 25 0:27 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n", "sys/fs/cgroup/memory/sub/memory.limit_in_bytes", "400000000\n"),
			memoryLimit{bytes: 400_000_000, from: "container"}},
		{"older group mounted elsewhere", 0, 0, files("proc/self/cgroup", "4:memory:/one\n",
			"proc/self/mountinfo", "31 25 0:27 / /my\\040groups rw - cgroup cgroup rw,memory\n", "my groups/one/memory.limit_in_bytes", "400000000\n"),
			memoryLimit{bytes: 400_000_000, from: "container"}},
		{"both versions", 0, 0, files("proc/self/cgroup", "4:memory:/one\n0::/two\n",
			"proc/self/mountinfo", "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
			"sys/fs/cgroup/memory/one/memory.limit_in_bytes", "400000000\n", "sys/fs/cgroup/unified/two/memory.max", "300000000\n"),
			memoryLimit{bytes: 300_000_000, from: "container"}},
		{"sub-group of a container", 0, 0, files("proc/self/cgroup", "0::/kubepods/pod/abc/sub\n",
			"proc/self/mountinfo", "32 25 0:28 /kubepods/pod/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/memory.max", "max\n", "sys/fs/cgroup/sub/memory.max", "300000000\n"),
			memoryLimit{bytes: 300_000_000, from: "container"}},
		{"group outside of the namespace", 0, 0, files("proc/self/cgroup", "0::/../other\n", "sys/fs/cgroup/memory.max", "300000000\n"),
			memoryLimit{bytes: 300_000_000, from: "container"}},
		{"older container without a limit", 0, 0, files(meminfo, total, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
			memoryLimit{bytes: 8 << 30, from: "machine"}},
		{"GOMEMLIMIT wins", 0, 100 << 20, files(meminfo, total), memoryLimit{bytes: 100 << 20, from: "GOMEMLIMIT", soft: true}},
		{"configured wins", 7 << 20, 100 << 20, files(meminfo, total), memoryLimit{bytes: 7 << 20, from: "limits.memoryBytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := debug.SetMemoryLimit(-1)
			defer debug.SetMemoryLimit(before)
			debug.SetMemoryLimit(1<<63 - 1)
			if c.soft > 0 {
				debug.SetMemoryLimit(c.soft)
			}
			if got := findMemory(c.configured, c.root); got != c.want {
				t.Errorf("found %+v, want %+v", got, c.want)
			}
		})
	}
}

// The collector limit of one node does not limit the next one, for example after a reload.
func TestBudgetEndsWithItsNode(t *testing.T) {
	const none = 1<<63 - 1
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(none))
	container := fstest.MapFS{
		"proc/self/cgroup":         {Data: []byte("0::/\n")},
		"sys/fs/cgroup/memory.max": {Data: []byte("1099511627776\n")},
	}
	log := slog.New(slog.DiscardHandler)
	for _, configured := range []int64{0, 1 << 41, 0} {
		budget, reset := newBudget(configured, container, log)
		want := max(configured, 1<<40)
		if got := budget.Limit(); got != want/2 {
			t.Errorf("%d configured: a budget of %d, want %d", configured, got, want/2)
		}
		if got := debug.SetMemoryLimit(-1); got != heapLimit(want) {
			t.Errorf("%d configured: the collector knows %d, want %d", configured, got, heapLimit(want))
		}
		reset()
	}
	n, err := newBackend(t.Context(), nodeConfig{memory: true, memoryBytes: 1 << 40, log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if got := debug.SetMemoryLimit(-1); got != none {
		t.Errorf("a node that is closed leaves a limit of %d", got)
	}
}

// The heap is smaller than the limit: a process of 512 MiB needs about 50 MiB outside the heap, and
// 100 MiB for allocations during a collection.
func TestHeapLimit(t *testing.T) {
	for limit, want := range map[int64]int64{90: 60, 600 << 20: 400 << 20, 8 << 30: 8<<30 - 256<<20} {
		if got := heapLimit(limit); got != want {
			t.Errorf("of %d bytes the heap gets %d, want %d", limit, got, want)
		}
	}
}
