package grain_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// The first output of splitmix64 for seed 0 is the finalizer of its increment.
func TestMix64IsSplitmix64(t *testing.T) {
	if got, want := grain.Mix64(0x9e3779b97f4a7c15), uint64(0xe220a8397b1dcdaf); got != want {
		t.Errorf("Mix64 = %#x, want %#x", got, want)
	}
}

// Placement must not change between releases: members of both run side by side in a rolling update.
func TestOwnerIsPinned(t *testing.T) {
	addresses := []string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"}
	want := map[string]string{ // computed by an independent program
		"conv-0": "10.0.0.2:7000",
		"conv-1": "10.0.0.1:7000",
		"conv-2": "10.0.0.3:7000",
		"conv-3": "10.0.0.1:7000",
		"conv-4": "10.0.0.2:7000",
		"conv-5": "10.0.0.1:7000",
	}
	for id, owner := range want {
		if got := grain.Owner(addresses, id); got != owner {
			t.Errorf("owner of %q is %q, want %q", id, got, owner)
		}
	}
	if got := grain.Owner(nil, "conv-1"); got != "" {
		t.Errorf("owner among nobody is %q", got)
	}
}

func TestOwnersShareEvenly(t *testing.T) {
	tests := map[string][]string{
		"ports": {"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"},
		"hosts": {"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"},
		"pods":  {"parley-0.parley:7000", "parley-1.parley:7000", "parley-2.parley:7000"},
	}
	const n = 30_000
	for name, addresses := range tests {
		t.Run(name, func(t *testing.T) {
			share := map[string]int{}
			for i := range n {
				share[grain.Owner(addresses, fmt.Sprintf("conv-%d", i))]++
			}
			for a, got := range share {
				if got < n*31/100 || got > n*36/100 {
					t.Errorf("%s owns %d of %d", a, got, n)
				}
			}
			if len(share) != len(addresses) {
				t.Errorf("%d owners, want %d", len(share), len(addresses))
			}
		})
	}
}

func TestLeavingMovesOnlyItsOwnShare(t *testing.T) {
	before := []string{"a:1", "b:1", "c:1", "d:1"}
	shuffled := []string{"c:1", "a:1", "b:1"}
	for i := range 10_000 {
		id := fmt.Sprintf("conv-%d", i)
		was, is := grain.Owner(before, id), grain.Owner(shuffled, id)
		if was != "d:1" && was != is {
			t.Fatalf("%q moved from %s to %s, though only d:1 left", id, was, is)
		}
	}
}

func TestPIDCache(t *testing.T) {
	pid := func(address, id string) *actor.PID { return actor.NewPID(address, id) }
	t.Run("is bounded", func(t *testing.T) {
		c := grain.NewPIDCache(100)
		for i := range 1000 {
			id := fmt.Sprint(i)
			c.Put(id, pid("a:1", id))
			if _, ok := c.Get(id); !ok {
				t.Fatalf("newest entry %s is missing", id)
			}
		}
		if c.Len() != 100 {
			t.Errorf("%d entries, want 100", c.Len())
		}
		c.Put("999", pid("b:1", "999"))
		if got, _ := c.Get("999"); c.Len() != 100 || got.Address != "b:1" {
			t.Errorf("overwriting left %d entries and %v", c.Len(), got)
		}
	})
	t.Run("keeps a newer entry", func(t *testing.T) {
		c := grain.NewPIDCache(10)
		c.Put("x", pid("a:1", "x$2"))
		c.Remove("x", pid("a:1", "x$1"))
		if _, ok := c.Get("x"); !ok {
			t.Error("removing an old PID removed the new one")
		}
		c.Remove("x", pid("a:1", "x$2"))
		c.Remove("y", pid("a:1", "y$1"))
		if c.Len() != 0 {
			t.Errorf("%d entries, want none", c.Len())
		}
	})
	t.Run("forgets a member", func(t *testing.T) {
		c := grain.NewPIDCache(10)
		c.Put("x", pid("a:1", "x"))
		c.Put("y", pid("b:1", "y"))
		c.RemoveAddress("a:1")
		if _, ok := c.Get("y"); !ok || c.Len() != 1 {
			t.Errorf("%d entries, y present: %v", c.Len(), ok)
		}
	})
	t.Run("concurrent use", func(t *testing.T) {
		c := grain.NewPIDCache(8)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 500 {
					id := fmt.Sprint((i + g) % 20)
					p := pid("a:1", id)
					c.Put(id, p)
					c.Get(id)
					c.Remove(id, p)
				}
			})
		}
		wg.Wait()
		if c.Len() > 8 {
			t.Errorf("%d entries, want at most 8", c.Len())
		}
	})
}
