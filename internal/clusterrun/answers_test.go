package clusterrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parleyrun/parley/storage"
)

// TestClusterAnswers runs the cluster run over a bucket whose answers a proxy replaces: 30 % of them while nodes are
// killed, restarted and paused, and all of them for 10 s. The checks are those of the cluster run; in addition no
// conversation is quarantined.
func TestClusterAnswers(t *testing.T) {
	t.Parallel()
	for _, seed := range answerSeeds(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			p := newPlan(seed)
			p.answers = true
			r := newRun(t, p)
			r.faults = answerFaults(seed, p.nodes)
			r.playBy(func(ctx context.Context) bool {
				ended := r.steps(ctx)
				if keys, err := storage.ListQuarantine(ctx, r.bucket); err != nil || len(keys) > 0 {
					r.Fail("got %v quarantined, %v, want none", keys, err)
				}
				r.logf("answers replaced: %v", r.answers.Replaced())
				return ended
			})
			if len(r.answers.Replaced()) == 0 {
				t.Errorf("no answer was replaced; seed %d", seed)
			}
		})
	}
}

// answerSeeds returns the seeds of the flag, or the first one of the list.
func answerSeeds(t *testing.T) []uint64 {
	t.Helper()
	if *seedFlag != "" {
		return seeds(t)
	}
	return listed(t)[:1]
}

// answerFaults returns faults that a bucket with bad answers is combined with: all answers replaced, and nodes that start.
func answerFaults(seed uint64, nodes int) (faults []fault) {
	r := rand.New(rand.NewPCG(seed, 0x616e7377))
	for _, k := range []kind{killOne, bucketHoldAll, rolling, killTwo, pauseOne} {
		if nodes == 1 && k == killTwo {
			continue
		}
		f := fault{Kind: k, Before: milliseconds(r, 300, 2000), Nodes: r.Perm(nodes), For: milliseconds(r, 0, 500)}
		if slices.Contains([]kind{bucketHoldAll, pauseOne}, k) {
			f.For = 10 * time.Second
		}
		faults = append(faults, f)
	}
	return faults
}
