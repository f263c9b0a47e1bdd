package grain_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
)

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
	t.Run("removes a member", func(t *testing.T) {
		c := grain.NewPIDCache(10)
		c.Put("x", pid("a:1", "x"))
		c.Put("y", pid("b:1", "y"))
		c.RemoveAddress("a:1")
		if _, ok := c.Get("y"); !ok || c.Len() != 1 {
			t.Errorf("%d entries, y present: %v", c.Len(), ok)
		}
	})
	t.Run("removes moved activations", func(t *testing.T) {
		c := grain.NewPIDCache(10)
		c.Put("x", pid("a:1", "x"))
		c.Put("y", pid("b:1", "y"))
		c.Retain(func(string) string { return "a:1" })
		if _, ok := c.Get("x"); !ok || c.Len() != 1 {
			t.Errorf("%d entries, x present: %v", c.Len(), ok)
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
