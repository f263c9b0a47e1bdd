//go:build mutants

package machine_test

import (
	"regexp"
	"testing"

	"github.com/parleyrun/parley/actors/internal/machine"
)

// TestMutants switches off rules that cluster schedules miss or detect once in thousands. Without them
// a loss needs a crash within milliseconds, or work is late and not lost.
func TestMutants(t *testing.T) {
	for _, m := range []struct{ rule, notice string }{
		{machine.RuleListFirst, "wakes what no journal lists"},
		{machine.RulePassSuspended, "unlist with"},
		{machine.RuleStayForReply, "unlist with|nothing else finds|with work to do"},
		{machine.RuleStayForPost, "unlist with|nothing else finds|with work to do"},
		{machine.RulePostInOrder, "one before it is not done"},
		{machine.RuleTimePosts, "unlist with|nothing else finds|with work to do"},
		{machine.RuleSleepStored, "unlist with|nothing else finds|with work to do"},
		{machine.RuleVouchPending, "receipt for"},
		{machine.RuleOneRun, "cannot be a run|runs in one log"},
		{machine.RuleJoinFirst, "has not joined durably"},
		{machine.RuleAskTree, "before its tree has answered"},
		{machine.RuleAbortFirst, "before the tree of|is answered before|without a look"},
		{machine.RuleRefuseClosed, "that an abort has closed"},
		{machine.RuleOwnChannel, "did not come from its channel"},
		{machine.RuleShowEndedWait, "shows the state"},
		{machine.RuleAskOnce, "is asked again twice"},
		{machine.RuleOwnAddress, "goes to the address"},
		{machine.RuleEndDelivered, "said to be delivered, and is not"},
	} {
		t.Run(m.rule, func(t *testing.T) {
			machine.SetRule(m.rule, false)
			defer machine.SetRule(m.rule, true)
			for seed := range uint64(2000) {
				if err := play(seed, map[string]int{}); err != nil {
					if !regexp.MustCompile(m.notice).MatchString(err.Error()) {
						t.Fatal(err)
					}
					t.Logf("seed %d notices", seed)
					return
				}
			}
			t.Error("no schedule noticed")
		})
	}
}
