package grain_test

import (
	"sync"
	"testing"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// TestAddressWhileItStarts reads the state used by /readyz and /metrics before and during the start. A
// regression fails under -race.
func TestAddressWhileItStarts(t *testing.T) {
	c := build(t, actorFunc(echo), &grain.Options{Insecure: true})
	stop1 := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop1:
				return
			default:
			}
			_ = c.Address()
			c.Reachable()
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(stop1)
	wg.Wait()
	stop(t, c)
}
