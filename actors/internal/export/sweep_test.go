package export_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func leave(t *testing.T, b storage.Bucket, member string, n int64, entries ...storage.ExportEntry) {
	t.Helper()
	byShard := map[int][]storage.ExportEntry{}
	for _, e := range entries {
		byShard[storage.ExportShard(e.Conv)] = append(byShard[storage.ExportShard(e.Conv)], e)
	}
	for shard, list := range byShard {
		j := storage.ExportJournal{Member: member, Shard: shard, Shards: storage.ExportShards, N: n, Entries: list}
		if err := storage.NewJournalWriter(b).WriteExport(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

func view(members ...string) func() ([]string, bool) {
	return func() ([]string, bool) { return members, true }
}

// TestTakesOver: conversations listed by nodes that are gone are shipped from the logs, and their
// journals are deleted. Journals of members stay.
func TestTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		logs := storage.NewLogs(b, nil)
		x, y, z := newLogbook(t, logs, "x"), newLogbook(t, logs, "y"), newLogbook(t, logs, "z")
		for range 8 {
			x.append()
			y.append()
			z.append()
		}
		leave(t, b, "dead", 3, storage.ExportEntry{Conv: x.key, Seq: -1})
		leave(t, b, "dead", 4, storage.ExportEntry{Conv: x.key, Seq: 3})
		leave(t, b, "gone", 0, storage.ExportEntry{Conv: y.key, Seq: -1})
		leave(t, b, "alive", 0, storage.ExportEntry{Conv: z.key, Seq: -1})
		r := newRig(t, b, export.Options{Live: view("me", "alive")}, newSink(t, "a"))
		other := newRig(t, b, export.Options{Member: "alive", Live: view("me", "alive")}, r.sinks[0])
		time.Sleep(20 * second)
		want := merge(x, y)
		for seq := range 4 {
			for i := range 9 {
				delete(want, fmt.Sprintf("%s/%d/%d", x.key, seq, i))
			}
		}
		got, _, _ := r.sinks[0].got()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if len(r.sinks[0].order) != len(got) {
			t.Error("both nodes took over conversations")
		}
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"alive": {z.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("journals (-want +got):\n%s", diff)
		}
		if n := r.Status().Conversations + other.Status().Conversations; n != 0 {
			t.Errorf("%d conversations kept, want 0", n)
		}
	})
}

// TestTakesOverIntoItsOwnJournal: with a failing sink, an adopted journal is deleted once the own one
// has landed. A node that takes over that one ships everything.
func TestTakesOverIntoItsOwnJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		x := newLogbook(t, storage.NewLogs(b, nil), "x")
		for range 4 {
			x.append()
		}
		leave(t, b, "dead", 7, storage.ExportEntry{Conv: x.key, Seq: -1})
		a := newSink(t, "a")
		a.outcome = away
		r := newRig(t, b, export.Options{}, a)
		time.Sleep(4 * second)
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"dead": {x.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("journals before the own one landed (-want +got):\n%s", diff)
		}
		time.Sleep(4 * second)
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {x.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("journals after that (-want +got):\n%s", diff)
		}
		r.stop()
		last := newRig(t, b, export.Options{Member: "next"}, newSink(t, "a"))
		time.Sleep(8 * second)
		if got, _, _ := last.sinks[0].got(); !cmp.Equal(got, x.events()) {
			t.Errorf("%d events stored, want all", len(got))
		}
		if refs := journals(t, b); len(refs["me"])+len(refs["next"]) > 0 {
			t.Errorf("journals %v", refs)
		}
	})
}

// TestSweepsWhenAsked: a change of the members is handled immediately, an unknown view changes
// nothing, and a journal that a paused node lands later is found too.
func TestSweepsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		x := newLogbook(t, storage.NewLogs(b, nil), "x")
		x.append()
		leave(t, b, "other", 0, storage.ExportEntry{Conv: x.key, Seq: -1})
		members, known := []string{"me", "other"}, false
		r := newRig(t, b, export.Options{SweepEvery: time.Hour, Live: func() ([]string, bool) { return members, known }}, newSink(t, "a"))
		for i, change := range []func(){func() { known = true }, func() { members, known = members[:1], false }, func() { known = true }} {
			synctest.Wait()
			change()
			r.SweepSoon()
			time.Sleep(10 * second)
			if got := len(journals(t, b)) == 0; got != (i == 2) {
				t.Errorf("step %d: swept %v", i, got)
			}
		}
		x.append()
		leave(t, b, "other", 1, storage.ExportEntry{Conv: x.key, Seq: 0})
		r.SweepSoon()
		time.Sleep(10 * second)
		if got, _, _ := r.sinks[0].got(); !cmp.Equal(got, x.events()) || len(journals(t, b)) > 0 {
			t.Errorf("%d events stored; journals %v", len(got), journals(t, b))
		}
	})
}

