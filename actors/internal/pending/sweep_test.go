package pending

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// oracle is all owners, with answers set by the test. It counts requests by identity.
type oracle struct {
	answer func(id string) (proto.Message, error)

	mu    sync.Mutex
	asked map[string]int
}

func (o *oracle) Request(_ context.Context, id string, _ proto.Message) (proto.Message, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == nil {
		o.asked = map[string]int{}
	}
	o.asked[id]++
	return o.answer(id)
}

func (o *oracle) takeAsked() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.asked
	o.asked = nil
	return out
}

// sweeperOf returns a sweeper of the node "me" whose owners are the oracle.
func sweeperOf(t *testing.T, bucket storage.Bucket, o *oracle) *Sweeper {
	t.Helper()
	return New(Options{
		Bucket: bucket, Logger: slog.New(slog.DiscardHandler), Member: "me", Every: 30 * time.Second, QuarantineAfter: 3, Wall: time.Now,
		IsMember: func(string) bool { return false }, Passive: func() bool { return false }, Request: o.Request,
		Writes: func(conversation.Key, storage.Nonce) bool { return false }, BeforeSweep: func() {},
		Owns: func(conversation.Key) bool { return true },
	})
}

func memoryBucket(t *testing.T) storage.Bucket {
	t.Helper()
	return waiting.ToClose(t, local.NewMemory())
}

// listings is an empty bucket that records listings of its journals.
type listings struct {
	storage.Bucket // nil: unused
	began          time.Time

	mu sync.Mutex
	at []time.Duration
}

func (l *listings) List(_ context.Context, q storage.ListQuery) (storage.ListPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.Prefix != "pending/" {
		return storage.ListPage{}, nil
	}
	l.at = append(l.at, time.Since(l.began))
	return storage.ListPage{}, nil
}

func (l *listings) take() []time.Duration {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.at
	l.at = nil
	return out
}

// TestRequestsDoNotPostponeASweep requests sweeps faster than they run.
func TestRequestsDoNotPostponeASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &listings{began: time.Now()}
		r := sweeperOf(t, bucket, &oracle{})
		r.o.Every = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.Run(ctx) })
		defer wg.Wait()
		defer cancel()
		until := func(at time.Duration) { <-time.After(at - time.Since(bucket.began)) }
		sweeps := func(name string, want ...time.Duration) {
			t.Helper()
			if diff := cmp.Diff(want, bucket.take()); diff != "" {
				t.Errorf("sweeps %s (-want +got):\n%s", name, diff)
			}
		}
		sweeps("at the start", 0)

		for at := 10 * time.Second; at < 20*time.Second; at += SoonAfter / 4 {
			until(at)
			r.SweepSoon()
		}
		until(59 * time.Second)
		got := bucket.take()
		if len(got) < 8 || len(got) > 11 || got[0] != 10*time.Second+SoonAfter {
			t.Errorf("sweeps at %v under constant requests", got)
		}
		for i := 1; i < len(got); i++ {
			if pause := got[i] - got[i-1]; pause < SoonAfter || pause > 2*SoonAfter {
				t.Errorf("%v between requested sweeps: %v", pause, got)
			}
		}

		last := got[len(got)-1]
		until(last + time.Minute + time.Millisecond)
		sweeps("without requests", last+time.Minute)
		until(last + 2*time.Minute - SoonAfter/2)
		r.SweepSoon()
		until(last + 2*time.Minute + 2*SoonAfter)
		sweeps("asked for shortly before it is due", last+2*time.Minute)
	})
}

func listed(agent, nonce string) storage.JournalEntry {
	return storage.JournalEntry{Conv: conversation.Address{Agent: agent, ID: "1"}.Key(), Nonce: storage.Nonce(nonce), Seq: 3}
}

func askedOnce(entries ...storage.JournalEntry) map[string]int {
	var out map[string]int
	for _, e := range entries {
		if out == nil {
			out = map[string]int{}
		}
		out[string(e.Conv)]++
	}
	return out
}

