package clusterrun_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// plan holds the parameters of a run.
type plan struct {
	seed   uint64
	nodes  int
	convs  int
	total  time.Duration // duration of the faults
	think  time.Duration // mean pause between two messages of a conversation
	strict bool
	// answers replaces answers of the bucket from the first fault to the end of the last one.
	answers bool
}

// shortRun is the duration of the faults in a run of the list.
const shortRun = 25 * time.Second

func newPlan(seed uint64) plan {
	p := plan{seed: seed, nodes: *nodesFlag, convs: sample.Of(12, 6), total: shortRun, think: 4 * time.Second, strict: seed%2 == 0}
	if *longFlag {
		p.convs, p.total, p.think = 300, 5*time.Minute, 20*time.Second
	}
	if *convsFlag > 0 {
		p.convs = *convsFlag
	}
	if *durationFlag > 0 {
		p.total = *durationFlag
	}
	return p
}

// Nodes wait most of the time, so several runs are concurrent.
func TestClusterRun(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			newRun(t, newPlan(seed)).perform()
		})
	}
}

// seeds returns the seeds of the flag, or of the list. A long run and one with the race detector use
// the first only.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	switch {
	case *seedFlag != "":
		return schedule.Seeds(t, *seedFlag)
	case *longFlag:
		return listed(t)[:1]
	}
	return sample.Of(listed(t), listed(t)[:1])
}

func listed(t *testing.T) []uint64 {
	t.Helper()
	return schedule.Seeds(t, schedule.Lines(t, "testdata/seeds.txt")...)
}

// run is a cluster with its clients and faults.
type run struct {
	*cluster
	t       *testing.T
	plan    plan
	client  *client
	load    *load
	watcher *watcher
	faults  []fault
	heads   []glimpse
	sights  map[string][]noderun.Sight
	counts  schedule.Counts
	notes   []string
	began   time.Time
}

func newRun(t *testing.T, p plan) *run {
	t.Helper()
	file := program(t)
	o := clusterOptions{nodes: p.nodes, strict: p.strict, program: func(int) string { return file }}
	if p.answers {
		o.answers = p.seed
	}
	c := newCluster(t, o)
	r := &run{
		cluster: c, t: t, plan: p, client: &client{c}, watcher: &watcher{bucket: c.bucket}, faults: newFaults(p.seed, p.nodes, p.total),
		sights: map[string][]noderun.Sight{}, counts: schedule.Counts{}, began: time.Now(),
	}
	c.logf = r.logf
	r.load = newLoad(r.client, p.seed, p.convs, p.think)
	return r
}

// logf writes a note for humans.
func (r *run) logf(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf("%s +%v ", time.Now().Format("15:04:05.000"), time.Since(r.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (r *run) perform() {
	r.t.Helper()
	r.playBy(r.steps)
	if r.t.Failed() {
		r.t.Logf("to repeat the schedule: -seed %d", r.plan.seed)
	}
}

// playBy performs steps, which report whether they completed, and checks the result.
func (r *run) playBy(steps func(context.Context) bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		r.watcher.watch(ctx)
	}()
	if steps(ctx) && !r.Any() {
		r.audit(ctx)
	}
	cancel()
	<-watching
	r.close()
	r.client.Client.Close()
	if s := r.untrustedCallers(); len(s) > 0 {
		r.Fail("calls between nodes came from %v, not from an address of a node", s)
	}
	notes := strings.Join(r.notes, "\n") + "\nepochs:\n" + r.watcher.String()
	if flaws := r.All(); len(flaws) > 0 {
		const most = 20
		r.t.Errorf("%s\n%s\n%d flaws:\n%s", notes, r.Tails(), len(flaws), strings.Join(flaws[:min(len(flaws), most)], "\n"))
		return
	}
	r.t.Logf("%+v\n%s", r.plan, notes)
}

// steps runs the phases of a run. It reports whether all completed.
func (r *run) steps(ctx context.Context) bool {
	r.logf("start %d nodes", r.plan.nodes)
	if !r.Start(ctx) {
		return false
	}
	r.trouble(ctx)
	if r.Any() || !r.Await(ctx) {
		return false
	}
	if !r.quiet(ctx) {
		return false
	}
	return r.catchUp(ctx) && r.stop(ctx)
}

// trouble runs clients during the faults.
func (r *run) trouble(ctx context.Context) {
	over, end := context.WithCancel(ctx)
	reads, endReads := context.WithCancel(ctx)
	patience, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.load.read = reads
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.load.run(patience, over)
	}()
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		r.heads = r.load.glimpses(over, r.bucket, r.plan.seed)
	}()
	_ = noderun.Pause(over, r.plan.think) // The conversations exist by then.
	r.answers.Replace(0)
	for _, f := range r.faults {
		if _ = noderun.Pause(over, f.Before); r.Any() {
			break
		}
		r.logf("%v", f)
		r.inject(ctx, f)
		r.logf("fault ended")
	}
	r.answers.Pass()
	r.passed.Store(true)
	r.Await(ctx)
	end()
	late := time.AfterFunc(liveness, func() { cancel(errors.New("no answer from the nodes after all faults ended")) })
	<-done
	<-checked
	late.Stop()
	r.logf("last answers received")
	endReads()
	r.load.reading.Wait()
}