// TestCorruptJournalDelaysNoOther, and it is kept for inspection.
func TestCorruptJournalDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		x := newLogbook(t, storage.NewLogs(b, nil), "x")
		x.append()
		leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: -1})
		if err := b.Put(t.Context(), storage.ExportJournalKey("bad", 0, 0), storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, b, export.Options{}, newSink(t, "a"))
		time.Sleep(5 * time.Minute)
		if got, _, _ := r.sinks[0].got(); !cmp.Equal(got, x.events()) {
			t.Errorf("%d events stored, want all", len(got))
		}
		if _, err := b.Get(t.Context(), storage.ExportJournalKey("bad", 0, 0)); err != nil {
			t.Errorf("corrupt journal was removed: %v", err)
		}
	})
}

// TestTakenOverWhileOpen: offers of an open conversation continue, whether it was opened or adopted
// first.
func TestTakenOverWhileOpen(t *testing.T) {
	for name, early := range map[string]bool{"opened first": false, "adopted first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory(t)
				x := newLogbook(t, storage.NewLogs(b, nil), "x")
				a := newSink(t, "a")
				for range 2 { // exported by the crashed node
					a.take(project(x.append()))
				}
				for range 4 {
					x.append()
				}
				leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: 1})
				known := early
				r := newRig(t, b, export.Options{SweepEvery: time.Hour, Live: func() ([]string, bool) { return []string{"me"}, known }}, a)
				synctest.Wait()
				r.Open(x.key, observability.Source{}, -1, x.tail.Seq)
				known = true
				r.SweepSoon()
				for range 20 {
					offer(r, x, 1)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(10 * second)
				if got, _, _ := a.got(); !cmp.Equal(got, x.events()) {
					t.Errorf("%d events stored, want all", len(got))
				}
				if seq, _ := r.Cursor(x.key); seq != x.tail.Seq || len(journals(t, b)["dead"]) > 0 {
					t.Errorf("cursor %d, journals %v", seq, journals(t, b))
				}
			})
		})
	}
}

// TestAdoptsOpenConversations: a fenced activation may not know it, so its state proves nothing about
// the entries of another node.
func TestAdoptsOpenConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		r := newRig(t, b, export.Options{SweepEvery: time.Hour}, newSink(t, "a"))
		x := newLogbook(t, r.logs, "x")
		r.Open(x.key, observability.Source{}, -1, -1)
		offer(r, x, 2)
		time.Sleep(2 * second)
		x.takeOver()
		x.append()
		x.append()
		leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: 1})
		r.SweepSoon()
		time.Sleep(10 * second)
		if got, _, _ := r.sinks[0].got(); !cmp.Equal(got, x.events()) || len(journals(t, b)) > 0 {
			t.Errorf("%d events stored; journals %v", len(got), journals(t, b))
		}
	})
}

// TestAdoptsAgain: own earlier journals prove nothing either, because another node may have taken them
// over and finished.
func TestAdoptsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		a := newSink(t, "a")
		a.outcome = away
		r := newRig(t, b, export.Options{SweepEvery: time.Hour}, a)
		x := newLogbook(t, r.logs, "x")
		r.Open(x.key, observability.Source{}, -1, -1)
		offer(r, x, 2)
		r.MayLeave(x.key)
		time.Sleep(6 * second)
		if !r.MayLeave(x.key) {
			t.Fatal("conversation is not listed")
		}
		refs, err := storage.ExportJournals(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if err := storage.DeleteExportJournal(t.Context(), b, refs[0].Keys); err != nil {
			t.Fatal(err)
		}
		leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: -1})
		r.SweepSoon()
		time.Sleep(10 * second)
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {x.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func slow(b storage.Bucket, key conversation.Key) storage.Bucket {
	return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
		err := c.Do(ctx)
		if strings.Contains(c.Key, string(key)) {
			time.Sleep(4 * second)
		}
		return err
	})
}