func writeJournal(t *testing.T, bucket storage.Bucket, member string, n int64, entries ...storage.JournalEntry) {
	t.Helper()
	j := storage.Journal{Member: member, N: n, Entries: entries}
	if err := storage.NewJournalWriter(bucket).Write(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func wantJournals(t *testing.T, bucket storage.Bucket, want ...string) {
	t.Helper()
	refs, err := storage.Journals(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ref := range refs {
		got = append(got, ref.Keys...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored journals (-want +got):\n%s", diff)
	}
}

// TestAnswersOutliveAnUnanswerableEntry sweeps a journal with one entry that is never answered. The
// others are probed once.
func TestAnswersOutliveAnUnanswerableEntry(t *testing.T) {
	one, two, stuck := listed("one", "n"), listed("two", "n"), listed("unregistered", "n")
	repaired := false
	o := &oracle{answer: func(id string) (proto.Message, error) {
		if id == string(stuck.Conv) && !repaired {
			return &wire.ProbeReply{Answer: wire.ProbeReply_UNKNOWN}, nil
		}
		return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil
	}}
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, o)
	key := func(n int64) string { return storage.JournalKey("dead", n) }
	sweep := func(name string, complete bool, want map[string]int) {
		t.Helper()
		if err := r.Sweep(t.Context()); (err == nil) != complete {
			t.Errorf("%s: sweep returned %v", name, err)
		}
		if diff := cmp.Diff(want, o.takeAsked()); diff != "" {
			t.Errorf("%s: probed (-want +got):\n%s", name, diff)
		}
	}
	writeJournal(t, bucket, "dead", 0, one, two, stuck)
	sweep("first", false, askedOnce(one, two, stuck))
	for range 3 {
		sweep("again", false, askedOnce(stuck))
	}
	wantJournals(t, bucket, key(0))

	// A newer journal landed late. The same conversation under another writer, at another position, or
	// in another journal is a new entry.
	later, farther, more := listed("one", "m"), one, listed("three", "n")
	farther.Seq++
	writeJournal(t, bucket, "dead", 1, one, later, farther, more, stuck)
	sweep("newer journal", false, askedOnce(later, farther, more, stuck))
	writeJournal(t, bucket, "dead2", 0, one)
	sweep("another's journal", false, askedOnce(one, stuck))
	wantJournals(t, bucket, key(0), key(1))

	repaired = true
	sweep("repaired", true, askedOnce(stuck))
	wantJournals(t, bucket)
	sweep("all answered", true, nil)
	if len(r.answers) != 0 {
		t.Errorf("answers of deleted journals are kept: %v", r.answers)
	}
	writeJournal(t, bucket, "dead", 2, one)
	sweep("answers dropped", true, askedOnce(one))
}

// TestAnswersSurviveAFailedListing keeps answers while the bucket cannot be listed.
func TestAnswersSurviveAFailedListing(t *testing.T) {
	one, stuck := listed("one", "n"), listed("unregistered", "n")
	o := &oracle{answer: func(id string) (proto.Message, error) {
		if id == string(stuck.Conv) {
			return nil, errors.New("no owner")
		}
		return &wire.ProbeReply{Answer: wire.ProbeReply_SETTLED}, nil
	}}
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, o)
	writeJournal(t, bucket, "dead", 0, one, stuck)
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("sweep with an unanswered entry returned no error")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Sweep(over); err == nil {
		t.Error("sweep with a failed listing returned no error")
	}
	o.takeAsked()
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("sweep with an unanswered entry returned no error")
	}
	if diff := cmp.Diff(askedOnce(stuck), o.takeAsked()); diff != "" {
		t.Errorf("probed (-want +got):\n%s", diff)
	}
}

// TestSweepRemovesOwnReplacedJournals: numbers of this node land after they were abandoned.
func TestSweepRemovesOwnReplacedJournals(t *testing.T) {
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, &oracle{})
	key := func(n int64) string { return storage.JournalKey("me", n) }
	sweep := func() {
		t.Helper()
		if err := r.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	writeJournal(t, bucket, "me", 0)
	sweep() // No landed journal is known, so none is replaced.
	wantJournals(t, bucket, key(0))

	r.Journal.numbers.Newest = 4
	next := r.Journal.compose()
	if next.N != 5 {
		t.Fatalf("composed number %d", next.N)
	}
	for _, n := range []int64{3, 4, 5} {
		writeJournal(t, bucket, "me", n)
	}
	r.Journal.land(5)
	writeJournal(t, bucket, "me", r.Journal.compose().N) // landed, but its response is not received yet
	var want []string
	for n := range int64(7) {
		want = append(want, key(n))
	}
	wantJournals(t, bucket, slices.Delete(want, 1, 3)...)
	sweep()
	wantJournals(t, bucket, key(5), key(6))
	sweep()
	wantJournals(t, bucket, key(5), key(6))
}

func opened(agent string) storage.JournalEntry {
	e := listed(agent, "n-opening")
	e.Seq, e.Opening = -1, true
	return e
}

// marked returns an entry of an opening by a node, with a mark.
func marked(agent, member, mark string) storage.JournalEntry {
	e := opened(agent)
	e.Nonce = storage.Nonce(member + mark + "1")
	return e
}

// TestSuspectsComeLast sweeps journals of nodes that crashed over conversations. Suspects are probed
// one after the other, after all others, those with fewest crashes first. Those with too many are not
// probed.
func TestSuspectsComeLast(t *testing.T) {
	once, twice, thrice, calm := listed("once", "n"), listed("twice", "n"), listed("thrice", "n"), listed("calm", "n")
	var order []string
	var mu sync.Mutex
	o := &oracle{answer: func(id string) (proto.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, id)
		return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil
	}}
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, o)
	writeJournal(t, bucket, "d1", 0, once, twice, thrice, opened("once"), opened("twice"), calm)
	writeJournal(t, bucket, "d2", 0, once, marked("twice", "d2", aloneMark))
	for _, member := range []string{"d3", "d4", "d5"} {
		writeJournal(t, bucket, member, 0, marked("thrice", member, aloneMark))
	}
	if _, err := r.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.Quarantine.Refused(thrice.Conv) == nil || r.Quarantine.Refused(twice.Conv) != nil {
		t.Error("before the sweep: want only the conversation with 3 crashes refused")
	}
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		string(calm.Conv), string(once.Conv), string(once.Conv), string(once.Conv), string(twice.Conv), string(twice.Conv), string(twice.Conv),
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("probed (-want +got):\n%s", diff)
	}
	wantJournals(t, bucket)
	a, err := storage.ReadQuarantine(t.Context(), bucket, thrice.Conv)
	if err != nil || a.Failures != 3 {
		t.Errorf("quarantined: %+v, %v, want 3 failures", a, err)
	}
	if !r.Quarantine.Suspects(once.Conv) {
		t.Error("crashes were dropped before the next scan")
	}
	if err := r.Sweep(t.Context()); err != nil || r.Quarantine.Suspects(once.Conv) || r.Quarantine.Suspects(thrice.Conv) {
		t.Errorf("crashes count after their journals were deleted: %v", err)
	}
}

