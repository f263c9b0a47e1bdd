package pending

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// inBubble runs a test in virtual time with a sweeper whose journal runs.
func inBubble(t *testing.T, test func(t *testing.T, r *Sweeper, bucket storage.Bucket)) {
	synctest.Test(t, func(t *testing.T) {
		store := local.NewMemory()
		var bucket storage.Bucket = store
		r := sweeperOf(t, bucket, &oracle{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Journal.Run(ctx)
		}()
		test(t, r, bucket)
		cancel()
		<-done
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func listedNow(t *testing.T, bucket storage.Bucket) []storage.JournalEntry {
	t.Helper()
	refs, err := storage.Journals(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		if ref.Member == "me" {
			j, err := storage.ReadJournal(t.Context(), bucket, ref.Member, ref.N)
			if err != nil {
				t.Fatal(err)
			}
			return j.Entries
		}
	}
	return nil
}

// TestSlowReadIsAnnounced: a slow read is listed until it ends. A read of a suspect is listed before
// it begins, one at a time.
func TestSlowReadIsAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		key := listed("x", "n").Conv
		over, err := r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(SlowOpening - time.Millisecond)
		if got := listedNow(t, bucket); got != nil {
			t.Errorf("listed immediately: %v, want none", got)
		}
		again, err := r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, e := range listedNow(t, bucket) {
			if e.Conv != key || !e.Opening || !hasMark(e.Nonce, readMark) || e.Seq != -1 {
				t.Errorf("listed %+v, want an opening", e)
			}
		}
		if got := listedNow(t, bucket); len(got) != 2 {
			t.Errorf("two reads are listed as %v, want 2 entries", got)
		}
		over()
		again()
		time.Sleep(time.Second)
		if got := listedNow(t, bucket); len(got) != 0 {
			t.Errorf("still listed: %v, want none", got)
		}

		r.Quarantine.suspect(map[conversation.Key][]crash{key: {{entry: opened("x")}}})
		over, err = r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got := listedNow(t, bucket); len(got) != 1 {
			t.Errorf("read of a suspect is listed as %v", got)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Reading(short, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two suspects read concurrently: %v", err)
		}
		over()
		over, err = r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		over()
	})
}

// TestOpeningUnderWayIsAnnounced: an opening for a caller is listed once a sweep asks for the
// conversation, unless it is a suspect, which waits for its turn.
func TestOpeningUnderWayIsAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		id := ID{listed("x", "n").Conv, "n-opening"}
		read, leave, err := r.EnterOpening(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(SlowOpening - time.Millisecond)
		if got := listedNow(t, bucket); len(got) != 0 {
			t.Errorf("listed for a caller: %v, want none", got)
		}
		r.AnnounceOpening(id)
		time.Sleep(time.Second)
		if got := listedNow(t, bucket); len(got) != 1 || !got[0].Opening || hasMark(got[0].Nonce, readMark) {
			t.Errorf("listed for a sweep: %v, want an opening", got)
		}
		read()
		leave()
		r.Journal.Opened(id)
		r.Quarantine.suspect(map[conversation.Key][]crash{id.Conv: {{entry: opened("x")}}})
		r.AnnounceOpening(id)
		if got := r.Journal.Held(); len(got) != 0 {
			t.Errorf("suspect listed before its turn: %v", got)
		}
		_, leave, err = r.EnterOpening(t.Context(), id, false)
		if got := listedNow(t, bucket); err != nil || len(got) != 1 {
			t.Errorf("opening of a suspect is listed as %v: %v", got, err)
		}
		leave()
	})
}

// TestOpeningsAfterACrash: after a detected crash, openings and reads for callers are listed before
// they begin.
func TestOpeningsAfterACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		writeJournal(t, bucket, "dead", 0)
		id := ID{listed("x", "n").Conv, "n-opening"}
		lists := func(name string, want int) {
			t.Helper()
			_, leave, err := r.EnterOpening(t.Context(), id, false)
			if err != nil {
				t.Fatal(err)
			}
			over, err := r.Reading(t.Context(), id.Conv)
			if err != nil {
				t.Fatal(err)
			}
			if got := listedNow(t, bucket); len(got) != want {
				t.Errorf("%s: listed %v, want %d", name, got, want)
			}
			r.Journal.Opened(id)
			leave()
			over()
			time.Sleep(time.Second)
		}
		lists("before it is known", 0)
		if _, err := r.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		lists("after a crash", 2)
		time.Sleep(afterCrash)
		lists("later", 0)
	})
}

