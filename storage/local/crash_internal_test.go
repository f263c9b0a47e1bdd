package local

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/internal/sample"
)

var (
	crashCycles = flag.Int("cycles", sample.Of(16, 8), "crash so many stores, eight one after the other on each disk")
	crashSeed   = flag.Uint64("seed", 0, "seed of the first disk; the others follow")
)

// chainCycles is the number of crashes per disk.
const chainCycles = 8

// TestCrashCycles crashes stores while several goroutines write, and opens them again. No acknowledged
// write may be lost.
func TestCrashCycles(t *testing.T) {
	total := &crashReport{counts: map[string]int{}}
	var mu sync.Mutex
	t.Run("disk", func(t *testing.T) {
		for i := range (*crashCycles + chainCycles - 1) / chainCycles {
			seed := *crashSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := crashChain(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for name, n := range r.counts {
					total.counts[name] += n
				}
			})
		}
	})
	t.Logf("counts:\n%s", total)
	if *crashCycles >= 100 && !t.Failed() {
		total.check(t, *crashCycles)
	}
}

// crashChain crashes one disk repeatedly.
func crashChain(t *testing.T, seed uint64) *crashReport {
	r := &crashReport{counts: map[string]int{}}
	present := map[string]uint64{}
	disk := newCrashDisk(t)
	dir := filepath.Join(t.TempDir(), "data")
	for n := range chainCycles {
		c := cycleOf(seed, n)
		var d exitResult
		var flaws []string
		if c.End == endClone {
			d, disk = c.inProcess(t, disk)
			present, flaws = audit(t, disk, testDir, d.history, present)
			// Data that was read once must survive later losses.
			disk = disk.clone(vfs.CrashCloneCfg{})
		} else {
			if err := mkdirSynced(vfs.Default, dir); err != nil {
				t.Fatal(err)
			}
			d = c.inChild(t, dir)
			if c.End == endPower {
				flaws = append(flaws, replace(dir)...)
			}
			if len(flaws) == 0 {
				present, flaws = audit(t, vfs.Default, dir, d.history, present)
			}
		}
		if flaws = append(flaws, c.checkEnd(d)...); len(flaws) > 0 {
			t.Fatalf("run it again with -seed %d -cycles %d; the order of events may differ\n%+v ended with status %d\n%s",
				seed, chainCycles, c, d.status, strings.Join(flaws, "\n"))
		}
		r.add(c, d)
	}
	return r
}

func newCrashDisk(t *testing.T) *crashDisk {
	t.Helper()
	disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
	if err := mkdirSynced(disk, testDir); err != nil {
		t.Fatal(err)
	}
	return disk
}

// cycleOf derives cycle n of a disk: two disks of five are in memory.
func cycleOf(seed uint64, n int) cycle {
	if seed%5 == 1 || seed%5 == 3 {
		return newCycle(seed, n, endClone, "")
	}
	names := slices.Sorted(maps.Keys(faults()))
	// The faults of a disk, five, continue after those of the disk before.
	name := names[(((seed/5)*3+seed%5/2)*5+uint64(n-1-n/3))%uint64(len(names))]
	switch n % 3 {
	case 0:
		return newCycle(seed, n, endKill, "")
	case 1:
		return newCycle(seed, n, endKill, name)
	default:
		return newCycle(seed, n, endPower, name)
	}
}

// replace replaces the folder by the data that survived a power loss.
func replace(dir string) (flaws []string) {
	for _, err := range []error{os.RemoveAll(dir), os.Rename(dir+"-after", dir)} {
		if err != nil {
			flaws = append(flaws, "the child left nothing: "+err.Error())
		}
	}
	return flaws
}

// crashReport counts events by name.
type crashReport struct{ counts map[string]int }

func (r *crashReport) add(c cycle, d exitResult) {
	kind := c.End
	if c.Fault != "" {
		kind += " with fault"
	}
	open, acknowledged := map[uint64]bool{}, 0
	fired := false
	for _, e := range d.history {
		switch {
		case e.Phase == phaseFault:
			fired = true
		case e.Phase == phaseBegin && e.isWrite():
			open[e.Op] = true
		case e.Phase == phaseEnd && e.isWrite() && e.Result != resultUnknown:
			delete(open, e.Op)
			acknowledged++
			r.counts["acknowledged: "+e.Verb+" "+e.Result]++
		case e.Phase == phaseEnd && e.Result != resultUnknown:
			r.counts["answered: "+e.Verb]++
		}
	}
	r.counts[kind+": cycles"]++
	r.counts[kind+": acknowledged writes"] += acknowledged
	r.counts[fmt.Sprintf("%s: ended with status %d", kind, d.status)]++
	if !slices.ContainsFunc(d.history, func(e event) bool { return e.Phase == phaseOpened }) {
		r.counts[kind+": crashed while it opened"]++
	}
	if len(open) > 0 {
		r.counts[kind+": crashed during a write"]++
	}
	if fired {
		r.counts["fault: "+c.Fault]++
		if d.status == statusFatal {
			r.counts["fault that ended the process: "+c.Fault]++
		}
	}
}

// check reports events that a run of this many cycles did not cover. Covering every fault takes many
// cycles.
func (r *crashReport) check(t *testing.T, cycles int) {
	t.Helper()
	want := map[string]int{}
	for _, kind := range []string{endClone, endKill, endKill + " with fault", endPower + " with fault"} {
		want[kind+": cycles"] = cycles / 8
		want[kind+": acknowledged writes"] = cycles
		want[kind+": crashed during a write"] = cycles / 16
	}
	for name, f := range faults() {
		if cycles < 400 {
			break
		}
		want["fault: "+name] = 1
		if f.fatal {
			want["fault that ended the process: "+name] = 1
		}
	}
	for name, n := range want {
		if r.counts[name] < n {
			t.Errorf("%s: %d, want %d at least", name, r.counts[name], n)
		}
	}
}

func (r *crashReport) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(&b, "%6d  %s\n", r.counts[name], name)
	}
	return b.String()
}
