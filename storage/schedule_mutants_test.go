//go:build mutants

package storage_test

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage"
)

var logMutants = flag.Uint64("logmutants", 0, "count how many of this many schedules detect each disabled rule")

// searched is the number of further schedules to run if none of the chosen seeds detects a mutant,
// which a change of timing in the product may cause.
const searched = 2000

// pendingOf returns the option that makes retries send the pending lines when R1 is off.
func pendingOf() func(context.Context, func() []byte) context.Context { return storage.WithPending }

// TestMutants switches off each rule of the log and expects a schedule to detect it. Several seeds
// that detected it when they were chosen are tried, because each change of the product changes their
// schedules.
func TestMutants(t *testing.T) {
	for _, m := range []struct {
		rule  string
		seeds []uint64
	}{
		{storage.RuleFrozenBody, []uint64{1, 4, 6, 9, 10}},
		{storage.RuleReadBack, []uint64{0, 1, 2, 4, 6}},
		{storage.RulePinFirst, []uint64{7, 8, 10, 12, 17}},
		{storage.RuleVerifyClaim, []uint64{33, 39, 48, 55, 63}},
		{storage.RuleKeepHighest, []uint64{2, 4, 5, 6, 7}},
		{storage.RuleCheckChain, []uint64{48, 103, 118, 202, 213}},
	} {
		t.Run(m.rule, func(t *testing.T) {
			storage.SetRule(m.rule, false)
			defer storage.SetRule(m.rule, true)
			if *logMutants > 0 {
				noticed, why := noticing(t, *logMutants)
				t.Logf("%d of %d schedules notice: %v\n%s", len(noticed), *logMutants, noticed[:min(20, len(noticed))], why)
				return
			}
			expectNotice(t, m.seeds)
		})
	}
}

// violation returns the violation of a schedule, or "" if it is only the rule itself.
func violation(r logRun) string {
	v := r.verdict()
	if strings.HasPrefix(v, "at rest: ") {
		return ""
	}
	return v
}

// expectNotice fails unless one of the seeds, or of many more, detects the mutant.
func expectNotice(t *testing.T, seeds []uint64) {
	t.Helper()
	for few := range slices.Chunk(append(seeds, logSeeds(searched)...), 4) {
		for _, r := range runLogs(t, few, nil) {
			if v := violation(r); v != "" {
				t.Logf("seed %d: %s", r.seed, v)
				return
			}
		}
	}
	t.Error("no schedule detected it")
}

// noticing returns the schedules that have a violation.
func noticing(t *testing.T, n uint64) (noticed []uint64, first string) {
	for some := range slices.Chunk(logSeeds(n), inBubble) {
		for _, r := range runLogs(t, some, nil) {
			if v := violation(r); v != "" {
				if len(noticed) == 0 {
					first = v
				}
				noticed = append(noticed, r.seed)
			}
		}
	}
	return noticed, first
}