// TestCrashesThatCount: a crash counts if the node had no other work, until the conversation was
// opened. Each crash in the pause before an opening cancels one.
func TestCrashesThatCount(t *testing.T) {
	alone := func(member string) storage.JournalEntry { return marked("x", member, aloneMark) }
	for name, tt := range map[string]struct {
		journals       [][]storage.JournalEntry
		named, counted int
		suspect        bool
	}{
		"worked on":            {[][]storage.JournalEntry{{listed("x", "n")}}, 0, 0, false},
		"opened among others":  {[][]storage.JournalEntry{{opened("x"), opened("y")}, {opened("x")}}, 0, 0, true},
		"read among others":    {[][]storage.JournalEntry{{marked("x", "d0", readMark)}}, 0, 0, true},
		"alone":                {[][]storage.JournalEntry{{alone("d0")}, {alone("d1"), listed("x", "n")}}, 2, 2, true},
		"with other work":      {[][]storage.JournalEntry{{alone("d0"), listed("y", "n")}}, 1, 0, true},
		"with another opening": {[][]storage.JournalEntry{{alone("d0"), opened("y")}}, 1, 0, true},
		"in the pause":         {[][]storage.JournalEntry{{alone("d0")}, {alone("d1")}, {marked("x", "d2", pauseMark)}}, 2, 1, true},
		"pauses alone":         {[][]storage.JournalEntry{{marked("x", "d0", pauseMark)}, {marked("x", "d1", pauseMark)}}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := memoryBucket(t)
			for i, entries := range tt.journals {
				writeJournal(t, bucket, fmt.Sprint("d", i), 0, entries...)
			}
			r := sweeperOf(t, bucket, &oracle{})
			key := opened("x").Conv
			check := func(named, counted int, suspect bool) {
				t.Helper()
				if _, err := r.scan(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n, c := r.Quarantine.evidence(key); n != named || c != counted || r.Quarantine.Suspects(key) != suspect {
					t.Errorf("named %d, counted %d, suspect %t, want %d, %d, %t", n, c, r.Quarantine.Suspects(key), named, counted, suspect)
				}
			}
			check(tt.named, tt.counted, tt.suspect)
			r.Survived(key)
			check(0, 0, false)
		})
	}
}

// TestCleanOpeningIsDurable: crashes over a conversation that was opened since do not count, even for
// a node that starts while the journals that report them exist.
func TestCleanOpeningIsDurable(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		e := marked("x", "dead", aloneMark)
		writeJournal(t, bucket, "dead", 0, e, listed("y", "n"))
		if _, err := r.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, leave, err := r.EnterOpening(t.Context(), ID{e.Conv, "n-opening"}, true)
		if err != nil {
			t.Fatal(err)
		}
		r.Survived(e.Conv)
		leave()
		next := sweeperOf(t, bucket, &oracle{})
		if _, err := next.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next.Quarantine.Suspects(e.Conv) {
			t.Error("opened conversation is a suspect after a restart")
		}
	})
}

