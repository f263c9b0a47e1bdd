package grain_test

import (
	"sync"
	"testing"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// TestAddressWhileItStarts asks what /readyz and /metrics ask from before the start on.
// It fails under -race.
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
