package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// misread changes the results of reads. n is the number of earlier reads of the key.
type misread struct {
	storage.Bucket
	change func(n int, data []byte) []byte

	mu    sync.Mutex
	reads map[string]int
}

func (m *misread) changed(key string, data []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.reads[key]
	m.reads[key]++
	return m.change(n, slices.Clone(data))
}

// Get implements storage.Bucket.
func (m *misread) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := m.Bucket.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return m.changed(key, data), nil
}

// GetRange implements storage.Bucket.
func (m *misread) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, err := m.Bucket.GetRange(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	return m.changed(key, data), nil
}

// Open implements storage.Bucket.
func (m *misread) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	data, err := m.Get(ctx, key)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

// object is a kind of object that is stored, then read and decoded.
type object struct {
	store, read func(ctx context.Context, b storage.Bucket) error
}

var misreadConv = keyOf("x")

// grown stores a log.
func grown(lines ...string) func(context.Context, storage.Bucket) error {
	return func(ctx context.Context, b storage.Bucket) error {
		w := storage.NewLogs(b, nil).Writer(misreadConv, "n1", storage.Start(), 1)
		for _, l := range lines {
			if _, err := w.Append(ctx, []byte(l), 1); err != nil {
				return err
			}
		}
		return nil
	}
}

// batchesOf reads a log of two batches.
func batchesOf(ctx context.Context, b storage.Bucket) error {
	n := 0
	for _, err := range storage.NewLogs(b, nil).Batches(ctx, misreadConv, storage.Start()) {
		if n++; err != nil {
			return err
		}
	}
	if n != 2 {
		return fmt.Errorf("got %d batches, want 2", n)
	}
	return nil
}

// segmentOf stores batches in a segment. Readers read it in parts unless it is small.
func segmentOf(small bool) object {
	logs := func(b storage.Bucket) *storage.Logs {
		if l := storage.NewLogs(b, nil); small {
			return l
		}
		return storage.NewLogs(b, nil).WithSmallSegments(100)
	}
	return object{func(ctx context.Context, b storage.Bucket) error {
		if err := grown(slices.Repeat([]string{"{\"i\":\"some of it\"}\n"}, 6)...)(ctx, b); err != nil {
			return err
		}
		all, err := logs(b).Range(ctx, misreadConv, 0, 5)
		if err != nil {
			return err
		}
		garbage, err := logs(b).Compactor(misreadConv).Compact(ctx, 5, all, 1)
		if err != nil {
			return err
		}
		return logs(b).Remove(ctx, misreadConv, garbage)
	}, func(ctx context.Context, b storage.Bucket) error {
		got, err := logs(b).Range(ctx, misreadConv, 1, 3)
		if err == nil && len(got) != 3 {
			err = fmt.Errorf("got %d batches, want 3", len(got))
		}
		return err
	}}
}

// objects returns all kinds of objects that are decoded.
func objects() map[string]object {
	conv := misreadConv
	small, large := "{\"i\":1}\n", "{\"text\":\""+strings.Repeat("long ", 1<<17)+"\"}\n"
	all := map[string]object{
		"batch":           {grown(small, small), batchesOf},
		"large batch":     {grown(small, large), batchesOf},
		"small segment":   segmentOf(true),
		"segment in part": segmentOf(false),
	}
	maps.Copy(all, historyObjects(conv))
	maps.Copy(all, otherObjects(conv))
	return all
}

