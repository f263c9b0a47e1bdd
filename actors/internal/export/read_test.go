package export_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
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

func (l *logbook) compact() {
	l.tb.Helper()
	garbage, err := l.logs.Compactor(l.key).Compact(context.Background(), l.tail.Seq, nil, 1)
	if err == nil {
		err = l.logs.Remove(context.Background(), l.key, garbage)
	}
	if err != nil || len(garbage) == 0 {
		l.tb.Fatalf("compacted %d batches: %v", len(garbage), err)
	}
}

// TestReadsBatchesThatWereNotOffered: after a checkpoint, over segments and gaps, and from a position
// in the middle with an unknown source.
func TestReadsBatchesThatWereNotOffered(t *testing.T) {
	for name, tt := range map[string]struct {
		exported int64
		known    bool // Open includes the source
		gap      bool // batches that land here but are not offered
	}{
		"all of it": {-1, false, false}, "from the middle": {20, true, false}, "without a source": {20, false, false},
		"over a gap": {-1, true, true}, "after a claim": {30, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, memory(t), export.Options{}, newSink(t, "a"))
				l := newLogbook(t, r.logs, "x")
				for range 25 {
					l.append()
				}
				l.compact()
				l.takeOver()
				for range 10 {
					l.append()
				}
				src := observability.Source{}
				if tt.known {
					src = l.src
				}
				r.Open(l.key, src, tt.exported, l.tail.Seq)
				if tt.gap {
					l.append()
					l.append()
				}
				offer(r, l, 4)
				time.Sleep(10 * second)
				want := l.events()
				for id := range want {
					var seq, index int64
					if _, err := fmt.Sscanf(strings.TrimPrefix(id, string(l.key)), "/%d/%d", &seq, &index); err != nil {
						t.Fatal(err)
					}
					if seq <= tt.exported {
						delete(want, id)
					}
				}
				got, _, _ := r.sinks[0].got()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if n := len(r.sinks[0].order); n != len(got) {
					t.Errorf("%d events were received %d times", len(got), n)
				}
				if seq, _ := r.Cursor(l.key); seq != l.tail.Seq {
					t.Errorf("cursor %d, want %d", seq, l.tail.Seq)
				}
				if s := r.Status(); s.Behind != 0 || s.Lost != 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// TestMemoryIsBounded: with a failing sink, batches beyond the bound are dropped and read from the
// logs later, in order and completely.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.outcome = away
		const limit = 40 << 10
		r := newRig(t, memory(t), export.Options{MemoryBytes: limit, FlushRows: 20, Readers: 2}, a)
		var books []*logbook
		for i := range 30 {
			l := newLogbook(t, r.logs, fmt.Sprint("c", i))
			books = append(books, l)
			r.Open(l.key, observability.Source{}, -1, -1)
		}
		for range 12 {
			for _, l := range books {
				offer(r, l, 1)
				if s := r.Status(); s.Bytes > limit+8<<10 {
					t.Fatalf("%d bytes waiting, limit %d", s.Bytes, limit)
				}
			}
			time.Sleep(second)
		}
		if s := r.Status(); s.Behind < 20 || s.Bytes < limit/2 || s.Lag < 11*second {
			t.Errorf("status %+v", s)
		}
		a.set(func() { a.outcome = nil })
		time.Sleep(2 * time.Minute)
		got, _, _ := a.got()
		if diff := cmp.Diff(merge(books...), got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		last := map[string]int{}
		for _, id := range a.order {
			var seq, index int
			conv, place, _ := strings.Cut(id, "/")
			if _, err := fmt.Sscanf(place, "%d/%d", &seq, &index); err != nil {
				t.Fatal(err)
			}
			if at := seq*100 + index + 1; at <= last[conv] {
				t.Errorf("%s received after %d", id, last[conv])
			} else {
				last[conv] = at
			}
		}
		if s := r.Status(); s.Waiting != 0 || s.Bytes != 0 || s.Behind != 0 || s.Lag != 0 {
			t.Errorf("status after all: %+v", s)
		}
	})
}

