package eventsrun_test

import (
	"context"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
)

// Bounds of a node's resident memory, in MiB. In addition to its events it has the conversations of
// the run in memory. The race detector needs several times as much.
const (
	boundMiB      = 1024
	racedBoundMiB = 2560
)

// peak is the highest memory observed in a node, in MiB.
type peak struct {
	mu   sync.Mutex
	seen map[bool]int // by database outage
}

func (p *peak) note(away bool, mib int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[bool]int{}
	}
	p.seen[away] = max(p.seen[away], mib)
}

// of returns the peak during outages, or outside of them.
func (p *peak) of(away bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[away]
}

// watchMemory records the memory of all nodes until ctx ends.
func (c *cluster) watchMemory(ctx context.Context, away func() bool) {
	for noderun.Pause(ctx, 100*time.Millisecond) == nil {
		for _, n := range c.running() {
			p := n.Running()
			if p == nil {
				continue
			}
			if u, err := proc.UsageOf(p.PID()); err == nil { // A node that has just ended has none.
				n.memory.note(away(), int(u.Memory.RSS>>20))
			}
		}
	}
}
