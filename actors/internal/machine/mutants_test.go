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
	for _, m := range []struct{ rule, violation string }{
		{machine.RuleListFirst, "resumes an unlisted submission"},
		{machine.RulePassSuspended, "unlist with"},
		{machine.RuleStayForReply, "unlist with|nothing else resumes|with pending work"},
		{machine.RuleStayForPost, "unlist with|nothing else resumes|with pending work"},
		{machine.RulePostInOrder, "before the previous post is done"},
		{machine.RuleTimePosts, "unlist with|nothing else resumes|with pending work"},
		{machine.RuleSuspendStored, "unlist with|nothing else resumes|with pending work"},
		{machine.RuleAckPending, "receipt for"},
		{machine.RuleOneRun, "cannot be a run|runs in one log"},
		{machine.RuleJoinFirst, "has not joined durably"},
		{machine.RuleAskTree, "before its tree has answered"},
		{machine.RuleAbortFirst, "before the tree of|is answered before|without a tail read"},
		{machine.RuleRefuseClosed, "that an abort has closed"},
		{machine.RuleOwnChannel, "channel that did not deliver it"},
		{machine.RuleShowEndedWait, "shows the state"},
		{machine.RuleAskOnce, "is called again twice"},
		{machine.RuleOwnAddress, "goes to the address"},
		{machine.RuleEndDelivered, "recorded as delivered but is not"},
	} {
		t.Run(m.rule, func(t *testing.T) {
			machine.SetRule(m.rule, false)
			defer machine.SetRule(m.rule, true)
			for seed := range uint64(2000) {
				if err := play(seed, map[string]int{}); err != nil {
					if !regexp.MustCompile(m.violation).MatchString(err.Error()) {
						t.Fatal(err)
					}
					t.Logf("seed %d detects the mutant", seed)
					return
				}
			}
			t.Error("no schedule detected the mutant")
		})
	}
}
