package busy

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

// inBubble runs a test in virtual time on a sweeper whose journal is written.
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

// listedNow returns what the newest journal of this node lists.
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

// TestSlowReadIsAnnounced: a read that takes long stands in the journal until it is over, and
// one of a suspect before it begins, one at a time.
func TestSlowReadIsAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		key := listed("x", "n").Conv
		over, err := r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(SlowOpening - time.Millisecond)
		if got := listedNow(t, bucket); got != nil {
			t.Errorf("listed at once: %v", got)
		}
		again, err := r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, e := range listedNow(t, bucket) {
			if e.Conv != key || !e.Opening || !isReading(e.Nonce) || e.Seq != -1 {
				t.Errorf("listed %+v", e)
			}
		}
		if got := listedNow(t, bucket); len(got) != 2 {
			t.Errorf("two readings are listed as %v", got)
		}
		over()
		again()
		time.Sleep(time.Second)
		if got := listedNow(t, bucket); len(got) != 0 {
			t.Errorf("still listed: %v", got)
		}

		r.Asides.suspect(map[conversation.Key][]death{key: {{entry: opened("x")}}})
		over, err = r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got := listedNow(t, bucket); len(got) != 1 {
			t.Errorf("a suspect is read while the journal says %v", got)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Reading(short, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two suspects are read at once: %v", err)
		}
		over()
		over, err = r.Reading(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		over()
	})
}

// TestOpeningUnderWayIsAnnounced: a log that is being opened for a caller stands in the journal
// once a sweep asks for the conversation, unless it is a suspect, which waits for its turn.
func TestOpeningUnderWayIsAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		id := ID{listed("x", "n").Conv, "n-opening"}
		read, leave, err := r.EnterOpening(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(SlowOpening - time.Millisecond)
		if got := listedNow(t, bucket); len(got) != 0 {
			t.Errorf("listed for a caller: %v", got)
		}
		r.AnnounceOpening(id)
		time.Sleep(time.Second)
		if got := listedNow(t, bucket); len(got) != 1 || !got[0].Opening || isReading(got[0].Nonce) {
			t.Errorf("listed for a sweep: %v", got)
		}
		read()
		leave()
		r.Journal.Opened(id)
		r.Asides.suspect(map[conversation.Key][]death{id.Conv: {{entry: opened("x")}}})
		r.AnnounceOpening(id)
		if got := r.Journal.Held(); len(got) != 0 {
			t.Errorf("a suspect is listed before its turn: %v", got)
		}
		_, leave, err = r.EnterOpening(t.Context(), id, false)
		if got := listedNow(t, bucket); err != nil || len(got) != 1 {
			t.Errorf("a suspect is opened while the journal says %v: %v", got, err)
		}
		leave()
	})
}

// TestDeathsThatCount: those of nodes over an opening, each node once, until the conversation
// was opened. A node that read its log makes it a suspect and no more.
func TestDeathsThatCount(t *testing.T) {
	o := &oracle{answer: func(string) (proto.Message, error) { return &wire.PokeReply{Answer: wire.PokeReply_UNKNOWN}, nil }}
	bucket := memoryBucket(t)
	r := sweeperOf(t, bucket, o)
	twice, read, again := opened("x"), opened("x"), opened("x")
	again.Nonce = "another-opening"
	read.Nonce = r.readingID(read.Conv).Nonce
	writeJournal(t, bucket, "d1", 0, twice, again, listed("y", "n"))
	writeJournal(t, bucket, "d2", 0, read, listed("y", "n"))
	look := func(died int, suspect bool) {
		t.Helper()
		if _, err := r.takeStock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := r.Asides.died(twice.Conv); n != died || r.Asides.Suspects(twice.Conv) != suspect {
			t.Errorf("%d nodes died over it, want %d; suspect: %t", n, died, !suspect)
		}
	}
	look(1, true)
	writeJournal(t, bucket, "d3", 0, twice)
	look(2, true)
	r.Survived(twice.Conv)
	if r.Asides.Suspects(twice.Conv) {
		t.Error("what was opened is a suspect")
	}
	look(0, false)
	writeJournal(t, bucket, "d4", 0, read)
	look(0, true)
}

// TestSuspectsThatDoNotAnswer come last, and hold up a sweep for no longer than one of them.
func TestSuspectsThatDoNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Sweeper, bucket storage.Bucket) {
		var order []string
		silent := opened("silent")
		o := &oracle{answer: func(id string) (proto.Message, error) {
			order = append(order, id)
			if id == string(silent.Conv) {
				time.Sleep(PokeTimeout)
				return nil, context.DeadlineExceeded
			}
			return &wire.PokeReply{Answer: wire.PokeReply_HELD}, nil
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
				t.Error("a sweep that leaves something returned no error")
			}
			if took := time.Since(began); took > PokeTimeout+time.Second {
				t.Errorf("sweep %d took %v", n, took)
			}
		}
		asked := map[string]int{}
		for _, id := range order {
			asked[id]++
		}
		for _, id := range others {
			if asked[id] != 1 {
				t.Errorf("%s was asked for %d times", id, asked[id])
			}
		}
		if asked[string(silent.Conv)] != 3 || order[len(order)-1] != string(silent.Conv) || order[len(order)-2] != string(silent.Conv) {
			t.Errorf("asked for %v", order)
		}
	})
}