// TestAdoptsDuringARead: a read may have reached the end before another node wrote the batches that it
// listed, whenever its journal is adopted.
func TestAdoptsDuringARead(t *testing.T) {
	for at := second; at < 30*second; at += 2 * second {
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			b := store
			x := newLogbook(t, storage.NewLogs(b, nil), "x")
			x.append()
			a := newSink(t, "a")
			r := newRig(t, slow(store, x.key), export.Options{SweepEvery: time.Hour}, a)
			r.Open(x.key, observability.Source{}, -1, 0)
			time.Sleep(at)
			x.takeOver()
			x.append()
			leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: -1})
			r.SweepSoon()
			time.Sleep(2 * time.Minute)
			if got, _, _ := a.got(); !cmp.Equal(got, x.events()) {
				t.Errorf("adopted after %v: %d of %d events stored", at, len(got), len(x.events()))
			}
		})
	}
}

// TestTakesOverALongLog: one turn does not reach its end.
func TestTakesOverALongLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		x := newLogbook(t, storage.NewLogs(b, nil), "x")
		for range 1100 {
			x.append()
		}
		leave(t, b, "dead", 0, storage.ExportEntry{Conv: x.key, Seq: -1})
		r := newRig(t, b, export.Options{}, newSink(t, "a"))
		time.Sleep(20 * second)
		if got, _, _ := r.sinks[0].got(); !cmp.Equal(got, x.events()) || len(journals(t, b)) > 0 {
			t.Errorf("%d events stored; journals %v", len(got), journals(t, b))
		}
	})
}

// TestNumbersAreUsedOnce: a number with an unknown outcome is abandoned, and removed if it lands
// later.
func TestNumbersAreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		faulty := storagetest.Faulty(store, storagetest.Plan{
			DelayRequests: -1, Rates: map[storagetest.Kind]float64{storagetest.Delayed: 1},
			Match: func(op storagetest.Op) bool { return op.Method == "PUT" && strings.HasPrefix(op.Key, "export/") },
		})
		w := newWatcher(t, faulty, 5*second)
		a := newSink(t, "a")
		a.outcome = away
		logs := storage.NewLogs(store, nil)
		x := newLogbook(t, logs, "x")
		r := newRig(t, w, export.Options{}, a)
		r.Open(x.key, observability.Source{}, -1, -1)
		for range 3 {
			offer(r, x, 1)
			r.MayLeave(x.key)
			time.Sleep(40 * second)
		}
		if s := r.Status(); s.JournalFailures < 2 || s.Journals > 0 || r.MayLeave(x.key) {
			t.Errorf("status %+v", s)
		}
		faulty.Heal()
		time.Sleep(40 * second)
		if !r.MayLeave(x.key) {
			t.Error("conversation is not listed at the end")
		}
		faulty.Release()
		time.Sleep(40 * second)
		refs, err := storage.ExportJournals(t.Context(), w)
		if err != nil || len(refs) != 1 || len(refs[0].Keys) != 1 || refs[0].N < 2 {
			t.Errorf("journals %+v, %v", refs, err)
		}
	})
}

// TestComposedIsNotLanded: a journal in flight covers nothing, even if an earlier one with the same
// conversation has landed: another node may have taken that one over and finished.
func TestComposedIsNotLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		faulty := storagetest.Faulty(store, storagetest.Plan{
			Rates: map[storagetest.Kind]float64{storagetest.ErrorBefore: 1},
			Match: func(op storagetest.Op) bool {
				return op.Method == "PUT" && strings.HasSuffix(op.Key, "/0000000000000001")
			},
		})
		a := newSink(t, "a")
		a.outcome = away
		r := newRig(t, faulty, export.Options{}, a)
		x := newLogbook(t, storage.NewLogs(store, nil), "x")
		r.Open(x.key, observability.Source{}, -1, -1)
		offer(r, x, 1)
		r.MayLeave(x.key)
		time.Sleep(10 * second)
		if !r.MayLeave(x.key) {
			t.Fatal("conversation is not listed")
		}
		offer(r, x, 1)
		for range 20 {
			if r.MayLeave(x.key) {
				t.Fatal("journal in flight covers the second batch")
			}
			time.Sleep(second)
		}
		faulty.Heal()
		time.Sleep(time.Minute)
		if !r.MayLeave(x.key) {
			t.Error("conversation is not listed at the end")
		}
	})
}