// quiet posts once more everywhere, kills a node and waits until everything is settled, without a
// request to any other node.
func (r *run) quiet(ctx context.Context) bool {
	reads, endReads := context.WithCancel(ctx)
	r.load.resume(reads)
	r.load.burst(ctx)
	endReads()
	r.load.reading.Wait()
	if r.Any() {
		return false
	}
	crashed := r.nodes[int(r.plan.seed%uint64(len(r.nodes)))]
	crashed.Kill()
	r.logf("killed %v permanently, no requests from now on", crashed)
	if len(r.nodes) == 1 {
		crashed.Want(true)
	}
	logs, views := storage.NewLogs(r.bucket, nil), map[string]*logView{}
	began := time.Now()
	for {
		unsettled, err := r.load.settled(ctx, logs, views)
		if err != nil {
			r.Fail("read the logs: %v", err)
			return false
		}
		if len(unsettled) == 0 {
			break
		}
		if time.Since(began) > liveness || noderun.Pause(ctx, 200*time.Millisecond) != nil {
			for _, n := range r.nodes {
				if p := n.Running(); p != nil {
					p.Quit()
				}
			}
			r.Fail("%d messages are not settled without traffic: %q", len(unsettled), unsettled[:min(len(unsettled), 10)])
			return false
		}
	}
	r.logf("all settled after %v", time.Since(began).Round(time.Millisecond))
	crashed.Want(true)
	return r.Await(ctx)
}

// catchUp waits until readers reach the head, and reads everything anew at every node.
func (r *run) catchUp(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, liveness)
	defer cancel()
	reads, endReads := context.WithCancel(ctx)
	r.load.resume(reads)
	defer r.load.reading.Wait()
	defer endReads()
	for i, k := range r.load.convs {
		for _, n := range r.nodes {
			if !r.fresh(ctx, n, k) {
				return false
			}
		}
		head := r.sights[k.id][0].To
		for _, rd := range k.readers {
			for rd.At() < head {
				if err := noderun.Pause(ctx, 5*time.Millisecond); err != nil || r.Any() {
					r.Fail("a reader of %s stays at %s, the head is %s", k.id, rd.At(), head)
					return false
				}
			}
		}
		r.counts["conversations"] = i + 1
	}
	r.logf("all readers are at the head")
	return true
}

// fresh reads a conversation from its beginning at a node.
func (r *run) fresh(ctx context.Context, n *node, k *conv) bool {
	s := noderun.Sight{Name: fmt.Sprintf("a fresh read at %v", n), From: conversation.Start, To: conversation.Start}
	for {
		seen, chunks, err := r.client.updates(ctx, n, k.id, s.To)
		if err != nil && !noderun.Broken(err) && noderun.Pause(ctx, 50*time.Millisecond) == nil {
			continue // It has just become a member.
		}
		if err != nil {
			r.Fail("%s: %s: %v", k.id, s.Name, err)
			return false
		}
		k.observations = append(k.observations, seen)
		s.Chunks, s.To = append(s.Chunks, chunks...), seen.Next
		if seen.UpToDate {
			r.sights[k.id] = append(r.sights[k.id], s)
			return true
		}
	}
}

// stop shuts down all nodes and runs the program's checks over their data.
func (r *run) stop(ctx context.Context) bool {
	for _, n := range r.nodes {
		n.Leave()
	}
	r.logf("all nodes have ended")
	flaws, printed := noderun.Verify(ctx, r.nodes[0].Program, r.nodes[0].Config, r.nodes[0].Env)
	for _, f := range flaws {
		r.Fail("%s", f)
	}
	r.logf("verified: %s", strings.TrimSpace(string(printed[max(0, len(printed)-300):])))
	return true
}

// audit checks all conversations against their logs.
func (r *run) audit(ctx context.Context) {
	logs := storage.NewLogs(r.bucket, nil)
	for _, k := range r.load.convs {
		s := newLogView(k.id)
		if err := s.Read(ctx, logs); err != nil {
			r.Fail("%s: read the log: %v", k.id, err)
			continue
		}
		e := &evidence{logView: s, sights: r.sights[k.id]}
		e.history = history{
			ID: k.id, Order: s.Order, Sent: k.sent, Observations: k.observations, Strict: r.plan.strict, Windows: r.watcher.changes(), Stale: heartbeat,
			Limit: liveness,
		}
		for i, rd := range k.readers {
			seen := rd.Sight(fmt.Sprint("reader ", i))
			e.sights = append(e.sights, seen)
			e.history.Marks = append(e.history.Marks, seen.Marks...)
			r.counts["reconnects"] += seen.Resumed
			r.counts["chunks seen by SSE"] += len(seen.Chunks)
			r.counts["chunks repeated"] += seen.Repeated
		}
		for _, g := range r.heads {
			if g.id == k.id {
				e.heads = append(e.heads, g)
			}
		}
		for _, f := range e.check() {
			r.Fail("%s", f)
		}
		r.count(k, s)
	}
	r.logf("%v", r.counts)
}

// count adds a conversation to the counts.
func (r *run) count(k *conv, s *logView) {
	for _, m := range k.sent {
		r.counts["tries"] += m.Tries
		if m.Receipt != nil && m.Receipt.Deduplicated {
			r.counts["found admitted before"]++
			if m.Tries == 1 { // A node may have tried it at two owners.
				r.counts["found so at the first try"]++
			}
		}
	}
	for _, a := range s.Order {
		r.counts["submissions"]++
		r.counts["attempts beyond the first"] += a.Attempts - 1
		r.counts["attempts released"] += a.Released
	}
	r.counts["reads"] += len(k.observations)
	r.counts["reads not answered"] += k.shed
	r.counts["batches"] += len(s.Hashes)
	r.counts["claims"] += s.Claims
	r.counts["nodes replaced"] = r.Replacements()
}