// TestTrialAtStart: a start first opens its own suspects with named crashes, no other suspect, and no
// conversation of another node.
func TestTrialAtStart(t *testing.T) {
	o := &oracle{answer: func(string) (proto.Message, error) { return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil }}
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, o)
	remote := marked("remote", "d1", aloneMark)
	r.o.Owns = func(key conversation.Key) bool { return key != remote.Conv }
	writeJournal(t, bucket, "d1", 0, listed("calm", "n"), opened("suspect"), remote, marked("named", "d1", aloneMark))
	for _, member := range []string{"d2", "d3", "d4"} {
		writeJournal(t, bucket, member, 0, marked("poison", member, aloneMark))
	}
	r.InitialScan(t.Context())
	if diff := cmp.Diff(askedOnce(marked("named", "d1", aloneMark)), o.takeAsked()); diff != "" {
		t.Errorf("probed (-want +got):\n%s", diff)
	}
}

// TestQuarantineAnswers: entries of quarantined conversations are removed, those of released ones
// stay, and none is removed while the quarantine is unknown.
func TestQuarantineAnswers(t *testing.T) {
	o := &oracle{answer: func(string) (proto.Message, error) { return &wire.ProbeReply{Answer: wire.ProbeReply_UNKNOWN}, nil }}
	bucket := &unlistable{Bucket: memoryBucket(t)}
	r := sweeperOf(t, bucket, o)
	sick := listed("sick", "n")
	writeJournal(t, bucket, "dead", 0, sick)
	writeJournal(t, bucket, "back-1", 0, sick)
	if _, err := storage.PutQuarantine(t.Context(), bucket, storage.Quarantine{Conv: sick.Conv}); err != nil {
		t.Fatal(err)
	}
	if err := r.loadQuarantine(t.Context()); err != nil {
		t.Fatal(err)
	}
	bucket.prefix = "quarantine/"
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("sweep with an unknown quarantine returned no error")
	}
	wantJournals(t, bucket, storage.JournalKey("back-1", 0), storage.JournalKey("dead", 0))
	bucket.prefix = ""
	if err := r.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	wantJournals(t, bucket, storage.JournalKey("back-1", 0))
	if asked := o.takeAsked(); asked != nil {
		t.Errorf("probed %v", asked)
	}
	if err := bucket.Delete(t.Context(), storage.QuarantineKey(sick.Conv)); err != nil {
		t.Fatal(err)
	}
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("released conversation was not probed")
	}
	if diff := cmp.Diff(askedOnce(sick), o.takeAsked()); diff != "" {
		t.Errorf("probed (-want +got):\n%s", diff)
	}
}

