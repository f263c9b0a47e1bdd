package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/local"
)

// BenchmarkRuns starts runs of three steps and waits for them, 64 concurrently, on one node over a
// folder. Use -benchtime 10000x to run as many.
func BenchmarkRuns(b *testing.B) {
	store, err := local.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	add := agent.NewWorkflow("add", func(ctx context.Context, n int) (int, error) {
		for i := range 3 {
			m, err := agent.Step(ctx, fmt.Sprint("step ", i), func(context.Context) (int, error) { return i, nil })
			if err != nil {
				return 0, err
			}
			n += m
		}
		return n, nil
	}, nil)
	rt, err := actors.New(store, &actors.Options{Agents: []*agent.Agent{add.Definition()}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	runs := rt.Reader().(conversation.RunReader)
	before, cpu, most := heap(), processorTime(b), uint64(0)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id, err := add.Begin(ctx, rt, fmt.Sprint("run ", n), int(n))
				if err != nil {
					b.Error(err)
					return
				}
				if _, run, err := conversation.AwaitRun(ctx, runs, id); err != nil || string(run.Output) != fmt.Sprint(n+3) {
					b.Errorf("run %d: got %+v, %v", n, run, err)
					return
				}
			}
		})
	}
	sampled := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(sampled)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-tick.C:
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	wg.Wait()
	b.StopTimer()
	close(done)
	<-sampled
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(float64(processorTime(b)-cpu)/float64(time.Millisecond)/float64(b.N), "cpu-ms/run")
	b.ReportMetric(float64(most-min(most, before))/(1<<20), "MiB-most")
	b.ReportMetric(float64(heap()-min(heap(), before))/(1<<20), "MiB-left")
}

// heap returns the heap in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
