//go:build mutants

package actors

import (
	"flag"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/storage"
)

// searched is the number of further schedules if none of the chosen seeds detects a mutant, for
// example after a change of timing in the product.
const searched = 1000

var (
	simSearch = flag.Uint64("search", 0, "for every rule print the seeds among so many that notice that it is off")
	simFrom   = flag.Uint64("from", 0, "first seed of -search")
)

// mutant is a disabled rule.
type mutant struct {
	name string
	set  func(on bool)
	// the interleaving that needs the rule, nil if random schedules find it
	script  func(*simCluster)
	profile simProfile
	// seeds are schedules that detected the mutant when they were chosen. There are several, because a
	// change of the product changes the schedule of each.
	seeds []uint64
}

// mutants returns the rules of the log, of eviction, of signals, and of the pending-work journal, one
// by one. Other changes of journals are harmless and undetectable: a replaced journal that is deleted
// late or never, since no number is reused; a number left behind for the next with the full set; an
// empty set that deletes its last journal; and "idle" as an answer to the writer that is probed, which
// no sweep asks.
func mutants() []mutant {
	all, journals := simEverything(), simOfJournals()
	return []mutant{
		{"a retry sends other bytes", logRule(storage.RuleFrozenBody), nil, all, []uint64{0, 4, 5, 7, 8}},
		{"any 412 is a success", logRule(storage.RuleReadBack), nil, all, []uint64{2, 4, 5, 7, 8}},
		{"a claim is not verified", logRule(storage.RuleVerifyClaim), nil, all, []uint64{4, 39, 47, 137, 166}},
		{"a missing record is answered from memory", off(&rules.readsLog), nil, all, []uint64{46, 69, 262, 771, 912}},
		{"an idle writer continues without a check", off(&rules.checksIdleWriter), nil, all, []uint64{360, 644}},
		{"a busy conversation leaves memory", ownerRule(machine.RuleStayAtWork), nil, simOfCrowds(), []uint64{70, 277, 302, 341, 725}},

		{"a wait that a signal ends does not continue", ownerRule(machine.RuleGoOn), nil, simOfWaits(), []uint64{0, 9, 19, 36, 52}},
		{"a kept signal is not used", ownerRule(machine.RuleTakeKept), nil, simOfWaits(), []uint64{2, 4, 10, 18, 22}},
		{"a second signal counts, too", ownerRule(machine.RuleRefuseLate), nil, simOfWaits(), []uint64{1, 9, 13, 42, 45}},

		{"a writer with a pending reply leaves the set", ownerRule(machine.RuleStayForReply), nil, simOfWaits(), []uint64{27, 46, 120, 269}},

		{"a writer with a pending post leaves the set", ownerRule(machine.RuleStayForPost), nil, simOfPosts(), []uint64{74, 235, 274, 532, 593}},
		{"a post does not wait for the one before", ownerRule(machine.RulePostInOrder), nil, simOfPosts(), []uint64{1, 7, 9, 16, 18}},
		{"a postponed post stores no timer", ownerRule(machine.RuleTimePosts), nil, simOfPosts(), []uint64{0, 1, 5, 7, 9}},

		{"a dispatch joins its tree late", ownerRule(machine.RuleJoinFirst), nil, simOfTrees(), []uint64{1, 3, 8, 9, 11}},
		{"a starting member does not query its tree", ownerRule(machine.RuleAskTree), nil, simOfTrees(), []uint64{119, 319, 320, 321, 322}},
		{"an abort of a tree is read before it is durable", ownerRule(machine.RuleAbortFirst), nil, simOfTrees(), []uint64{32, 90, 117, 157, 165}},
		{"a closed tree takes members", ownerRule(machine.RuleRefuseClosed), nil, simOfTrees(), []uint64{0, 187, 198, 222, 232}},

		{"202 before the journal", pendingRule(pending.RuleWaitForJournal), crashesUnlisted, journals, []uint64{545, 680, 2, 26, 77, 121, 128}},
		{"own set is not swept", pendingRule(pending.RuleSweepOwnSet), isFencedAlone, journals, []uint64{60, 92, 0, 1, 3, 4, 5}},
		{"a writer that steps down leaves the set", ownerRule(machine.RuleStayListed), isFencedAlone, journals, []uint64{370, 509, 571, 599}},
		{"idle is declared without a fence", ownerRule(machine.RuleFenceOpened), landsAfterTheProbe, journals, nil},
		{"idle is declared from memory", ownerRule(machine.RuleFenceKnown), wroteSinceIdle, journals, nil},
		{"a journal is deleted before its entries are answered", pendingRule(pending.RuleAwaitAnswers), cannotTakeOver, journals, []uint64{247, 319, 22, 25, 75, 95, 99}},
		{"a writer that takes over is not listed", ownerRule(machine.RuleListTakeover), takesOverUnlisted, journals, []uint64{3, 6, 21, 22, 28}},
		{"held before the journal", ownerRule(machine.RuleHoldListed), holdsUnlisted, journals, nil},
		{"a settlement in flight ends the listing", ownerRule(machine.RuleUnlistLate), losesSettlement, journals, []uint64{54, 1, 170, 338, 860, 962, 1301}},
		{"a journal is swept once", pendingRule(pending.RuleSweepAgain), listsAfterTheSweep, journals, []uint64{32, 91, 62, 92, 99, 103, 123}},
		{"a journal is deleted when the next is sent", pendingRule(pending.RuleDeleteLanded), dropsTheNext, journals, []uint64{40, 82, 172, 325, 388, 413}},
		{"a number is reused for other bytes", pendingRule(pending.RuleKeepBytes), answersSlowly, journals, []uint64{77, 148, 209, 212}},
		{"a sweep deletes what it has not read", pendingRule(pending.RuleDeleteRead), landsDuringTheSweep, journals, []uint64{789, 983, 343, 414, 417, 693, 723}},
		{"an entry matches any writer", pendingRule(pending.RuleListWriters), opensAnew, journals, []uint64{480, 801, 21, 69, 108, 117}},
		{"the journal in flight does not count", pendingRule(pending.RuleListInFlight), comesBackListed, journals, nil},
		{"a node's own entry answers for another's", pendingRule(pending.RuleAskOwners), coversLeaving, journals, []uint64{504, 244, 354, 439, 606, 661}},
		{"a node's own newer entry answers for another's", pendingRule(pending.RuleAskClaimed), coversUnclaimed, journals, nil},
		{"an opening is not announced", pendingRule(pending.RuleAnnounceOpening), crashesItsNodes, journals, nil},
		{"a read is not announced", pendingRule(pending.RuleAnnounceReading), readCrashesNodes, journals, nil},
		{"suspects are opened at once", pendingRule(pending.RuleSuspectsTakeTurns), crashesItsNodes, journals, nil},
		{"a crash during other work counts", pendingRule(pending.RuleCountAlone), killedAtWork, journals, nil},
		{"a probe is not recorded", pendingRule(pending.RuleRecordTry), isReleased, journals, nil},
		{"entries are removed before their conversation is quarantined", pendingRule(pending.RuleQuarantineBeforeAnswer), crashesItsNodes, journals, nil},
		{"a released conversation is listed last", logRule(storage.RuleListBack), isReleasedTwice, journals, nil},
		{"a replay is not listed", ownerRule(machine.RuleVouchReplay), repeatsElsewhere, journals, nil},
	}
}

