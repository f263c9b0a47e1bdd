package clusterrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

type kind string

// All kinds of fault. With one node, those that need two are skipped.
const (
	killOne        kind = "kill -9 of one node"
	killTwo        kind = "kill -9 of two nodes at once"
	pauseOne       kind = "SIGSTOP of one node"
	rolling        kind = "SIGTERM of all nodes, one after the other"
	cutPair        kind = "reset of everything between two nodes"
	holdPair       kind = "silence between two nodes"
	holdOneWay     kind = "silence from one node to another"
	cutOneWay      kind = "reset of the calls of one node to another"
	bucketCut      kind = "reset of everything between a node and the bucket"
	bucketHoldOne  kind = "stall of the bucket for one node"
	bucketDeafOne  kind = "loss of the bucket's answers to one node"
	bucketHoldAll  kind = "stall of the bucket for all nodes"
	killAndHoldOne kind = "kill -9 of one node while another is cut off from a third"
)

func kinds() []kind {
	return []kind{
		killOne, killTwo, pauseOne, rolling, cutPair, holdPair, holdOneWay, cutOneWay, bucketCut, bucketHoldOne,
		bucketDeafOne, bucketHoldAll, killAndHoldOne,
	}
}

type fault struct {
	Before time.Duration // pause after the previous fault
	Kind   kind
	Nodes  []int // a permutation of all, the affected ones first
	For    time.Duration
}

func (f fault) String() string {
	var affected []string
	for _, n := range f.Nodes {
		affected = append(affected, fmt.Sprint(n+1))
	}
	return fmt.Sprintf("after %v %s, %v, nodes in the order %s", f.Before, f.Kind, f.For, strings.Join(affected, " "))
}

// newFaults returns the faults of a seed for a duration, with every kind once before any is repeated.
func newFaults(seed uint64, nodes int, total time.Duration) (faults []fault) {
	r := rand.New(rand.NewPCG(seed, 0x6661756c74))
	var deck []kind
	for spent := time.Duration(0); ; {
		if len(deck) == 0 {
			deck = kinds()
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := fault{Kind: deck[0], Before: milliseconds(r, 300, 2000), Nodes: r.Perm(nodes), For: milliseconds(r, 0, 3000)}
		deck = deck[1:]
		switch f.Kind {
		case pauseOne, bucketHoldAll:
			f.For = 10 * time.Second
		case killOne, killTwo:
		case rolling:
			f.For = milliseconds(r, 0, 500)
		default:
			f.For += 3 * time.Second // long enough to be suspected
		}
		spent += f.Before + f.For
		if nodes == 1 && slices.Contains([]kind{killTwo, cutPair, holdPair, holdOneWay, cutOneWay, killAndHoldOne}, f.Kind) {
			continue
		}
		if spent > total && len(faults) > 0 {
			return faults
		}
		faults = append(faults, f)
	}
}

func milliseconds(r *rand.Rand, low, high int) time.Duration {
	return time.Duration(low+r.IntN(high-low+1)) * time.Millisecond
}

// inject starts a fault, waits, and ends it.
func (c *cluster) inject(ctx context.Context, f fault) {
	affected := make([]*node, len(f.Nodes))
	for i, n := range f.Nodes {
		affected[i] = c.nodes[n]
	}
	switch f.Kind {
	case killOne:
		c.down(ctx, affected[:1], f.For)
	case killTwo:
		c.down(ctx, affected[:2], f.For)
	case rolling:
		c.roll(ctx, affected, f.For)
	case bucketHoldAll:
		c.holdAll(ctx, affected, f.For)
	case killAndHoldOne:
		f.Kind = holdPair
		third := affected[len(affected)-1]
		third.Kill()
		c.breaks(ctx, f, affected)
		third.Want(true)
	default:
		c.breaks(ctx, f, affected)
	}
}

// breaks cuts, closes or stops something, and restores it after the fault.
func (c *cluster) breaks(ctx context.Context, f fault, affected []*node) {
	a := affected[0]
	b := affected[len(affected)-1]
	if len(affected) > 1 {
		b = affected[1]
	}
	switch f.Kind {
	case pauseOne:
		a.Signal(syscall.SIGSTOP)
	case cutPair:
		b.callers[a.Number].set(false)
		a.callers[b.Number].set(false)
	case cutOneWay:
		b.callers[a.Number].set(false)
	case holdPair:
		c.between[a.Number][b.Number].set(false)
		c.between[b.Number][a.Number].set(false)
	case holdOneWay:
		c.between[a.Number][b.Number].set(false)
	case bucketCut:
		a.starve(true, true)
	case bucketHoldOne:
		a.starve(false, true)
	case bucketDeafOne:
		a.starve(false, false)
	default:
		c.Fail("unknown fault %s", f.Kind)
	}
	_ = noderun.Pause(ctx, f.For) // Restored in any case.
	c.heal()
}

// holdAll stalls the bucket for all nodes, or replaces all of its answers. No node is expelled during that time. A node that
// was expelled before, which a busy machine may cause, may end.
func (c *cluster) holdAll(ctx context.Context, affected []*node, d time.Duration) {
	before := c.Replacements()
	if c.answers != nil {
		c.answers.Replace(d)
	} else {
		for _, n := range affected {
			n.starve(false, true)
		}
	}
	_ = noderun.Pause(ctx, d) // Restored in any case.
	newest, _, err := storage.NewestEpoch(ctx, c.bucket, 0)
	ended, expelled := c.Replacements()-before, len(affected)-len(newest.Members)
	c.heal()
	if err != nil || ended > expelled {
		c.Fail("%d nodes ended while the bucket gave no usable answers, %d of them expelled before; %v", ended, expelled, err)
	}
}

// down kills nodes and restarts them after a while.
func (c *cluster) down(ctx context.Context, affected []*node, d time.Duration) {
	for _, n := range affected {
		n.Kill()
	}
	_ = noderun.Pause(ctx, d) // Restarted in any case.
	for _, n := range affected {
		n.Want(true)
	}
}

// roll restarts all nodes in order, each once the previous one serves again.
func (c *cluster) roll(ctx context.Context, affected []*node, d time.Duration) {
	for _, n := range affected {
		began := time.Now()
		n.Leave()
		left := time.Now()
		_ = noderun.Pause(ctx, d)
		n.Want(true)
		if !n.Await(ctx) {
			return
		}
		c.logf("%v left within %v and serves again %v later", n, left.Sub(began).Round(time.Millisecond), time.Since(left).Round(time.Millisecond))
	}
}

// A seed repeats its schedule, with every kind once before any is repeated.
func TestSeedRepeatsSchedule(t *testing.T) {
	for seed := range uint64(20) {
		one, two := newFaults(seed, 3, 5*time.Minute), newFaults(seed, 3, 5*time.Minute)
		if fmt.Sprint(one) != fmt.Sprint(two) {
			t.Fatalf("seed %d: %v, then %v", seed, one, two)
		}
		seen := map[kind]bool{}
		for _, f := range one[:len(kinds())] {
			seen[f.Kind] = true
		}
		if len(seen) != len(kinds()) {
			t.Errorf("seed %d: %d kinds of %d in the first round", seed, len(seen), len(kinds()))
		}
	}
}

// The listed seeds cover every kind of fault.
func TestSeedsCoverFaults(t *testing.T) {
	missing := kinds()
	for _, seed := range listed(t) {
		for _, f := range newFaults(seed, 3, shortRun) {
			missing = slices.DeleteFunc(missing, func(k kind) bool { return k == f.Kind })
		}
	}
	if len(missing) > 0 {
		t.Errorf("no run covers %q", missing)
	}
}
