package actors

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/chaos"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

const (
	simFirstEvent   = 4 * time.Second
	simRetryPause   = 300 * time.Millisecond
	simPace         = 250 * time.Millisecond
	simSegmentGrace = 500 * time.Millisecond
	simBatchBytes   = 1500         // small, so that concurrently enqueued records are split
	simPartBytes    = 200          // part of a stored output, small enough for a batch
	simIdleBytes    = 2 * 24 << 10 // one idle conversation, on a crowded node
)

// simGaveWay counts idle conversations that were evicted early.
const simGaveWay schedule.Event = "gave way"

var (
	simSeed      = flag.Int64("seed", -1, "run this seed of the simulation alone and tell its trace")
	simJournals  = flag.Bool("journals", false, "run schedules about the pending-work journals alone")
	simWaits     = flag.Bool("waits", false, "run schedules about waits and signals alone")
	simPosts     = flag.Bool("posts", false, "run schedules about posts alone")
	simRuns      = flag.Bool("runs", false, "run schedules about runs of workflows alone")
	simTrees     = flag.Bool("trees", false, "run schedules about trees of dispatches alone")
	simCrowded   = flag.Bool("crowded", false, "run the seed of -seed with nodes that keep few idle conversations")
	simSchedules = flag.Uint64("schedules", sample.Of[uint64](400, 12), "run so many schedules of the simulation, every fourth about the pending-work journals, one about waits, posts, runs or trees, and one crowded")
)

// simProfile configures the schedules of a profile.
type simProfile struct {
	chaos.Profile
	sweepEvery, shedAfter, idleAfter, appendTimeout time.Duration
	logBatches                                      int   // batches until a checkpoint or segment
	idleBytes                                       int64 // 0 is unlimited
}

func simEverything() simProfile {
	return simProfile{chaos.Everything, 10 * time.Second, 3 * time.Second, 15 * time.Second, 0, 4, 0}
}

func simOfJournals() simProfile {
	return simProfile{chaos.Journals, 3 * time.Second, time.Second, 6 * time.Second, 6 * time.Second, 0, 0}
}

// simOfWaits covers waits and signals.
func simOfWaits() simProfile {
	p := simEverything()
	p.Profile = chaos.Waits
	return p
}

// simOfPosts covers posts.
func simOfPosts() simProfile {
	p := simEverything()
	p.Profile = chaos.Posts
	return p
}

// simOfRuns covers runs of workflows.
func simOfRuns() simProfile {
	p := simEverything()
	p.Profile = chaos.Runs
	return p
}

// simOfTrees covers trees of dispatches.
func simOfTrees() simProfile {
	p := simEverything()
	p.Profile = chaos.Trees
	return p
}

// simOfCrowds covers all features on nodes that keep few idle conversations.
func simOfCrowds() simProfile {
	p := simEverything()
	p.idleBytes = simIdleBytes
	return p
}

// simSchedule is one schedule of the simulation.
type simSchedule struct {
	profile simProfile
	seed    uint64
}

func (s simSchedule) String() string {
	switch {
	case s.profile.Profile == chaos.Journals:
		return fmt.Sprintf("journals %d", s.seed)
	case s.profile.Profile == chaos.Posts:
		return fmt.Sprintf("posts %d", s.seed)
	case s.profile.Profile == chaos.Runs:
		return fmt.Sprintf("runs %d", s.seed)
	case s.profile.Profile == chaos.Trees:
		return fmt.Sprintf("trees %d", s.seed)
	case s.profile.Profile == chaos.Waits:
		return fmt.Sprintf("waits %d", s.seed)
	case s.profile.idleBytes > 0:
		return fmt.Sprintf("crowded %d", s.seed)
	}
	return fmt.Sprint(s.seed)
}

// simNode is a node of a schedule: the real runtime on a local host.
type simNode struct {
	*Runtime
	host *simHost
}

func (n *simNode) Kill() { n.host.kill() }

func (n *simNode) Pending() (listed, active int) {
	return len(n.sweeper.Journal.Held()), int(n.active.count())
}

func buildSimNode(site chaos.Site, fleet *simFleet, p simProfile) (chaos.Node, error) {
	rt, err := newRuntime(site.Bucket, &Options{
		Agents: site.Agents, Providers: site.Providers, Logger: site.Logger, Outbox: site.Outbox,
		FirstEvent: simFirstEvent, BetweenEvents: simFirstEvent / 2, HookTimeout: simFirstEvent / 2, Pace: simPace, RetryPause: simRetryPause,
		UnloadAfter: p.shedAfter, EvictAfter: p.idleAfter, IdleBytes: p.idleBytes, SweepEvery: p.sweepEvery, AppendTimeout: p.appendTimeout,
		CheckpointBatches: p.logBatches, SegmentBatches: p.logBatches, SegmentGrace: simSegmentGrace,
	})
	if err != nil {
		return nil, err
	}
	fleet.watch(rt.accounts.idle)
	rt.history.PageBytes, rt.active.machines.MaxBatchBytes = 600, simBatchBytes
	rt.work.PartBytes = simPartBytes
	rt.world.entropy = func(key conversation.Key) io.Reader { return site.Entropy(string(key)) }
	h := newSimHost(site, fleet)
	h.rt = rt
	return &simNode{rt, h}, rt.attach(h)
}

