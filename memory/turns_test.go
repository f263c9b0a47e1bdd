package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/memory"
)

// TestTurns checks that large work waits for half of the processors, and short work does not.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, short = 256<<10 + 1, 256 << 10
		b := memory.New(0)
		readers, bodies := b.Account("readers", 0), b.Account("bodies", 0)
		var leave []func()
		for range memory.Turns() {
			leave = append(leave, readers.Turn(large))
		}
		began := false
		go func() {
			defer bodies.Turn(large)()
			began = true
		}()
		synctest.Wait()
		if began || b.Waiting() != 1 {
			t.Errorf("without free turns: got began %t, %d waiting", began, b.Waiting())
		}
		bodies.Turn(short)()

		for _, l := range leave {
			l()
		}
		synctest.Wait()
		if !began || b.Waiting() != 0 {
			t.Errorf("with free turns: got began %t, %d waiting", began, b.Waiting())
		}
	})
}