// TestCorruptLogDelaysNoOther: an unreadable log is skipped, another is read.
func TestCorruptLogDelaysNoOther(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, b storage.Bucket, l *logbook){
		"deleted": func(t *testing.T, b storage.Bucket, l *logbook) {
			for seq := range l.tail.Seq + 1 {
				if err := b.Delete(t.Context(), storage.LogKey(l.key, seq)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"corrupt": func(t *testing.T, b storage.Bucket, l *logbook) {
			if err := b.Put(t.Context(), storage.LogKey(l.key, 4), storage.Bytes([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		},
		"no records": func(t *testing.T, _ storage.Bucket, l *logbook) {
			var err error
			if l.tail, err = l.writer.Append(t.Context(), []byte("{\"type\":7}\n"), 1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory(t)
				r := newRig(t, b, export.Options{Readers: 1}, newSink(t, "a"))
				bad, good := newLogbook(t, r.logs, "bad"), newLogbook(t, r.logs, "good")
				for range 6 {
					bad.append()
					good.append()
				}
				spoil(t, b, bad)
				r.Open(bad.key, observability.Source{}, -1, bad.tail.Seq)
				r.Open(good.key, observability.Source{}, -1, good.tail.Seq)
				time.Sleep(5 * second)
				if seq, _ := r.Cursor(good.key); seq != 5 {
					t.Errorf("cursor of the intact log is %d", seq)
				}
				if r.MayLeave(bad.key) || r.Status().Lost != 0 {
					t.Error("corrupt log was skipped at the first attempt")
				}
				time.Sleep(2 * time.Minute)
				s := r.Status()
				if s.Lost != 1 || !strings.Contains(s.LastLost, string(bad.key)) || s.Behind != 0 {
					t.Errorf("status %+v", s)
				}
				if !r.MayLeave(bad.key) {
					t.Error("skipped conversation may not leave")
				}
				r.Closed(bad.key)
				if _, ok := r.Cursor(bad.key); ok {
					t.Error("skipped conversation is still kept")
				}
			})
		})
	}
}

func refusing(b storage.Bucket, key conversation.Key) storage.Bucket {
	return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
		if strings.Contains(c.Key, string(key)) {
			return &storage.Error{Op: "get", Key: c.Key, Kind: storage.ErrRefused, Status: http.StatusForbidden}
		}
		return c.Do(ctx)
	})
}

// TestRefusedLogDelaysNoOther: the reader of a refused log pauses, and the other readers do not retry
// it.
func TestRefusedLogDelaysNoOther(t *testing.T) {
	for k := range 8 {
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			logs := storage.NewLogs(store, nil)
			bad, good := newLogbook(t, logs, "bad"), newLogbook(t, logs, "good")
			bad.append()
			good.append()
			r := newRig(t, refusing(store, bad.key), export.Options{}, newSink(t, "a"))
			r.Open(bad.key, observability.Source{}, -1, 0)
			time.Sleep(3*time.Minute + time.Duration(k)*7*second)
			r.Open(good.key, observability.Source{}, -1, 0)
			time.Sleep(2 * second)
			if seq, _ := r.Cursor(good.key); seq != 0 {
				t.Errorf("after %d times 7 s: cursor of the other log is %d", k, seq)
			}
			if s := r.Status(); s.Behind != 1 || s.Lost != 0 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestNewerRecordsAreNotSkipped: they wait for a node that can read them.
func TestNewerRecordsAreNotSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		r := newRig(t, b, export.Options{}, newSink(t, "a"))
		l := newLogbook(t, r.logs, "x")
		l.append()
		if _, err := l.writer.Append(t.Context(), []byte("{\"type\":\"from_the_future\",\"must\":true}\n"), 1); err != nil {
			t.Fatal(err)
		}
		r.Open(l.key, observability.Source{}, -1, 1)
		r.MayLeave(l.key)
		time.Sleep(10 * time.Minute)
		if seq, _ := r.Cursor(l.key); seq != 0 || r.Status().Lost != 0 || !r.MayLeave(l.key) {
			t.Errorf("cursor %d, status %+v", seq, r.Status())
		}
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {l.key: 0}}, journals(t, b)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestBucketAway: reads wait for the bucket, however long.
func TestBucketAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		l := newLogbook(t, storage.NewLogs(store, nil), "x")
		for range 5 {
			l.append()
		}
		faulty := storagetest.Faulty(store, storagetest.Plan{Rates: map[storagetest.Kind]float64{storagetest.ErrorBefore: 1}})
		r := newRig(t, faulty, export.Options{}, newSink(t, "a"))
		r.Open(l.key, observability.Source{}, -1, l.tail.Seq)
		if r.MayLeave(l.key) {
			t.Error("conversation may leave before its log is read")
		}
		time.Sleep(time.Hour)
		if s := r.Status(); s.Behind != 1 || s.Lost != 0 || s.Journals != 0 || s.JournalFailures == 0 || r.MayLeave(l.key) {
			t.Errorf("status %+v", s)
		}
		faulty.Heal()
		time.Sleep(2 * time.Minute)
		if seq, _ := r.Cursor(l.key); seq != 4 || !r.MayLeave(l.key) {
			t.Errorf("cursor %d", seq)
		}
	})
}

