package killrun_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

// allAnswers is the period in which every answer is replaced, in the first cycle of a run.
const allAnswers = 10 * time.Second

// A proxy replaces answers of the S3 server: errors and pages with a status of success, truncated and
// corrupt bodies. Nothing acknowledged is lost, no server ends by itself once it serves, the only
// refusal is 503, and no conversation is quarantined. Every second server starts under these answers.
// A failed start is repeated.
func TestKillRunAnswers(t *testing.T) {
	s3server.Each(t, func(t *testing.T, s *s3server.Server) {
		began, cycles := time.Now(), 0
		for i, seeds := range groups(t, max(2, *cyclesFlag/14), 5) {
			t.Run(fmt.Sprint(i), func(t *testing.T) { killUnderAnswers(t, s, seeds) })
			cycles += len(seeds)
		}
		t.Logf("%d cycles, %v", cycles, time.Since(began).Round(time.Second))
	})
}

func killUnderAnswers(t *testing.T, s *s3server.Server, seeds []uint64) {
	store := noderun.NewBucket(t, s)
	a := s3server.NewAnswers(t, store.Endpoint, seeds[0])
	behind := store
	behind.Endpoint = a.Endpoint
	behind.Probe(t)
	rep := performWith(t, behind, seeds, func(r *run) {
		r.answers = a
		for i := range r.cycles {
			if !startsUnderAnswers(i) {
				r.cycles[i].Kill = laterKill(i, r.cycles[i].Kill)
			}
		}
	})
	a.Pass()
	bucket, closeBucket, err := store.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeBucket()
	if quarantined, err := storage.ListQuarantine(t.Context(), bucket); err != nil || len(quarantined) > 0 {
		t.Errorf("got %v quarantined, %v, want none; seeds %v", quarantined, err, seeds)
	}
	counts := a.Replaced()
	t.Logf("answers replaced: %v\n%s", counts, rep)
	if len(counts) == 0 {
		t.Errorf("no answer was replaced; seeds %v", seeds)
	}
}

// startsUnderAnswers reports whether answers are replaced when the server of a cycle starts.
func startsUnderAnswers(cycle int) bool { return cycle%2 == 1 }

// laterKill moves a kill to a serving server: it starts with a store that answers well. In the first
// cycle it waits until all answers have been replaced for a while.
func laterKill(i int, k kill) kill {
	switch {
	case i == 0:
		return kill{At: atDelay, Extra: allAnswers + 1500*time.Millisecond}
	case k.At == atStart, k.At == atReady, k.At == atDrain:
		return kill{At: atDelay, Extra: k.Extra + 800*time.Millisecond}
	}
	return k
}