// historyObjects returns checkpoints, pages and journals.
func historyObjects(conv conversation.Key) map[string]object {
	checkpoint := storage.Checkpoint{Writers: 1, Claims: []storage.Claim{{Seq: 0, Nonce: "n1"}}, State: []byte("{}")}
	var page storage.PageRef
	return map[string]object{
		"checkpoint": {
			func(ctx context.Context, b storage.Bucket) error {
				c := checkpoint
				return storage.NewLogs(b, nil).PutCheckpoint(ctx, conv, &c, nil)
			},
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.NewLogs(b, nil).Checkpoint(ctx, conv)
				return err
			},
		},
		"page": {
			func(ctx context.Context, b storage.Bucket) (err error) {
				page, err = storage.NewLogs(b, nil).PutPage(ctx, conv, 0, []byte("history\n"))
				return err
			},
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.NewLogs(b, nil).Page(ctx, conv, page)
				return err
			},
		},
		"journal": {
			func(ctx context.Context, b storage.Bucket) error {
				return storage.NewJournalWriter(b).Write(ctx, storage.Journal{Member: "m", N: 1})
			},
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.ReadJournal(ctx, b, "m", 1)
				return err
			},
		},
		"journal, written again": {
			func(ctx context.Context, b storage.Bucket) error {
				return storage.NewJournalWriter(b).Write(ctx, storage.Journal{Member: "m", N: 1})
			},
			func(ctx context.Context, b storage.Bucket) error {
				return storage.NewJournalWriter(b).Write(ctx, storage.Journal{Member: "m", N: 1})
			},
		},
	}
}

// otherObjects returns the kinds of objects that no other object refers to.
func otherObjects(conv conversation.Key) map[string]object {
	timer := storage.Timer{Conv: conv, Seq: 3, Until: 60_000}
	blob := []byte("an attachment")
	return map[string]object{
		"epoch": {
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.CreateEpoch(ctx, b, storage.Epoch{N: 1, Nonce: "n", At: 1})
				return err
			},
			func(ctx context.Context, b storage.Bucket) error { _, err := storage.ReadEpoch(ctx, b, 1); return err },
		},
		"timer": {
			func(ctx context.Context, b storage.Bucket) error { return storage.PutTimer(ctx, b, timer) },
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.ReadTimer(ctx, b, storage.TimerRef{Key: storage.TimerKey(timer), Conv: conv, Seq: 3})
				return err
			},
		},
		"quarantine": {
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.PutQuarantine(ctx, b, storage.Quarantine{Conv: conv, At: 1, Why: "why", Failures: 3})
				return err
			},
			func(ctx context.Context, b storage.Bucket) error {
				_, err := storage.ReadQuarantine(ctx, b, conv)
				return err
			},
		},
		"dead letter": {
			func(ctx context.Context, b storage.Bucket) error {
				return storage.PutDeadLetter(ctx, b, sampleDeadLetter("post_1"))
			},
			func(ctx context.Context, b storage.Bucket) error {
				return storage.EachDeadLetter(ctx, b, func(_ storage.DeadLetter, err error) error { return err })
			},
		},
		"format": {
			storage.EnsureFormat,
			func(ctx context.Context, b storage.Bucket) error { _, err := storage.CheckFormat(ctx, b); return err },
		},
		"attachment, stored again": {
			func(ctx context.Context, b storage.Bucket) error {
				return storage.PutBlob(ctx, b, conv, storage.Bytes(blob))
			},
			func(ctx context.Context, b storage.Bucket) error {
				return storage.PutBlob(ctx, b, conv, storage.Bytes(blob))
			},
		},
	}
}