func runSchedule(t *testing.T, system *actor.ActorSystem, s simSchedule) *schedule.Report {
	t.Helper()
	return runScheduleOver(t, system, s, func(store *local.Store) storage.Bucket { return store })
}

// runScheduleOver runs one schedule on a bucket backed by a store.
func runScheduleOver(t *testing.T, system *actor.ActorSystem, s simSchedule, over func(*local.Store) storage.Bucket) *schedule.Report {
	t.Helper()
	var report *schedule.Report
	synctest.Test(t, func(t *testing.T) {
		store := local.NewMemory()
		fleet := &simFleet{system: system, hosts: map[string]*simHost{}}
		var err error
		report, err = chaos.Run(context.Background(), chaos.Options{
			Seed: s.seed, Profile: s.profile.Profile, Store: over(store), SweepEvery: s.profile.sweepEvery,
			Build: func(site chaos.Site) (chaos.Node, error) { return buildSimNode(site, fleet, s.profile) },
		})
		if err != nil {
			t.Fatalf("seed %v: %v", s, err)
		}
		report.Counts[simGaveWay] = fleet.gaveWay()
		time.Sleep(time.Second) // The actor system's dead-letter counter ends by itself.
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return report
}

// TestSimulation runs schedules with every rule enabled.
// covers: protocol/4
func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		s := simSchedule{simEverything(), uint64(*simSeed)}
		if *simJournals {
			s.profile = simOfJournals()
		}
		if *simCrowded {
			s.profile = simOfCrowds()
		}
		if *simWaits {
			s.profile = simOfWaits()
		}
		if *simPosts {
			s.profile = simOfPosts()
		}
		if *simRuns {
			s.profile = simOfRuns()
		}
		if *simTrees {
			s.profile = simOfTrees()
		}
		report := runSchedule(t, newSimSystem(t), s)
		t.Logf("%s\n%v", strings.Join(report.Trace(), "\n"), report.Counts)
		if report.Violation != "" {
			t.Errorf("seed %v: %s", s, report.Violation)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // Schedules produce much garbage and keep little.
	schedules := keptSchedules(t)
	counts := map[chaos.Profile]int{}
	for i := range *simSchedules {
		s := simSchedule{simEverything(), uint64(counts[chaos.Everything])}
		switch {
		case *simJournals || i%4 == 3:
			s = simSchedule{simOfJournals(), uint64(counts[chaos.Journals])}
		case *simTrees || !*simPosts && !*simWaits && !*simRuns && i%16 == 6:
			s = simSchedule{simOfTrees(), uint64(counts[chaos.Trees])}
		case *simRuns || !*simPosts && !*simWaits && i%16 == 9:
			s = simSchedule{simOfRuns(), uint64(counts[chaos.Runs])}
		case *simPosts || !*simWaits && i%8 == 5:
			s = simSchedule{simOfPosts(), uint64(counts[chaos.Posts])}
		case *simWaits || i%4 == 1:
			s = simSchedule{simOfWaits(), uint64(counts[chaos.Waits])}
		case i%4 == 2:
			s.profile = simOfCrowds()
		}
		counts[s.profile.Profile]++
		schedules = append(schedules, s)
	}
	totals := runSchedules(t, schedules)
	for p, n := range counts {
		t.Logf("%d schedules: %v", n, totals[p])
		if t.Failed() || n < 100 {
			continue
		}
		lacking := p.Lacking(totals[p], n)
		if p == chaos.Everything {
			lacking = append(lacking, totals[p].Below(map[schedule.Event]int{simGaveWay: 200}, n)...)
		}
		for _, desc := range lacking {
			t.Errorf("insufficient coverage: %s", desc)
		}
	}
}

// runSchedules runs schedules and returns their coverage.
func runSchedules(t *testing.T, schedules []simSchedule) map[chaos.Profile]schedule.Counts {
	const shards = 20
	system := newSimSystem(t)
	var mu sync.Mutex
	totals := map[chaos.Profile]schedule.Counts{chaos.Everything: {}, chaos.Journals: {}, chaos.Waits: {}, chaos.Posts: {}, chaos.Runs: {}, chaos.Trees: {}}
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < len(schedules); i += shards {
					s := schedules[i]
					report := runSchedule(t, system, s)
					if report.Violation != "" {
						t.Errorf("seed %v, to be kept in testdata/seeds.txt: %s\n%s", s, report.Violation, strings.Join(report.Trace(), "\n"))
						return
					}
					mu.Lock()
					totals[s.profile.Profile].Add(report.Counts)
					mu.Unlock()
				}
			})
		}
	})
	return totals
}

// keptSchedules returns schedules that have failed once: they always run.
func keptSchedules(t *testing.T) []simSchedule {
	t.Helper()
	var out []simSchedule
	for _, line := range schedule.Lines(t, "testdata/seeds.txt") {
		s := simSchedule{profile: simEverything()}
		number := line
		for name, profile := range map[string]simProfile{
			"journals ": simOfJournals(), "waits ": simOfWaits(), "posts ": simOfPosts(), "runs ": simOfRuns(), "trees ": simOfTrees(), "crowded ": simOfCrowds(),
		} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				number, s.profile = rest, profile
			}
		}
		s.seed = schedule.Seeds(t, number)[0]
		out = append(out, s)
	}
	return out
}
