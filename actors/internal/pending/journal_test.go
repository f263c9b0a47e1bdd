package pending

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/series"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// scripted is a bucket whose writes wait for a result from the test.
type scripted struct {
	storage.Bucket // nil: unused
	tb             testing.TB
	puts           chan *heldPut
	stuck          atomic.Bool // deletions hang

	mu      sync.Mutex
	objects map[string][]byte
	deleted []string
}

type heldPut struct {
	key    string
	body   []byte
	result chan error
}

func (s *scripted) Create(ctx context.Context, key string, body storage.Body) error {
	data, err := io.ReadAll(body.Reader)
	if err != nil {
		s.tb.Error(err)
	}
	p := &heldPut{key: key, body: data, result: make(chan error)}
	unknown := &storage.Error{Op: "create", Key: key, Kind: storage.ErrUncertain}
	select {
	case s.puts <- p:
	case <-ctx.Done():
		return unknown
	}
	select {
	case err = <-p.result:
	case <-ctx.Done():
		return unknown
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects[key] = data
	}
	return err
}

func (s *scripted) Delete(ctx context.Context, key string) error {
	if s.stuck.Load() {
		<-ctx.Done()
		return &storage.Error{Op: "delete", Key: key, Kind: storage.ErrUncertain}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	s.deleted = append(s.deleted, key)
	return nil
}

func (s *scripted) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for k := range s.objects {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type bench struct {
	*testing.T
	bucket *scripted
	j      *Journal
	stop   func()
}

func journalBench(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{tb: t, puts: make(chan *heldPut), objects: map[string][]byte{}}
		b := &bench{T: t, bucket: s, j: NewJournal(s, "m", slog.New(slog.DiscardHandler))}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { b.j.Run(ctx) })
		b.stop = func() {
			cancel()
			wg.Wait()
		}
		defer b.stop()
		test(b)
	})
}

func writer(conv, nonce string) ID {
	return ID{conversation.Address{Agent: "a", ID: conv}.Key(), storage.Nonce(nonce)}
}

// list lists a writer; listed reports whether it was called back.
func (b *bench) list(id ID) (listed func() bool) {
	done := make(chan struct{})
	b.j.List(id, 7, func() { close(done) })
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// put waits for the next write and checks its number and entries.
func (b *bench) put(n int64, want ...ID) *heldPut {
	b.Helper()
	p := <-b.bucket.puts
	if key := storage.JournalKey("m", n); p.key != key {
		b.Errorf("write to %s, want %s", p.key, key)
	}
	j, err := storage.DecodeJournal(p.body)
	if err != nil {
		b.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range j.Entries {
		got[string(e.Conv)+" "+string(e.Nonce)] = true
	}
	wanted := map[string]bool{}
	for _, id := range want {
		wanted[string(id.Conv)+" "+string(id.Nonce)] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		b.Errorf("journal %d lists (-want +got):\n%s", n, diff)
	}
	return p
}

func (b *bench) quiet(d time.Duration) {
	b.Helper()
	select {
	case p := <-b.bucket.puts:
		b.Errorf("write to %s, want none", p.key)
		p.result <- nil
	case <-time.After(d):
	}
}

func (b *bench) want(name string, got, want bool) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %v, want %v", name, got, want)
	}
}

