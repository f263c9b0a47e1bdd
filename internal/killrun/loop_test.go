package killrun_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

var loopFlag = flag.Duration("loop", sample.Of(15*time.Second, 6*time.Second), "kill the server of the kill loop every 3 seconds for so long")

const (
	loopConvs = 64              // conversations of the kill loop
	loopEvery = 3 * time.Second // between two kills
)

// loop is a server that is killed at a fixed interval, and its clients.
type loop struct {
	noderun.Notes
	t      *testing.T
	place  noderun.Place
	dir    string
	vendor string
	reaper *proc.Reaper
	client *noderun.Client
	site   *site

	mu       sync.Mutex
	admitted [loopConvs][]conversation.SubmissionID
	kills    int
}

// A busy server is killed every 3 seconds. No conversation causes the crashes: none is quarantined,
// and everything acknowledged settles once the kills end.
func TestKillLoop(t *testing.T) {
	l := &loop{
		t: t, place: noderun.Place{Dir: t.TempDir()}, dir: t.TempDir(), vendor: startVendor(t, newCounters()),
		reaper: proc.ReaperOf(t), client: noderun.NewClient(liveness), site: newSite(),
	}
	defer l.client.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for n := range loopConvs {
		clients.Go(func() { l.drive(ctx, n) })
	}
	for began := time.Now(); time.Since(began) < *loopFlag && !l.Any(); l.kills++ {
		if l.kills%100 == 99 {
			t.Logf("%d kills, %d admitted after %v", l.kills, l.count(), time.Since(began).Round(time.Second))
		}
		l.live()
	}
	stop()
	clients.Wait()
	last := l.start()
	l.settle(last)
	if err := last.Stop(liveness); err != nil {
		l.Fail("stop the last server: %v", err)
	}
	l.audit()
	for _, flaw := range l.All() {
		t.Error(flaw)
	}
}

func (l *loop) start() *server {
	s, err := startServer(l.reaper, serverConfig{
		Place: l.place, Vendor: l.vendor, Ledger: filepath.Join(l.dir, "ledger"), Idle: 500 * time.Millisecond,
	}, filepath.Join(l.dir, fmt.Sprintf("server-%d.log", l.kills)))
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// live runs one server from its start to its kill.
func (l *loop) live() {
	s := l.start()
	kill := time.NewTimer(loopEvery)
	defer kill.Stop()
	select {
	case <-s.Ready():
		if base, err := s.Await(l.t.Context()); err == nil {
			l.site.set(base)
		}
		<-kill.C
	case <-kill.C:
	}
	l.site.set("")
	s.Kill()
	for _, flaw := range s.flaws() {
		l.Fail("server %d: %s", l.kills, flaw)
	}
	_ = os.Remove(s.Log) // Its flaws are recorded.
}

// count returns the number of messages with a receipt.
func (l *loop) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ids := range l.admitted {
		n += len(ids)
	}
	return n
}

// drive sends one message after the other until ctx ends. It retries each until it has a receipt.
func (l *loop) drive(ctx context.Context, n int) {
	dice := rand.New(rand.NewPCG(uint64(n), 0x6c6f6f70))
	for i := 0; noderun.Pause(ctx, time.Duration(dice.IntN(2000))*time.Millisecond) == nil; i++ {
		script := fmt.Sprintf("pace=%dms tokens=%d", 1+dice.IntN(10), 1+dice.IntN(80))
		if dice.IntN(3) == 0 {
			script = fmt.Sprintf(`tool=slow {"ms":%d} then %s`, dice.IntN(500), script)
		}
		body := noderun.Message(fmt.Sprint(n, ".", i), script)
		answer, header, err := l.insist(ctx, dice, n, body)
		if err != nil {
			if ctx.Err() == nil {
				l.Fail("message %d of conversation %d: %v", i, n, err)
			}
			return
		}
		r, err := noderun.ReadReceipt(answer, header)
		if err != nil {
			l.Fail("message %d of conversation %d: %v", i, n, err)
			return
		}
		l.mu.Lock()
		l.admitted[n] = append(l.admitted[n], r.SubmissionID)
		l.mu.Unlock()
	}
}

// insist sends a message to the current server until it is answered.
func (l *loop) insist(ctx context.Context, dice *rand.Rand, n int, body []byte) ([]byte, http.Header, error) {
	for {
		base, err := l.site.get(ctx)
		if err != nil {
			return nil, nil, err
		}
		answer, header, err := l.client.Do(ctx, http.MethodPost, base+loopPath(n), body)
		if err == nil || noderun.Broken(err) {
			return answer, header, err
		}
		if err := noderun.Pause(ctx, time.Duration(20+dice.IntN(80))*time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
}

func loopPath(n int) string { return fmt.Sprintf("/agents/worker/talk-%d", n) }

// settle waits until all acknowledged messages are settled. It only reads.
func (l *loop) settle(s *server) {
	ctx, cancel := context.WithTimeout(l.t.Context(), liveness+*loopFlag) // Clients may have a large backlog.
	defer cancel()
	base, err := s.Await(ctx)
	if err != nil {
		l.Fail("the last server is not ready: %v", err)
		return
	}
	for n := range loopConvs {
		for pending := l.admitted[n]; len(pending) > 0; {
			answer, header, err := l.client.Do(ctx, http.MethodGet, base+loopPath(n), nil)
			if err == nil {
				var snap *conversation.Snapshot
				if snap, err = noderun.ReadSnapshot(answer, header); err == nil {
					pending = unsettled(snap, l.admitted[n])
				}
			}
			if noderun.Broken(err) || noderun.Pause(ctx, 10*time.Millisecond) != nil {
				l.Fail("conversation %d has %d pending submissions: %v", n, len(pending), err)
				break
			}
		}
	}
}

// unsettled returns the submissions without a settlement in a snapshot.
func unsettled(s *conversation.Snapshot, ids []conversation.SubmissionID) (out []conversation.SubmissionID) {
	settled := map[conversation.SubmissionID]bool{}
	for _, s := range s.Settlements {
		settled[s.SubmissionID] = true
	}
	for _, id := range ids {
		if !settled[id] {
			out = append(out, id)
		}
	}
	return out
}

// audit reads the bucket after all nodes have ended.
func (l *loop) audit() {
	bucket, closeBucket, err := l.place.Open()
	if err != nil {
		l.Fail("%v", err)
		return
	}
	defer func() {
		if err := closeBucket(); err != nil {
			l.Fail("close the bucket: %v", err)
		}
	}()
	quarantined, err := storage.ListQuarantine(l.t.Context(), bucket)
	if err != nil || len(quarantined) > 0 {
		l.Fail("quarantined: %v, %v, want none", quarantined, err)
	}
	logs := storage.NewLogs(bucket, nil)
	admitted, outcomes := 0, map[conversation.Outcome]int{}
	for n := range loopConvs {
		view := noderun.NewLogView("worker", fmt.Sprint("talk-", n))
		if err := view.Read(l.t.Context(), logs); err != nil {
			l.Fail("log of conversation %d: %v", n, err)
		}
		found := map[conversation.SubmissionID]*noderun.Admitted{}
		for _, a := range view.Order {
			found[a.Submission] = a
		}
		for _, id := range l.admitted[n] {
			admitted++
			a := found[id]
			if a == nil || len(a.Settled) != 1 {
				l.Fail("submission %s of conversation %d is in the log as %+v, want one settlement", id, n, a)
				continue
			}
			outcomes[a.Settled[0]]++
		}
	}
	l.t.Logf("%d kills, %d admitted, settled %v, %d quarantined", l.kills, admitted, outcomes, len(quarantined))
}
