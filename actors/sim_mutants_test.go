//go:build mutants

package actors

import (
	"testing"

	"github.com/parleyrun/parley/storage"
)

// searched is how many more schedules run when none of the chosen seeds notices,
// which a change of the product's timing may bring about.
const searched = 1000

// TestMutants switches off one rule after the other and expects a schedule to
// notice. The seeds are ones that did when they were chosen; several, because a change
// of the product makes another schedule of each.
func TestMutants(t *testing.T) {
	system := newSimSystem(t)
	for _, m := range []struct {
		name  string
		set   func(on bool)
		seeds []uint64
	}{
		{"a retry sends other bytes", logRule(storage.RuleFrozenBody), []uint64{0, 4, 5, 7, 8}},
		{"any 412 is a success", logRule(storage.RuleReadBack), []uint64{2, 4, 5, 7, 8}},
		{"a claim is not verified", logRule(storage.RuleVerifyClaim), []uint64{4, 39, 47, 137, 166}},
		{"202 before the journal", func(on bool) { rules.waitsForJournal.Store(!on) }, []uint64{68, 886, 1160, 1709}},
		{"what is missing rests on memory", func(on bool) { rules.looksAtLog.Store(!on) }, []uint64{46, 69, 262, 771, 912}},
		{"a writer at rest goes on unseen", func(on bool) { rules.checksResting.Store(!on) }, []uint64{360, 644}},
		{"own set is not swept", func(on bool) { rules.sweepsOwnSet.Store(!on) }, []uint64{2, 4, 5, 7, 8}},
	} {
		t.Run(m.name, func(t *testing.T) {
			m.set(false)
			defer m.set(true)
			for i := range uint64(len(m.seeds) + searched) {
				seed := i - uint64(len(m.seeds))
				if i < uint64(len(m.seeds)) {
					seed = m.seeds[i]
				}
				if v := runSeed(t, system, seed).Violation; v != "" {
					t.Logf("seed %d: %s", seed, v)
					return
				}
			}
			t.Error("no schedule noticed")
		})
	}
}

func logRule(name string) func(bool) {
	return func(on bool) { storage.SetRule(name, on) }
}
