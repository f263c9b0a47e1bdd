//go:build mutants

package actors_test

import (
	"strings"
	"testing"

	runner "github.com/parleyrun/parley/actors/internal/work"
)

// TestMutantOfRoom disables the wait for room for outputs: a call that should wait begins.
func TestMutantOfRoom(t *testing.T) {
	runner.SetWaitForRoom(false)
	defer runner.SetWaitForRoom(true)
	inLoop(t, func(t *testing.T, l *loop) {
		if got, want := waitForRoom(t, l), "want none next to one"; !strings.Contains(got, want) {
			t.Errorf("got %q, want it to contain %q", got, want)
		}
	})
}