// TestBytesOfAConversation verifies guarantee 5 of the package comment.
func TestBytesOfAConversation(t *testing.T) {
	b := memory(t)
	x, err := export.New(storage.NewLogs(b, nil), b, &export.Options{Member: "me", Sinks: []observability.Sink{newSink(t, "a")}, Project: project})
	if err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 20_000
	before := heap()
	for i := range n {
		id := fmt.Sprintf("a conversation whose id has fifty characters %05d", i)
		key := conversation.Address{Agent: "triage", ID: id}.Key()
		src := observability.Source{Key: key, Agent: "triage", ID: id, Conversation: conversation.ConversationID("conv_" + id[:26])}
		x.Open(key, src, -1, 10)
		x.MayLeave(key)
	}
	if each := (heap() - before) / n; each > 1<<10 {
		t.Errorf("conversation takes %d bytes, want at most 1 KiB", each)
	} else {
		t.Logf("a conversation takes %d bytes", each)
	}
	runtime.KeepAlive(x)
}

// TestSkippedLogs: a log that must not be read is read when it may be again, and delays no other.
func TestSkippedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quarantined atomic.Bool
		quarantined.Store(true)
		var sick conversation.Key
		skip := func(key conversation.Key) bool { return key == sick && quarantined.Load() }
		r := newRig(t, memory(t), export.Options{Skip: skip}, newSink(t, "a"))
		left, other := newLogbook(t, r.logs, "skipped"), newLogbook(t, r.logs, "other")
		sick = left.key
		for _, l := range []*logbook{left, other} {
			for range 5 {
				l.append()
			}
			r.Open(l.key, observability.Source{}, -1, l.tail.Seq)
		}
		time.Sleep(2 * time.Minute)
		got, _, _ := r.sinks[0].got()
		if diff := cmp.Diff(other.events(), got); diff != "" {
			t.Errorf("events while one log is skipped (-want +got):\n%s", diff)
		}
		quarantined.Store(false)
		time.Sleep(time.Minute)
		got, _, _ = r.sinks[0].got()
		if diff := cmp.Diff(merge(left, other), got); diff != "" {
			t.Errorf("events after that (-want +got):\n%s", diff)
		}
	})
}

// TestPanicOverALog: a batch whose projection panics is skipped like a corrupt one, whether it is
// offered or read, and other conversations keep their events.
func TestPanicOverALog(t *testing.T) {
	for name, offered := range map[string]bool{"offered": true, "read": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reads, over atomic.Int64
				r := newRig(t, memory(t), export.Options{
					Project: func(src observability.Source, b conversation.Batch) []observability.Event {
						if src.ID == "bad" && b.Offset == 3 {
							panic("mine")
						}
						return project(src, b)
					},
					Reading: func(conversation.Key) func() {
						reads.Add(1)
						return func() { over.Add(1) }
					},
				}, newSink(t, "a"))
				good, bad := newLogbook(t, r.logs, "good"), newLogbook(t, r.logs, "bad")
				for _, l := range []*logbook{good, bad} {
					tail := int64(-1)
					if !offered {
						for range 5 {
							l.append()
						}
						tail = l.tail.Seq
					}
					r.Open(l.key, observability.Source{}, -1, tail)
					if offered {
						offer(r, l, 5)
					}
				}
				time.Sleep(5 * time.Minute)
				for _, l := range []*logbook{good, bad} {
					if seq, ok := r.Cursor(l.key); seq != 4 || !ok {
						t.Errorf("%s: cursor is %d, %v", l.key, seq, ok)
					}
				}
				if s := r.Status(); s.Lost != 1 {
					t.Errorf("%d logs skipped", s.Lost)
				}
				if n := reads.Load(); n < 3 || over.Load() != n {
					t.Errorf("%d reads began and %d ended", n, over.Load())
				}
			})
		})
	}
}
