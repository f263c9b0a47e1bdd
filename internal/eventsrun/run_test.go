package eventsrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/storage"
)

const (
	nodes   = 3
	outages = 3
	// manyEvents is the number of events that exhausts a node's memory for events.
	manyEvents = 200_000
	// lastConvs is the number of conversations that begin after all others, and the minimum of those
	// before. With so many every node has some.
	lastConvs = 32
	// sampled is the number of conversations whose events are compared as JSON.
	sampled = 12
)

// run is a cluster with its clients and its results.
type run struct {
	*cluster
	events int
	seed   uint64
	load   *load
	rand   *rand.Rand
	away   atomic.Bool // whether the database server is down
	began  time.Time
	puts   map[string]int64 // writes of each export journal, by its highest observed number
	gone   int              // durable events shipped by the killed node, just before
}

func TestEventsRun(t *testing.T) {
	r := &run{cluster: newCluster(t), events: *eventsFlag, seed: *seedFlag, puts: map[string]int64{}, began: time.Now()}
	r.rand = rand.New(rand.NewPCG(r.seed, 0x65766e7473))
	clients := sample.Of(10, 3)
	if r.events >= manyEvents {
		clients = 32
	}
	r.load = newLoad(&client{r.cluster}, r.seed, clients, max(6*clients, lastConvs, r.events/500))
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { r.watchMemory(ctx, r.away.Load) })
	err := r.perform(ctx)
	cancel()
	watching.Wait()
	if err != nil {
		t.Errorf("after %v: %v", time.Since(r.began), err)
	}
	r.stop()
	r.checkMemory()
	if t.Failed() {
		t.Logf("to repeat the schedule: -events %d -seed %d", r.events, r.seed)
	}
}

// logf writes a note for humans.
func (r *run) logf(format string, args ...any) {
	r.t.Logf("+%-8v %s", time.Since(r.began).Round(10*time.Millisecond), fmt.Sprintf(format, args...))
}