func (b *bench) wantStored(numbers ...int64) {
	b.Helper()
	synctest.Wait()
	var want []string
	for _, n := range numbers {
		want = append(want, storage.JournalKey("m", n))
	}
	if diff := cmp.Diff(want, b.bucket.stored()); diff != "" {
		b.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestJournalListsOnlyLandedEntries(t *testing.T) {
	journalBench(t, func(b *bench) {
		one, two, three := writer("1", "n1"), writer("2", "n2"), writer("3", "n3")
		first := b.list(one)
		p := b.put(0, one)
		second, third := b.list(two), b.list(three)
		b.want("listed by a write in flight", first(), false)
		b.want("listed while another write is in flight", second(), false)
		p.result <- nil
		b.want("listed once landed", first(), true)
		p = b.put(1, one, two, three)
		b.want("listed by a write in flight", second() || third(), false)
		again := b.list(one)
		b.want("listed by the landed journal and the one in flight", again(), true)
		p.result <- nil
		b.want("listed once landed", second() && third(), true)
		b.want("listed at rest", b.list(two)(), true)
		b.quiet(time.Hour)
	})
}

func TestJournalRelistsAnEntryMissingInFlight(t *testing.T) {
	journalBench(t, func(b *bench) {
		one := writer("1", "n1")
		first := b.list(one)
		b.put(0, one).result <- nil
		b.want("listed", first(), true)
		b.j.Unlist(one)
		p := b.put(1) // after the linger
		again := b.list(one)
		b.want("listed by the landed journal but not by the one in flight", again(), false)
		p.result <- nil
		b.want("listed by an older journal only", again(), false)
		b.put(2, one).result <- nil
		b.want("listed once landed", again(), true)
	})
}

func TestJournalKeepsAnEntryRelistedWithinTheLinger(t *testing.T) {
	journalBench(t, func(b *bench) {
		one, two := writer("1", "n1"), writer("2", "n2")
		first := b.list(one)
		b.put(0, one).result <- nil
		b.want("listed", first(), true)
		for range 3 {
			b.j.Unlist(one)
			b.quiet(Linger / 2)
			b.want("listed again within the linger", b.list(one)(), true)
		}
		b.quiet(time.Hour)

		// A lingering entry stays listed in writes for others.
		b.j.Unlist(one)
		second := b.list(two)
		b.put(1, one, two).result <- nil
		b.want("listed", second(), true)
		began := time.Now()
		b.put(2, two).result <- nil
		if took := time.Since(began); took != Linger {
			b.Errorf("removed after %v, want %v", took, Linger)
		}
		b.wantStored(2)
	})
}

func TestJournalRepeatsAnUnknownOutcomeWithTheSameBytes(t *testing.T) {
	journalBench(t, func(b *bench) {
		one, two := writer("1", "n1"), writer("2", "n2")
		first := b.list(one)
		p := b.put(0, one)
		second := b.list(two)
		p.result <- &storage.Error{Op: "create", Key: p.key, Kind: storage.ErrUncertain}
		again := b.put(0, one)
		if !bytes.Equal(p.body, again.body) {
			b.Error("another body under the same number")
		}
		b.want("listed by an unknown outcome", first(), false)
		again.result <- nil
		b.want("listed once landed", first(), true)
		b.put(1, one, two).result <- nil
		b.want("listed once landed", second(), true)
	})
}

func TestJournalAbandonsARefusedNumber(t *testing.T) {
	journalBench(t, func(b *bench) {
		one, two := writer("1", "n1"), writer("2", "n2")
		first := b.list(one)
		b.put(0, one).result <- nil
		b.want("listed", first(), true)

		second := b.list(two)
		p := b.put(1, one, two)
		p.result <- &storage.Error{Op: "create", Key: p.key, Kind: storage.ErrRefused, Err: errors.New("no credentials")}
		b.want("listed by a refused write", second(), false)
		b.want("listed while the newest number is abandoned", b.list(one)(), false)
		b.wantStored(0)
		p = b.put(2, one, two)
		b.wantStored(0) // The landed one is deleted only after its successor has landed.
		p.result <- nil
		b.want("listed once landed", second(), true)
		b.wantStored(2)

		b.j.Unlist(one)
		b.j.Unlist(two)
		b.put(3).result <- nil
		b.stop()
		b.j.Close(b.Context())
		b.wantStored()
	})
}

func TestJournalDeletesOnlyReplacedNumbers(t *testing.T) {
	journalBench(t, func(b *bench) {
		var ids []ID
		for n := range int64(3) {
			id := writer(string(rune('a'+n)), "n")
			ids = append(ids, id)
			b.list(id)
			p := b.put(n, ids...)
			if n > 0 {
				b.wantStored(n - 1)
			}
			p.result <- nil
			b.wantStored(n)
		}
	})
}

func TestJournalBoundsItsGarbage(t *testing.T) {
	journalBench(t, func(b *bench) {
		ids := []ID{writer("0", "n")}
		b.list(ids[0])
		for n := range int64(3 * series.MaxReplaced) {
			p := b.put(n, ids...)
			ids = append(ids, writer(string(rune('a'+n)), "n")) // there is always a waiter for the next write
			b.list(ids[len(ids)-1])
			p.result <- nil
			synctest.Wait()
			if got := len(b.bucket.stored()); got > series.MaxReplaced+1 {
				b.Fatalf("%d journals are stored, want at most %d", got, series.MaxReplaced+1)
			}
		}
		b.put(3*series.MaxReplaced, ids...).result <- nil
		b.wantStored(3 * series.MaxReplaced)
	})
}

// TestJournalWritesDuringDeletions: a hung deletion delays no write, until too many journals wait for
// deletion.
func TestJournalWritesDuringDeletions(t *testing.T) {
	journalBench(t, func(b *bench) {
		b.bucket.stuck.Store(true)
		began := time.Now()
		var ids []ID
		write := func(n int64) {
			ids = append(ids, writer(string(rune('a'+n)), "n"))
			listed := b.list(ids[n])
			b.put(n, ids...).result <- nil
			b.want("listed", listed(), true)
		}
		for n := range int64(series.MaxReplaced + 1) {
			write(n)
		}
		if took := time.Since(began); took != 0 {
			b.Errorf("writes waited %v for a deletion, want 0", took)
		}
		write(series.MaxReplaced + 1)
		if took := time.Since(began); took != deleteTimeout {
			b.Errorf("write with too many journals to delete took %v, want %v", took, deleteTimeout)
		}
	})
}

func TestJournalNotifiesWaitersOfTheWriteInFlight(t *testing.T) {
	journalBench(t, func(b *bench) {
		one := writer("1", "n1")
		first := b.list(one)
		p := b.put(0, one)
		again := b.list(one)
		b.want("listed by a write in flight", again(), false)
		p.result <- nil
		b.want("listed once landed", first() && again(), true)
		b.quiet(time.Hour) // The second needed no write of its own.
	})
}

func TestJournalDoesNotNotifyRemovedWriters(t *testing.T) {
	journalBench(t, func(b *bench) {
		one, two, three := writer("1", "n1"), writer("2", "n2"), writer("3", "n3")
		b.list(one)
		second := b.list(two)
		b.want("listed by a write in flight", second(), false)
		p := <-b.bucket.puts
		third := b.list(three)
		b.j.Answered(two)
		b.j.Answered(three)
		p.result <- nil
		b.put(1, one).result <- nil
		b.want("listed after an answer", second() || third(), false)
		b.quiet(time.Hour)
	})
}

func TestJournalKeepsAnEntryUntilItsWriterOrAnAnswer(t *testing.T) {
	journalBench(t, func(b *bench) {
		old, young := writer("1", "old"), writer("1", "young")
		first := b.list(old)
		b.put(0, old).result <- nil
		b.want("listed", first(), true)
		second := b.list(young) // the conversation was reopened; the old writer is fenced
		b.put(1, old, young).result <- nil
		b.want("listed", second(), true)
		b.j.Unlist(young)
		b.put(2, old).result <- nil
		if got := b.j.Held(); len(got) != 1 || got[0].Nonce != "old" || got[0].Seq != 7 {
			b.Errorf("held %v, want the old writer", got)
		}
		b.quiet(time.Hour)
		b.j.Answered(old)
		b.put(3).result <- nil
		b.j.Answered(old)
		b.j.Unlist(old)
		b.quiet(time.Hour)
	})
}

func TestJournalClose(t *testing.T) {
	t.Run("never written", func(t *testing.T) {
		journalBench(t, func(b *bench) {
			b.stop()
			b.j.Close(b.Context())
			if len(b.bucket.deleted) > 0 {
				b.Errorf("deleted %v, want none", b.bucket.deleted)
			}
		})
	})
	t.Run("no pending work", func(t *testing.T) {
		journalBench(t, func(b *bench) {
			one := writer("1", "n1")
			listed := b.list(one)
			b.put(0, one).result <- nil
			b.want("listed", listed(), true)
			b.j.Unlist(one)
			b.stop()
			b.j.Close(b.Context())
			b.wantStored()
		})
	})
	t.Run("pending work", func(t *testing.T) {
		journalBench(t, func(b *bench) {
			one, two := writer("1", "n1"), writer("2", "n2")
			listed := b.list(one)
			b.put(0, one).result <- nil
			b.want("listed", listed(), true)
			b.list(two)
			b.put(1, one, two).result <- nil
			b.wantStored(1)
			b.j.Unlist(one)
			b.stop()
			b.j.Close(b.Context())
			b.wantStored(1)
		})
	})
	t.Run("pending work and an opening", func(t *testing.T) { // The node does not crash over it.
		journalBench(t, func(b *bench) {
			one, opening := writer("1", "n1"), writer("2", "n2-opening")
			b.list(one)
			b.put(0, one).result <- nil
			b.j.Opening(opening, func() {})
			b.put(1, one, opening).result <- nil
			synctest.Wait()
			b.stop()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				b.j.Close(b.Context())
			}()
			b.put(2, one).result <- nil
			<-closed
			b.wantStored(2)
		})
	})
	t.Run("an opening", func(t *testing.T) {
		journalBench(t, func(b *bench) {
			opening := writer("1", "n1-opening")
			b.j.Opening(opening, func() {})
			b.put(0, opening).result <- nil
			synctest.Wait()
			b.stop()
			b.j.Close(b.Context())
			b.wantStored()
		})
	})
}

// TestJournalReleaseDuringRefusal: a Release at the time that mayLeave refuses finds the refused
// entry.
func TestJournalReleaseDuringRefusal(t *testing.T) {
	journalBench(t, func(b *bench) {
		one := writer("1", "n1")
		asked := 0
		b.j.HoldUntil(func(conversation.Key) bool {
			if asked++; asked == 1 {
				b.j.Release() // All events are shipped between the call and its result.
				return false
			}
			return true
		})
		listed := b.list(one)
		b.put(0, one).result <- nil
		b.want("listed", listed(), true)
		b.j.Unlist(one)
		b.put(1).result <- nil
		b.quiet(time.Hour)
	})
}

// TestJournalRelistsAnOpening: the end of one activation removes the entry that the next of the same
// writer waits for. It is listed again unless the wait was canceled.
func TestJournalRelistsAnOpening(t *testing.T) {
	journalBench(t, func(b *bench) {
		opening := writer("1", "n1-opening")
		b.j.Opening(opening, func() { b.Error("the opening was cancelled") })
		p := b.put(0, opening)
		next := make(chan error, 2)
		ctx, cancel := context.WithCancel(b.Context())
		for _, ctx := range []context.Context{b.Context(), ctx} {
			go func() { next <- b.j.OpeningListed(ctx, opening) }()
		}
		synctest.Wait()
		cancel()
		if err := <-next; !errors.Is(err, context.Canceled) {
			b.Errorf("canceled waiter: %v", err)
		}
		b.j.Opened(opening)
		p.result <- nil
		b.put(1, opening).result <- nil
		if err := <-next; err != nil {
			b.Errorf("remaining waiter: %v", err)
		}
		b.j.Opened(opening)
		b.j.Signal()
		b.put(2).result <- nil
		b.quiet(time.Hour)
	})
}

// TestJournalListsOpenings: an opening is written immediately and removed immediately after its end.
// It does not list a writer.
func TestJournalListsOpenings(t *testing.T) {
	journalBench(t, func(b *bench) {
		opening, one := writer("1", "n1-opening"), writer("1", "n1")
		done := make(chan struct{})
		b.j.Opening(opening, func() { close(done) })
		p := b.put(0, opening)
		j, err := storage.DecodeJournal(p.body)
		if err != nil || !j.Entries[0].Opening || j.Entries[0].Seq != -1 {
			b.Errorf("journal %+v, %v", j, err)
		}
		select {
		case <-done:
			b.Error("called back before it landed")
		default:
		}
		p.result <- nil
		<-done
		first := b.list(one)
		p = b.put(1, opening, one)
		b.want("listed by a journal with an opening only", first(), false)
		b.j.Opened(opening)
		b.j.Opened(opening)
		b.j.Signal()
		p.result <- nil
		b.want("listed once landed", first(), true)
		b.put(2, one).result <- nil // without the linger
		b.j.Unlist(one)
		b.put(3).result <- nil
		b.j.Opening(opening, func() { b.Error("called back after the opening was removed") })
		b.j.Opened(opening)
		b.j.Signal()
		b.put(4).result <- nil
		b.quiet(time.Hour)
	})
}