// TestSuspectIsOpenedAlone: while a suspect is opened, its opening is listed, and nothing else is
// opened or read, for a limited time.
func TestSuspectIsOpenedAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		suspect, calm := opened("x").Conv, ID{listed("y", "n").Conv, "n-opening"}
		r.Quarantine.suspect(map[conversation.Key][]crash{suspect: {{entry: opened("x")}}})
		read, leaveCalm, err := r.EnterOpening(t.Context(), calm, false)
		if err != nil {
			t.Fatal(err)
		}
		entered := make(chan func())
		enter := func() {
			_, leave, err := r.EnterOpening(t.Context(), ID{suspect, "n-opening"}, true)
			if err != nil {
				t.Error(err)
			}
			entered <- leave
		}
		go enter()
		time.Sleep(soloWait / 2)
		select {
		case <-entered:
			t.Fatal("suspect opened concurrently with another conversation")
		default:
		}
		read()
		r.Journal.Opened(calm)
		leaveCalm()
		leave := <-entered
		if got := listedNow(t, bucket); len(got) != 1 || got[0].Conv != suspect || !hasMark(got[0].Nonce, aloneMark) {
			t.Errorf("journal lists %v while a suspect is opened", got)
		}
		short, cancel := context.WithTimeout(t.Context(), soloTimeout/2)
		defer cancel()
		if _, _, err := r.EnterOpening(short, calm, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another conversation opened concurrently with a suspect: %v", err)
		}
		if _, err := r.Reading(short, calm.Conv); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another conversation read concurrently with a suspect: %v", err)
		}
		long, cancel := context.WithTimeout(t.Context(), soloTimeout)
		defer cancel()
		read, leaveCalm, err = r.EnterOpening(long, calm, false)
		if err != nil {
			t.Fatalf("opening waits for a slow suspect: %v", err)
		}
		if got := listedNow(t, bucket); len(got) != 1 || hasMark(got[0].Nonce, aloneMark) {
			t.Errorf("slow suspect is listed as %v", got)
		}
		read()
		leaveCalm()
		leave()
		time.Sleep(time.Second)
		if got := r.Journal.Held(); len(got) != 0 {
			t.Errorf("journal lists %v after the opening, want none", got)
		}
		r.Quarantine.suspect(map[conversation.Key][]crash{suspect: {{entry: marked("x", "d", aloneMark), named: true, counts: true}}})
		r.Journal.List(ID{calm.Conv, "n"}, 0, func() {})
		began := time.Now()
		go enter()
		leave = <-entered
		if waited := time.Since(began); waited < holdTimeout {
			t.Errorf("suspect waited %v for a busy node, want %v", waited, holdTimeout)
		}
		leave()
		r.Journal.Answered(ID{calm.Conv, "n"})
		go enter()
		time.Sleep(10 * time.Millisecond)
		if got := listedNow(t, bucket); len(got) != 1 || !hasMark(got[0].Nonce, pauseMark) {
			t.Errorf("journal lists %v before a suspect is opened on an idle node", got)
		}
		leave = <-entered
		if got := listedNow(t, bucket); len(got) != 1 || !hasMark(got[0].Nonce, aloneMark) {
			t.Errorf("journal lists %v after the pause", got)
		}
		leave()
	})
}

// TestSuspectsThatDoNotAnswer: they come last, and delay a sweep by one timeout only.
func TestSuspectsThatDoNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		var order []string
		silent := opened("silent")
		o := &oracle{answer: func(id string) (proto.Message, error) {
			order = append(order, id)
			if id == string(silent.Conv) {
				time.Sleep(ProbeTimeout)
				return nil, context.DeadlineExceeded
			}
			return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}, nil
		}}
		r.o.Request = o.Request
		var others []string
		entries := []storage.JournalEntry{silent, listed("silent", "n")}
		for i := range 10 {
			e := opened(fmt.Sprint(i))
			entries, others = append(entries, e), append(others, string(e.Conv))
		}
		writeJournal(t, bucket, "dead", 0, entries...)
		for n := range 3 {
			began := time.Now()
			if err := r.Sweep(t.Context()); err == nil {
				t.Error("incomplete sweep returned no error")
			}
			if took := time.Since(began); took > ProbeTimeout+time.Second {
				t.Errorf("sweep %d took %v, want one timeout", n, took)
			}
		}
		asked := map[string]int{}
		for _, id := range order {
			asked[id]++
		}
		for _, id := range others {
			if asked[id] != 1 {
				t.Errorf("%s probed %d times", id, asked[id])
			}
		}
		if asked[string(silent.Conv)] != 3 || order[len(order)-1] != string(silent.Conv) || order[len(order)-2] != string(silent.Conv) {
			t.Errorf("probed %v", order)
		}
	})
}