func (r *run) perform(ctx context.Context) error {
	for range nodes {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	r.logf("%d nodes serve", nodes)
	if err := r.trouble(ctx); err != nil {
		return err
	}
	r.logf("%d messages settled, no more posts", len(r.load.rounds))
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	r.logf("the nodes have caught up")
	before, err := r.scrapeAll(ctx)
	if err != nil {
		return err
	}
	if err := r.lastConversations(ctx); err != nil {
		return err
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	r.logf("the last conversations are stored")
	return errors.Join(r.checkDurable(ctx), r.checkLive(ctx, before))
}

// trouble runs clients during the outages and the loss of a node.
func (r *run) trouble(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	begun := time.Now()
	go func() {
		err := r.load.run(ctx, over)
		if err != nil {
			cancel(errors.New("a client failed"))
		}
		done <- err
	}()
	var err error
	for i := range outages {
		// Each in a third of the first half, so that the nodes catch up while there is more.
		at := r.events * (i*10 + 1 + r.rand.IntN(8)) / (2 * outages * 10)
		if err = r.produce(ctx, at); err == nil {
			err = r.outage(ctx, i)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = r.produce(ctx, r.events)
	}
	end()
	err = errors.Join(err, <-done)
	took := time.Since(begun)
	r.logf("%d events and more in %v, %.0f in a second", r.load.made(), took.Round(time.Millisecond), float64(r.load.made())/took.Seconds())
	return err
}

// produce waits until that many events are made. A long run exceeds the timeout of a single wait.
func (r *run) produce(ctx context.Context, events int) error {
	for made := r.load.made(); made < events; made = r.load.made() {
		next := min(events, made+10_000)
		if err := until(ctx, fmt.Sprintf("%d events are made", next), func() (bool, error) { return r.load.made() >= next, nil }); err != nil {
			return err
		}
	}
	return nil
}

// outage kills the database server under load, and restarts it after every client has had a message
// settled. In the last, long outage a node is killed.
func (r *run) outage(ctx context.Context, i int) error {
	if err := r.filling(ctx); err != nil {
		return err
	}
	r.server.Stop()
	r.away.Store(true)
	gone := time.Now()
	r.logf("database killed")
	least := time.Duration(500+r.rand.IntN(1500)) * time.Millisecond
	if r.events >= manyEvents {
		least *= 5
	}
	if err := noderun.Pause(ctx, least); err != nil {
		return err
	}
	if i == outages-1 {
		if err := r.replace(ctx); err != nil {
			return err
		}
	}
	err := until(ctx, "every client has a message settled without the database", func() (bool, error) {
		_, clients := r.load.since(gone)
		return clients == r.load.clients, nil
	})
	if err != nil {
		return err
	}
	settled, _ := r.load.since(gone)
	r.logf("%d messages posted and settled during the outage, some by each of %d clients", settled, r.load.clients)
	r.away.Store(false)
	if err := r.server.Restart(ctx); err != nil {
		return err
	}
	r.logf("database restarted after %v", time.Since(gone).Round(time.Millisecond))
	return nil
}

// filling waits until every node has stored an event since the first scrape.
func (r *run) filling(ctx context.Context) error {
	before, err := r.scrapeAll(ctx)
	if err != nil {
		return err
	}
	return until(ctx, "every node stores durable events", func() (bool, error) {
		now, err := r.scrapeAll(ctx)
		for id, m := range now {
			if m.shipped <= before[id].shipped {
				return false, err
			}
		}
		return true, err
	})
}

// replace kills a node with pending events of conversations that are recorded nowhere else, and starts
// another.
func (r *run) replace(ctx context.Context) error {
	running := r.running()
	victim := running[r.rand.IntN(len(running))]
	if err := until(ctx, fmt.Sprintf("export journals of %v list something", victim), func() (bool, error) {
		listed, err := r.listed(ctx)
		return listed[victim.member] > 0, err
	}); err != nil {
		return err
	}
	if r.events >= manyEvents {
		if err := r.overflow(ctx); err != nil {
			return err
		}
	}
	listed, err := r.listed(ctx)
	if err != nil {
		return err
	}
	m, err := victim.scrape(ctx)
	if err != nil {
		return err
	}
	r.logf("export journals list %v conversations; %v is killed with %+v", listed, victim, m)
	r.gone = m.shipped
	r.kill(victim)
	err = r.start(ctx)
	r.logf("replacement node serves")
	return err
}

// overflow waits until a node makes events from logs because its memory for events is exhausted.
func (r *run) overflow(ctx context.Context) error {
	for {
		all, err := r.scrapeAll(ctx)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.behind > 0 {
				return nil
			}
		}
		if err := r.produce(ctx, r.load.made()+1000); err != nil {
			return err
		}
	}
}

// listed counts the entries of the export journals of each member.
func (r *run) listed(ctx context.Context) (map[string]int, error) {
	refs, err := storage.ExportJournals(ctx, r.bucket)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, ref := range refs {
		r.puts[ref.Member+"/"+strconv.Itoa(ref.Shard)] = ref.N + 1
		j, err := storage.ReadExportJournal(ctx, r.bucket, ref.Member, ref.Shard, ref.N)
		if errors.Is(err, storage.ErrNotFound) {
			out[ref.Member]++ // It was just replaced; the next poll reads it.
			continue
		}
		if err != nil {
			return nil, err
		}
		out[ref.Member] += len(j.Entries)
	}
	return out, nil
}

// busy counts the entries of the pending-work journals of all members.
func (r *run) busy(ctx context.Context) (n int, err error) {
	refs, err := storage.Journals(ctx, r.bucket)
	if err != nil {
		return 0, err
	}
	for _, ref := range refs {
		j, err := storage.ReadJournal(ctx, r.bucket, ref.Member, ref.N)
		if errors.Is(err, storage.ErrNotFound) {
			n++ // It was just replaced; the next poll reads it.
			continue
		}
		if err != nil {
			return 0, err
		}
		n += len(j.Entries)
	}
	return n, nil
}

// scrapeAll reads the metrics of the running nodes, by incarnation.
func (r *run) scrapeAll(ctx context.Context) (map[string]metrics, error) {
	out := map[string]metrics{}
	for _, n := range r.running() {
		m, err := n.scrape(ctx)
		if err != nil {
			return nil, err
		}
		out[n.member] = m
	}
	return out, nil
}

// catchUp waits until all events are exported, live ones included, so that the final counts can be
// compared with those before. No client posts. A conversation is in a pending-work journal until all
// its events are stored or an export journal lists it, so the pending-work journals are read first.
func (r *run) catchUp(ctx context.Context) error {
	var left string
	err := until(ctx, "the nodes have caught up", func() (bool, error) {
		busy, err := r.busy(ctx)
		if err != nil {
			return false, err
		}
		listed, err := r.listed(ctx)
		if err != nil {
			return false, err
		}
		all, err := r.scrapeAll(ctx)
		if err != nil {
			return false, err
		}
		left = fmt.Sprintf("pending-work journals list %d, export journals %v, the nodes are at %+v", busy, listed, all)
		for _, n := range listed {
			busy += n
		}
		for _, m := range all {
			busy += m.waiting + m.behind + m.busy + m.underWay()
		}
		return busy == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%w; %s", err, left)
	}
	return nil
}

// lastConversations begins new conversations, so that every node emits an event.
func (r *run) lastConversations(ctx context.Context) error {
	errs := make([]error, lastConvs)
	var wg sync.WaitGroup
	for i := range lastConvs {
		wg.Go(func() {
			k := newConv(r.seed, 1<<20+i)
			k.sent++
			errs[i] = r.load.send(ctx, i, k, message{key: k.id, text: "note=" + k.id + " tokens=3", events: 10})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkDurable compares the durable events with those of the logs.
func (r *run) checkDurable(ctx context.Context) error {
	sample := r.sample()
	keys := make([]conversation.Key, len(sample))
	for i, at := range sample {
		keys[i] = at.Key()
	}
	want, err := readTruth(ctx, r.bucket, keys)
	if err != nil {
		return err
	}
	r.checkSettlements(want)
	rows, err := r.ask(ctx, "SELECT event_id FROM events WHERE NOT live ORDER BY event_id")
	if err != nil {
		return err
	}
	have := make([]string, len(rows))
	for i, row := range rows {
		have[i] = row[0]
	}
	for _, f := range compare(want.ids, have) {
		r.t.Error(f)
	}
	var numbers [3]int
	for i, query := range []string{
		"SELECT count() FROM events WHERE NOT live", "SELECT uniqExact(event_id) FROM events_raw WHERE NOT live", "SELECT count() FROM events_raw WHERE NOT live",
	} {
		if numbers[i], err = r.number(ctx, query); err != nil {
			return err
		}
	}
	if numbers[0] != len(want.ids) || numbers[1] != len(want.ids) {
		r.t.Errorf("the view shows %d events and the table has %d ids, want %d as in the logs", numbers[0], numbers[1], len(want.ids))
	}
	if len(want.ids) < r.events {
		r.t.Errorf("the logs have %d events, want %d at least", len(want.ids), r.events)
	}
	all, err := r.scrapeAll(ctx)
	if err != nil {
		return err
	}
	shipped := r.gone
	for _, m := range all {
		shipped += m.shipped
	}
	r.logf("logs of %d conversations have %d durable events, the nodes shipped %d; the view shows %d, the table has %d ids in %d rows",
		len(want.settlements), len(want.ids), shipped, numbers[0], numbers[1], numbers[2])
	return r.checkSample(ctx, sample, want)
}

// sample chooses conversations whose events are compared as JSON.
func (r *run) sample() (out []conversation.Address) {
	for range sampled {
		out = append(out, conversation.Address{Agent: agentName, ID: newConv(r.seed, r.rand.IntN(min(cap(r.load.idle), r.load.begun))).id})
	}
	slices.SortFunc(out, func(a, b conversation.Address) int { return strings.Compare(a.ID, b.ID) })
	return slices.Compact(out)
}

// checkSettlements checks that the logs settle each message once, and exactly those whose settlement a
// client received.
func (r *run) checkSettlements(want *truth) {
	sum := 0
	for _, n := range want.settlements {
		sum += n
	}
	if sum != len(r.load.rounds) {
		r.t.Errorf("logs have %d settlements, clients received %d", sum, len(r.load.rounds))
	}
	if len(want.settlements) != r.load.begun {
		r.t.Errorf("bucket has %d conversations, clients began %d", len(want.settlements), r.load.begun)
	}
}

// checkSample compares the stored events of some conversations with their logs.
func (r *run) checkSample(ctx context.Context, sample []conversation.Address, want *truth) error {
	db, err := clickhouse.Open(ctx, clickhouse.Options{Addresses: []string{r.server.Addr()}, Database: database})
	if err != nil {
		return err
	}
	defer db.Close()
	n := 0
	for _, at := range sample {
		have, err := durable(ctx, db, at)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want.shown[at.Key()], have); diff != "" {
			r.t.Errorf("events of %s (-logs +database):\n%.4000s", at.ID, diff)
		}
		n += len(have)
	}
	if n == 0 {
		r.t.Error("the sample has no events")
	}
	r.logf("%d events of %d conversations are equal", n, len(sample))
	return nil
}

// checkLive checks the live events of the nodes that were not killed, once the last of them are
// stored.
func (r *run) checkLive(ctx context.Context, before map[string]metrics) error {
	var flaws, reports []string
	err := until(ctx, "the live events of all nodes add up", func() (bool, error) {
		flaws, reports = nil, nil
		rows, err := r.liveOf(ctx)
		if err != nil {
			return false, err
		}
		after, err := r.scrapeAll(ctx)
		if err != nil {
			return false, err
		}
		for _, n := range r.running() {
			e := emission{before[n.member], after[n.member], rows[n.member], outages}
			for _, f := range e.flaws() {
				flaws = append(flaws, fmt.Sprintf("%v: %s", n, f))
			}
			reports = append(reports, fmt.Sprintf("%v emitted %d live events: %d are stored, %d dropped, the table has %d; %d writes failed",
				n, e.rows.highest+1, e.after.live(), e.after.dropped, e.rows.ids, e.after.fails))
			if e.after.lost != 0 {
				return false, fmt.Errorf("%v has abandoned logs: %+v", n, e.after)
			}
			if e.after.failing {
				flaws = append(flaws, fmt.Sprintf("%v: sink is failing", n))
			}
		}
		return len(flaws) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(flaws, "; "))
	}
	for _, line := range reports {
		r.logf("%s", line)
	}
	return nil
}

// checkMemory checks the memory peaks of the nodes.
func (r *run) checkMemory() {
	bound := boundMiB
	if sample.Raced() {
		bound = racedBoundMiB
	}
	for _, n := range r.all {
		away, here := n.memory.of(true), n.memory.of(false)
		r.logf("%v: peak RSS %d MiB, %d without the database", n, max(away, here), away)
		if max(away, here) > bound {
			r.t.Errorf("%v: peak RSS %d MiB, want at most %d", n, max(away, here), bound)
		}
	}
	var puts int64
	for _, n := range r.puts {
		puts += n
	}
	r.logf("export journals were written about %d times", puts)
	if puts == 0 {
		r.t.Error("no export journal was written")
	}
}
