//go:build mutants

package machine_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/internal/machine"
)

// TestMutantListFirst switches off that who is parked is listed before a signal lets it go
// on. What that loses needs a death within milliseconds: schedules of nodes show it once in
// thousands, those of the machine see the batch that is sent too early.
func TestMutantListFirst(t *testing.T) {
	machine.SetRule(machine.RuleListFirst, false)
	defer machine.SetRule(machine.RuleListFirst, true)
	for seed := range uint64(2000) {
		if err := play(seed, map[string]int{}); err != nil {
			if !strings.Contains(err.Error(), "wakes what no journal lists") {
				t.Fatal(err)
			}
			t.Logf("seed %d notices", seed)
			return
		}
	}
	t.Error("no schedule noticed")
}
