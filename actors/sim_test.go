package actors

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/chaos"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
)

const (
	simSweepEvery   = 10 * time.Second
	simShedAfter    = 3 * time.Second
	simIdleAfter    = 15 * time.Second
	simFirstEvent   = 4 * time.Second
	simRetryPause   = 300 * time.Millisecond
	simCompactGrace = 500 * time.Millisecond
)

var (
	simSeed      = flag.Int64("seed", -1, "run this seed of the simulation alone and tell its trace")
	simSchedules = flag.Uint64("schedules", 800, "run so many schedules of the simulation")
)

// simNode is a node as a schedule sees it: the real runtime on a local host.
type simNode struct {
	*Runtime
	host *simHost
}

func (n *simNode) Kill() { n.host.kill() }

func (n *simNode) Rest() (listed, active int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.journal.held()), len(n.active)
}

func openSimBucket(rt http.RoundTripper) (storage.Bucket, error) {
	return s3.New(&s3.Options{
		Endpoint: local.Endpoint, Bucket: local.Bucket, Region: local.Region, PathStyle: true, Transport: rt,
	})
}

func buildSimNode(site chaos.Site, fleet *simFleet) (chaos.Node, error) {
	bucket, err := openSimBucket(site.Transport)
	if err != nil {
		return nil, err
	}
	rt, err := newRuntime(bucket, &Options{
		Agents: site.Agents, Providers: site.Providers, Logger: site.Logger,
		FirstEvent: simFirstEvent, BetweenEvents: simFirstEvent / 2, HookTimeout: simFirstEvent / 2, RetryPause: simRetryPause,
		IdleShedAfter: simShedAfter, IdleAfter: simIdleAfter, SweepEvery: simSweepEvery, CheckpointBatches: 4, CompactBatches: 4, CompactGrace: simCompactGrace,
	})
	if err != nil {
		return nil, err
	}
	rt.pageBytes = 600
	rt.entropy = func(key conversation.Key) io.Reader { return site.Entropy(string(key)) }
	h := newSimHost(site, fleet)
	h.rt = rt
	rt.attach(h)
	return &simNode{rt, h}, nil
}

// runSeed runs one schedule.
func runSeed(t *testing.T, system *actor.ActorSystem, seed uint64) *chaos.Report {
	t.Helper()
	var report *chaos.Report
	synctest.Test(t, func(t *testing.T) {
		store := local.NewMemory()
		fleet := &simFleet{system: system, hosts: map[string]*simHost{}}
		var err error
		report, err = chaos.Run(context.Background(), chaos.Options{
			Seed: seed, Store: store, Open: openSimBucket, SweepEvery: simSweepEvery,
			Build: func(site chaos.Site) (chaos.Node, error) { return buildSimNode(site, fleet) },
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		time.Sleep(time.Second) // The actor system's count of dead letters ends by itself.
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return report
}

// TestSimulation runs schedules with every rule in force.
func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		report := runSeed(t, newSimSystem(t), uint64(*simSeed))
		t.Logf("%s\n%v", strings.Join(report.Trace(), "\n"), report.Shown)
		if report.Violation != "" {
			t.Errorf("seed %d: %s", *simSeed, report.Violation)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // Schedules leave much behind and hold little.
	seeds := keptSeeds(t)
	for seed := range *simSchedules {
		seeds = append(seeds, seed)
	}
	const shards = 20
	system := newSimSystem(t)
	var mu sync.Mutex
	total := chaos.Shown{}
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < len(seeds); i += shards {
					report := runSeed(t, system, seeds[i])
					if report.Violation != "" {
						t.Errorf("seed %d, to be kept in testdata/seeds.txt: %s\n%s", seeds[i], report.Violation, strings.Join(report.Trace(), "\n"))
						return
					}
					mu.Lock()
					total.Add(report.Shown)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d schedules: %v", len(seeds), total)
	if n := int(*simSchedules); !t.Failed() && n >= 100 {
		for _, what := range total.Lacking(n) {
			t.Errorf("too little has happened to show anything: %s", what)
		}
	}
}

// keptSeeds are seeds that have failed once: they run always.
func keptSeeds(t *testing.T) []uint64 {
	t.Helper()
	data, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	for line := range strings.Lines(string(data)) {
		number, _, _ := strings.Cut(line, "#")
		if number = strings.TrimSpace(number); number == "" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("testdata/seeds.txt: %v", err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