// TestOneBadRead checks that an undecodable read is retried. The object counts as corrupt only if two
// reads return the same bytes, of the listed size; until then the error is ErrUnavailable.
func TestOneBadRead(t *testing.T) {
	const page = "<!DOCTYPE html><html><body>Please log in</body></html>"
	flipped := func(data []byte) []byte {
		data[len(data)/2] ^= 0x80
		return data
	}
	always := func(int) bool { return true }
	once := func(n int) bool { return n == 0 }
	for name, tt := range map[string]struct {
		when   func(n int) bool
		change func(n int, data []byte) []byte
		want   error // errCorrupt, ErrUnavailable or nil.
	}{
		"a page once":     {once, func(int, []byte) []byte { return []byte(page) }, nil},
		"half of it once": {once, func(_ int, data []byte) []byte { return data[:len(data)/2] }, nil},
		"a bit once":      {once, func(_ int, data []byte) []byte { return flipped(data) }, nil},
		"nothing once":    {once, func(int, []byte) []byte { return nil }, nil},
		"others always":   {always, func(n int, data []byte) []byte { data[n%len(data)] ^= 0x80; return data }, storage.ErrUnavailable},
		"a bit always":    {always, func(_ int, data []byte) []byte { return flipped(data) }, errCorrupt},
	} {
		for kind, o := range objects() {
			if want := tt.want; kind == "journal, written again" && want == errCorrupt {
				continue // Other bytes under the key belong to another writer.
			}
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				if err := o.store(t.Context(), store); err != nil {
					t.Fatalf("store %s: %v", kind, err)
				}
				b := &misread{Bucket: store, reads: map[string]int{}, change: func(n int, data []byte) []byte {
					if tt.when(n) {
						return tt.change(n, data)
					}
					return data
				}}
				ctx := withTimeout(t, 1<<40)
				got := o.read(ctx, b)
				if !errors.Is(corruptionOf(got), tt.want) {
					t.Errorf("%s, read with %s: got %v, want %v", kind, name, got, tt.want)
				}
			})
		}
	}
}

var errCorrupt = errors.New("corrupt")

// corruptionOf maps all errors of corrupt objects to errCorrupt.
func corruptionOf(err error) error {
	var other *storage.IntegrityError
	var format *storage.FormatError
	if storage.IsCorrupt(err) || errors.As(err, &other) || errors.As(err, &format) {
		return errCorrupt
	}
	return err
}

// TestBytesOfAnotherSize checks that bytes whose size differs from the listing never count as the
// object, however often they are read.
func TestBytesOfAnotherSize(t *testing.T) {
	for _, kind := range []string{"batch", "large batch", "small segment"} {
		o := objects()[kind]
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			if err := o.store(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			b := &misread{Bucket: store, reads: map[string]int{}, change: func(int, []byte) []byte { return []byte("a page, always the same") }}
			if err := o.read(t.Context(), b); !errors.Is(err, storage.ErrUnavailable) || storage.IsCorrupt(err) {
				t.Errorf("%s: got %v, want %v", kind, err, storage.ErrUnavailable)
			}
		})
	}
}

// TestSettledByASecondRead checks that a bad read of its own batch does not fence a writer whose
// answer was lost.
func TestSettledByASecondRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, conv := memory(t), conversation.Address{Agent: "a", ID: "x"}.Key()
		b := &misread{Bucket: lostAck{store}, reads: map[string]int{}, change: func(n int, data []byte) []byte { return data[:len(data)*min(n, 1)] }}
		if _, err := storage.NewLogs(b, nil).Writer(conv, "n1", storage.Start(), 1).Append(t.Context(), []byte("{}\n"), 1); err != nil {
			t.Errorf("got %v, want success", err)
		}
	})
}

// lostAck stores objects and loses the answers.
type lostAck struct{ storage.Bucket }

// Create implements storage.Bucket.
func (l lostAck) Create(ctx context.Context, key string, body storage.Body) error {
	if err := l.Bucket.Create(ctx, key, body); err != nil {
		return err
	}
	return &storage.Error{Op: storage.OpCreate, Key: key, Kind: storage.ErrUncertain}
}

// TestFormatThatIsAPage checks that an HTML page in place of the stamp is not taken for another
// format.
func TestFormatThatIsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		if err := b.Put(t.Context(), "format.json", storage.Bytes([]byte("<html>Please log in</html>"))); err != nil {
			t.Fatal(err)
		}
		err := storage.EnsureFormat(t.Context(), b)
		if answer, ok := errors.AsType[*storage.AnswerError](err); !ok || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(answer.Found, "format.json is an HTML page") {
			t.Errorf("got %v, want a page in place of format.json", err)
		}
	})
}
