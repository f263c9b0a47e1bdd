package attackrun_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/sample"
)

const (
	// maxRatio limits the growth of the clients' p99 under attack.
	maxRatio = 5
	// floor is the lower limit of the reference p99: short disturbances of a machine cause as much.
	floor = 20 * time.Millisecond
)

// plan holds the parameters of a run.
type plan struct {
	nodes    int
	seed     uint64
	alone    time.Duration // duration of the phase without attacks
	attacked time.Duration
	rest     time.Duration // mean pause between two rounds of a kind of attack
	between  time.Duration // mean pause between two faults
	size     int
	stall    time.Duration // duration of a store stall
	kinds    []kind
}

func newPlan(nodes int) plan {
	p := plan{
		nodes: nodes, seed: *seedFlag, alone: sample.Of(4*time.Second, time.Second), attacked: sample.Of(8*time.Second, 2*time.Second), rest: time.Second,
		between: sample.Of(4*time.Second, 2*time.Second), size: sample.Of(10, 4), stall: 2 * time.Second, kinds: kinds(),
	}
	if *longFlag {
		p.alone, p.attacked, p.rest, p.between, p.size, p.stall = time.Minute, 15*time.Minute, 8*time.Second, 40*time.Second, 40, 13*time.Second
	}
	if *durationFlag > 0 {
		p.attacked = *durationFlag
		p.alone = min(p.alone, p.attacked/3)
	}
	if *kindsFlag != "" {
		names := strings.Split(*kindsFlag, ",")
		p.kinds = slices.DeleteFunc(p.kinds, func(k kind) bool { return !slices.Contains(names, k.name) })
	}
	return p
}

// TestAttack attacks a node that serves a folder alone, and a cluster over an S3 server. The nodes
// never have the race detector, see program. A test with it attacks one node in a few ways.
func TestAttack(t *testing.T) {
	for _, run := range sample.Of([]string{"one node", "three nodes"}, []string{"one node"}) {
		t.Run(run, func(t *testing.T) {
			perform(t, newPlan(map[string]int{"one node": 1, "three nodes": 3}[run]))
		})
	}
}

// run is one attack on nodes with well-behaved clients.
type run struct {
	*site
	t           *testing.T
	plan        plan
	wellBehaved *wellBehaved
	attack      *attackers
	began       time.Time
	mu          sync.Mutex
	faults      map[string]int
}

func perform(t *testing.T, p plan) {
	s := newSite(t, p.nodes)
	r := &run{site: s, t: t, plan: p, wellBehaved: newWellBehaved(s), attack: newAttackers(s, p), began: time.Now(), faults: map[string]int{}}
	ctx := t.Context()
	if !s.Await(ctx) {
		t.Fatal(strings.Join(s.All(), "\n"))
	}
	r.driveFor(ctx, "warm", p.alone/4)
	r.wellBehaved.takeSamples()
	r.driveFor(ctx, "alone", p.alone)
	baseline := r.wellBehaved.takeSamples()
	over, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		r.enough(ctx)
	}()
	r.drive(ctx, over, "attacked", func() { r.besiege(over) }, func() { r.trouble(ctx, over) })
	attacked := r.wellBehaved.takeSamples()
	if s.Await(ctx) {
		r.logf("meters: %v", interesting(s.meters(ctx)))
	}
	r.wellBehaved.client.Close()
	s.Leave() // A kill may come between a checkpoint and the head that names it, which verify reports.
	s.Close()
	r.verdict(ctx, baseline, attacked)
	if flaws := s.All(); len(flaws) > 0 {
		const most = 20
		t.Errorf("%d flaws:\n%s", len(flaws), strings.Join(flaws[:min(len(flaws), most)], "\n"))
	}
}

// besiege runs the attackers until ctx ends.
func (r *run) besiege(ctx context.Context) {
	if err := r.attack.run(ctx); err != nil {
		r.Fail("attackers: %v", err)
	}
}

// logf writes a note for humans.
func (r *run) logf(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("+%v "+format, append([]any{time.Since(r.began).Round(time.Millisecond)}, args...)...)
}

