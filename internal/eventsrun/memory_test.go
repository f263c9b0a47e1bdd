package eventsrun_test

import (
	"context"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
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
			p := n.Running()
			if p == nil {
				continue
			}
			if u, err := proc.UsageOf(p.PID()); err == nil { // One that has just ended has none.
				n.memory.note(away(), int(u.Memory.RSS>>20))
			}
		}
	}
}
