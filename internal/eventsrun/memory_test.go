package eventsrun_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
)

// Bounds of what a node may have resident, in MiB. Beside its events it has the
// conversations of the run in memory. The race detector takes several times as much.
const (
	boundMiB      = 1024
	racedBoundMiB = 2560
)

// peak is the most memory that a node was seen to have, in MiB.
type peak struct {
	mu   sync.Mutex
	seen map[bool]int // By whether the database was away.
}

func (p *peak) note(away bool, mib int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[bool]int{}
	}
	p.seen[away] = max(p.seen[away], mib)
}

// of returns the most it had while the database was away, or was there.
func (p *peak) of(away bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[away]
}

// watchMemory notes the memory of all nodes until ctx ends.
func (c *cluster) watchMemory(ctx context.Context, away func() bool) {
	for noderun.Pause(ctx, 100*time.Millisecond) == nil {
		for _, n := range c.running() {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.PID()))
			if err != nil {
				continue // It has just ended.
			}
			if mib, err := resident(string(status)); err == nil { // One that is about to end has none.
				n.memory.note(away(), mib)
			}
		}
	}
}

// resident reads from the status of a process how much of it is in memory, in MiB.
func resident(status string) (int, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			return kib >> 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in %q", status)
}

func TestResident(t *testing.T) {
	if got, err := resident("Name:\tparley\nVmHWM:\t  9999 kB\nVmRSS:\t  204800 kB\n"); got != 200 || err != nil {
		t.Errorf("%d MiB, %v; want 200", got, err)
	}
	if _, err := resident("Name:\tparley\n"); err == nil {
		t.Error("a process without memory has some")
	}
}