// unlistable is a bucket that fails to list below a prefix.
type unlistable struct {
	storage.Bucket
	prefix string
}

func (u *unlistable) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if u.prefix != "" && q.Prefix == u.prefix {
		return storage.ListPage{}, &storage.Error{Op: "list", Key: q.Prefix, Kind: storage.ErrRefused}
	}
	return u.Bucket.List(ctx, q)
}

// TestReleaseResetsSuspicion: a released conversation is probed by each start, even if the journals of
// nodes that crashed over it still exist.
func TestReleaseResetsSuspicion(t *testing.T) {
	sick, slow := listed("sick", "n"), listed("slow", "n")
	answer := wire.ProbeReply_UNKNOWN
	bucket := memoryBucket(t)
	for i, member := range []string{"d1", "d2", "d3"} {
		e := opened("sick")
		e.Nonce = storage.Nonce(member + "-opening")
		writeJournal(t, bucket, member, int64(i), e, slow)
	}
	if _, err := storage.PutQuarantine(t.Context(), bucket, storage.Quarantine{Conv: sick.Conv}); err != nil {
		t.Fatal(err)
	}
	if err := storage.PutBack(t.Context(), bucket, sick.Conv); err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // a restart loses in-memory state
		o := &oracle{answer: func(id string) (proto.Message, error) {
			if id == string(slow.Conv) {
				return &wire.ProbeReply{Answer: answer}, nil
			}
			return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil
		}}
		r := sweeperOf(t, bucket, o)
		if err := r.Sweep(t.Context()); err == nil {
			t.Error("incomplete sweep returned no error")
		}
		if asked := o.takeAsked(); asked[string(sick.Conv)] != 1 {
			t.Errorf("start %d probed %v", n, asked)
		}
		if r.Quarantine.Suspects(sick.Conv) || r.Quarantine.Count() != 0 {
			t.Errorf("start %d: released conversation is a suspect or quarantined (%d quarantined)", n, r.Quarantine.Count())
		}
		if n > 0 {
			answer = wire.ProbeReply_SETTLED
			for range 2 {
				if err := r.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
	wantJournals(t, bucket)
}

// TestOneSlowProbe: a hung new owner delays no other conversation's handover.
func TestOneSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sweeperOf(t, &listings{}, &oracle{})
		r.o.Request = func(ctx context.Context, id string, _ proto.Message) (proto.Message, error) {
			if id == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.RunProbes(ctx)
		}()
		r.Journal.List(ID{"slow", "n"}, 0, func() {})
		r.ProbeSoon()
		synctest.Wait()
		r.Journal.List(ID{"fast", "n"}, 0, func() {})
		began := time.Now()
		for len(r.Journal.Held()) > 1 && time.Since(began) < time.Minute {
			r.ProbeSoon()
			time.Sleep(20 * time.Millisecond)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("probe waited %v for another conversation's owner", d)
		}
		cancel()
		<-done
	})
}