// enough waits until the attack has lasted its time, and every kind has hit at least once. Kinds that
// have not hit much later are failures.
func (r *run) enough(ctx context.Context) {
	began := time.Now()
	_ = noderun.Pause(ctx, r.plan.attacked)
	for len(r.missing()) > 0 && len(r.All()) == 0 && time.Since(began) < r.plan.attacked+liveness {
		if noderun.Pause(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// missing returns the kinds and faults without a hit.
func (r *run) missing() []string {
	names := r.attack.missing(r.plan.kinds)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, label := range []string{"kill", "stall"} {
		if r.faults[label] == 0 {
			names = append(names, label)
		}
	}
	return names
}

// driveFor runs the clients for a while.
func (r *run) driveFor(ctx context.Context, phase string, d time.Duration) {
	over, end := context.WithTimeout(ctx, d)
	defer end()
	r.drive(ctx, over, phase)
}

// drive runs the clients until over ends, and others concurrently.
func (r *run) drive(ctx, over context.Context, phase string, others ...func()) {
	var tasks sync.WaitGroup
	for _, o := range others {
		tasks.Go(o)
	}
	r.wellBehaved.run(ctx, over, phase, r.plan.seed)
	tasks.Wait()
}

// trouble kills and stops nodes, and stalls their store, until over ends. Every kind comes once before
// any is repeated, which happens in a long run.
func (r *run) trouble(ctx, over context.Context) {
	dice := rand.New(rand.NewPCG(r.plan.seed, 0x6661756c74))
	var deck []string
	for noderun.Pause(over, r.plan.between/2+time.Duration(dice.Int64N(int64(r.plan.between)))) == nil && len(r.All()) == 0 {
		if len(deck) == 0 {
			if len(r.faults) > 0 && !*longFlag {
				return
			}
			deck = []string{"kill", "leave", "stall"}
			dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		n, label := r.nodes[dice.IntN(len(r.nodes))], deck[0]
		deck = deck[1:]
		end := r.wellBehaved.begin(fmt.Sprintf("%s %v", label, n))
		began := time.Now()
		switch label {
		case "kill":
			n.Kill()
		case "leave":
			n.Leave()
		case "stall":
			r.stall(ctx, n)
		}
		n.Want(true)
		r.Await(ctx)
		r.mu.Lock()
		r.faults[label]++
		r.mu.Unlock()
		end()
		r.logf("%s of %v, served again after %v", label, n, time.Since(began).Round(time.Millisecond))
	}
}

// stall stalls the store of all nodes, or the node if the store is a folder.
func (r *run) stall(ctx context.Context, n *node) {
	resume := func() { n.Signal(syscall.SIGCONT) }
	if r.store == nil {
		n.Signal(syscall.SIGSTOP)
	} else {
		resume = r.store.Pause()
	}
	_ = noderun.Pause(ctx, r.plan.stall)
	resume()
}

// verdict checks the promises, and logs the numbers.
func (r *run) verdict(ctx context.Context, alone, attacked []latency) {
	refused, out := r.wellBehaved.verdict()
	for _, f := range refused {
		r.Fail("well-behaved client refused: %s", f)
	}
	r.logf("hits: %v", r.attack.hits)
	for _, label := range slices.Sorted(maps.Keys(r.attack.unexpected)) {
		r.logf("unexpected: %d x %s", r.attack.unexpected[label], label)
	}
	r.logf("faults: %v; 503 with Retry-After to well-behaved clients: %v", r.faults, out)
	if missing := r.missing(); len(missing) > 0 {
		r.Fail("no hit of %q", missing)
	}
	for _, n := range r.nodes {
		peak := n.peak.Load()
		r.logf("%v: peak RSS %d MiB over %d starts", n, peak>>20, n.Starts())
		if peak > memoryBytes {
			r.Fail("%v: peak RSS %d MiB, want at most %d", n, peak>>20, memoryBytes>>20)
		}
	}
	quiet := r.wellBehaved.quiet(attacked)
	for _, label := range []string{timeAdmitted, timeSettled, timeRead} {
		base, now := percentile(alone, label, 0.99), percentile(quiet, label, 0.99)
		ratio := float64(now) / float64(max(base, floor))
		r.logf("%s: alone %d, p50 %v, p99 %v; attacked %d, p50 %v, p99 %v (%.1f x %v), with faults p50 %v p99 %v", label,
			count(alone, label), percentile(alone, label, 0.5), base, count(quiet, label), percentile(quiet, label, 0.5), now, ratio, max(base, floor),
			percentile(attacked, label, 0.5), percentile(attacked, label, 0.99))
		if *longFlag && ratio > maxRatio {
			r.Fail("p99 of %s is %v under attack, more than %d times %v", label, now, maxRatio, max(base, floor))
		}
	}
	checked, err := r.wellBehaved.audit(ctx)
	if err != nil {
		r.Fail("read the logs: %v", err)
	}
	r.logf("%d answers, %d acknowledged messages checked", r.wellBehaved.answers, checked)
	if checked == 0 {
		r.Fail("no message was acknowledged")
	}
	r.verify(ctx)
}

// interesting returns the nonzero metrics of refusals and of leftovers.
func interesting(all map[string]float64) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != 0 && !strings.Contains(name, "_bucket_request_seconds") && !strings.Contains(name, "_events_") {
			out = append(out, fmt.Sprintf("%s=%.0f", strings.TrimPrefix(name, "parley_"), all[name]))
		}
	}
	return out
}