// TestMutants disables one rule after the other. The rule's script and random schedules must detect
// it. Random schedules rarely detect some of those with a script; these have chosen seeds, one of
// which must detect it, or none at all.
func TestMutants(t *testing.T) {
	system := newSimSystem(t)
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			m.set(false)
			defer m.set(true)
			if m.script != nil && runSimScript(t, system, m.script) == "" {
				t.Error("mutant not detected by its script")
			}
			for seed := range *simSearch {
				m.noticed(t, system, *simFrom+seed)
			}
			for _, seed := range m.seeds {
				if !m.noticed(t, system, seed) {
					continue
				}
				m.set(true)
				if m.noticed(t, system, seed) {
					t.Error("the schedule fails with all rules enabled")
				}
				return
			}
			if m.script != nil {
				if len(m.seeds) > 0 {
					t.Error("mutant not detected by the chosen seeds: choose others with -search")
				}
				return
			}
			for seed := range uint64(searched) {
				if m.noticed(t, system, seed) {
					return
				}
			}
			t.Error("mutant not detected by any schedule")
		})
	}
}

// noticed runs a schedule and reports whether it fails.
func (m mutant) noticed(t *testing.T, system *actor.ActorSystem, seed uint64) bool {
	s := simSchedule{m.profile, seed}
	v := runSchedule(t, system, s).Violation
	if v != "" {
		t.Logf("seed %v: %s", s, v)
	}
	return v != ""
}

func off(rule *atomic.Bool) func(bool) {
	return func(on bool) { rule.Store(!on) }
}

func ownerRule(name string) func(bool) {
	return func(on bool) { machine.SetRule(name, on) }
}

func pendingRule(name string) func(bool) {
	return func(on bool) { pending.SetRule(name, on) }
}

func logRule(name string) func(bool) {
	return func(on bool) { storage.SetRule(name, on) }
}
