package membership_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// churnSeeds is the number of runs of TestChurn.
var churnSeeds = flag.Uint64("churns", sample.Of[uint64](25, 4), "let so many seeds start, kill and disturb nodes")

const (
	churnSteps = 22
	churnSlots = 5 // node addresses at which one node at a time can run
)

// churn starts, kills, drains, pauses and disconnects nodes, and stalls the bucket, determined by a
// seed. Only the test's goroutine uses it, unless noted.
type churn struct {
	*world
	seed   uint64
	rng    *rand.Rand
	slots  [churnSlots]*churned
	starts int
	stall  atomic.Pointer[stall] // nil without a stall
	wg     sync.WaitGroup        // of concurrent activities
}

type churned struct {
	*node
	mu        sync.Mutex
	disturbed bool // it alone could not reach the bucket for some time
	joined    int64
	stopped   bool // killed, left or ended
	faulty    bool
}

func (c *churned) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *churned) hasStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// undisturbed reports whether all epochs from one on must contain the node.
func (c *churned) undisturbed(epoch int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.disturbed && !c.stopped && c.joined > 0 && c.joined <= epoch
}

// TestChurn: no node that can reach the bucket is removed, nodes that end are replaced, and all nodes
// agree when the faults end.
func TestChurn(t *testing.T) {
	for seed := range *churnSeeds {
		synctest.Test(t, func(t *testing.T) {
			c := &churn{world: newWorld(t), seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
			defer c.wg.Wait()
			for range churnSteps {
				time.Sleep(time.Duration(c.rng.Int64N(int64(1200 * time.Millisecond))))
				c.step()
			}
			c.settle()
		})
		if t.Failed() {
			t.Fatalf("failed with seed %d", seed)
		}
	}
}

// step does one random action on a node or the bucket.
func (c *churn) step() {
	slot := c.rng.IntN(churnSlots)
	n := c.slots[slot]
	action := c.rng.IntN(12)
	if n == nil || action < 2 { // over a running or killed node, whose row is dropped
		c.start(slot)
		return
	}
	length := time.Duration(c.rng.Int64N(int64(4 * time.Second)))
	switch action {
	case 2, 3:
		c.slots[slot] = nil
		n.set(func() { n.stopped = true })
		c.wg.Go(n.kill)
	case 4:
		c.slots[slot] = nil
		n.set(func() { n.stopped = true })
		c.wg.Go(func() {
			n.kill()
			c.leave(n)
		})
	case 5, 6:
		n.set(func() { n.disturbed = true })
		if goOn := n.freeze(); goOn != nil {
			c.wg.Go(func() {
				time.Sleep(length)
				goOn()
			})
		}
	case 7, 8:
		n.set(func() { n.disturbed, n.faulty = true, true })
		c.wg.Go(func() {
			time.Sleep(length)
			n.set(func() { n.faulty = false })
		})
	case 9, 10:
		c.stallAll(length)
	case 11:
		c.wg.Go(func() {
			limited, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			defer cancel()
			_ = n.SetDraining(limited, length%2 == 0)
		})
	}
}

// stallAll stalls the bucket, or its writes, for all nodes in this step.
func (c *churn) stallAll(length time.Duration) {
	c.stall.Store(&stall{writes: c.rng.IntN(2) == 0, hangs: c.rng.IntN(2) == 0})
	time.Sleep(length)
	c.stall.Store(nil)
}

// stalled reports whether the bucket is stalled in this way for a request.
func (c *churn) stalled(hangs bool, method string) bool {
	s := c.stall.Load()
	return s != nil && s.hangs == hangs && (!s.writes || method == "PUT" || method == "DELETE")
}

// start begins a join at a node address. The previous node there is stopped.
func (c *churn) start(slot int) {
	if old := c.slots[slot]; old != nil {
		old.set(func() { old.stopped = true })
		c.wg.Go(old.kill)
	}
	c.starts++
	n := &churned{}
	one := rand.New(rand.NewPCG(c.seed, uint64(100+c.starts)))
	n.node = c.peer(fmt.Sprintf("%c%d", 'a'+slot, c.starts), storagetest.Plan{
		Seed: c.seed<<8 | uint64(c.starts), Latency: latency,
		Decide: func(op storagetest.Op) storagetest.Kind {
			if c.stalled(false, op.Method) {
				return storagetest.ErrorBefore
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.faulty && one.IntN(3) > 0 {
				return storagetest.Kind(1 + one.IntN(int(storagetest.Timeout)))
			}
			return storagetest.None
		}})
	n.hang = func(request string) bool {
		method, _, _ := strings.Cut(request, " ")
		return c.stalled(true, method)
	}
	c.slots[slot] = n
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	n.kill = func() {
		cancel()
		<-ended
	}
	c.wg.Go(func() {
		defer close(ended)
		c.live(ctx, n)
	})
}

// live joins and runs a node, and checks why it ends.
func (c *churn) live(ctx context.Context, n *churned) {
	joining, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := n.Join(joining); err != nil {
		n.set(func() { n.stopped = true })
		return
	}
	n.set(func() { n.joined = n.last().Epoch })
	err := n.Run(ctx)
	var replaced *membership.ReplacedError
	switch {
	case err == nil:
		return
	case !errors.As(err, &replaced):
		c.t.Errorf("seed %d: %s ended with %v", c.seed, n.id, err)
	case n.undisturbed(replaced.Epoch):
		c.t.Errorf("seed %d: %s could reach the bucket but was replaced: %v", c.seed, n.id, err)
	}
	if e := c.newest(); e.Has(n.id) {
		c.t.Errorf("seed %d: %s ended but is in epoch %d", c.seed, n.id, e.N)
	}
	n.set(func() { n.stopped = true })
	c.leave(n)
}

func (c *churn) leave(n *churned) {
	leaving, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	_ = n.Leave(leaving)
}

func (c *churn) settle() {
	time.Sleep(4 * time.Second) // the last fault ends
	for slot, n := range c.slots {
		if n != nil && n.hasStopped() {
			c.slots[slot] = nil
		}
	}
	if c.slots[0] == nil {
		c.start(0) // at least one node must remain
	}
	time.Sleep(churnSlots * (suspect + 2*heartbeat))
	e := c.newest()
	var want, got []string
	for _, n := range c.slots {
		if n == nil || n.hasStopped() {
			continue
		}
		want = append(want, n.id)
		if diff := cmp.Diff(membership.View{Epoch: e.N, Members: e.Members}, n.last().View); diff != "" {
			c.t.Errorf("seed %d: %s: view (-epoch +view):\n%s", c.seed, n.id, diff)
		}
		if n.Passive() {
			c.t.Errorf("seed %d: %s is passive", c.seed, n.id)
		}
		for _, v := range n.published() {
			for _, other := range c.slots {
				if other != nil && other.undisturbed(v.Epoch) && !(storage.Epoch{Members: v.Members}).Has(other.id) {
					c.t.Errorf("seed %d: %s could reach the bucket but is not in epoch %d", c.seed, other.id, v.Epoch)
				}
			}
		}
	}
	for _, m := range e.Members {
		got = append(got, m.ID)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("seed %d: members of epoch %d (-live +rows):\n%s", c.seed, e.N, diff)
	}
	for _, n := range c.slots {
		if n != nil {
			n.kill()
		}
	}
}
