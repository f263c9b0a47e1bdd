package storage_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// sink is a bucket that stores nothing, so that only the work of this package is measured.
type sink struct{ storage.Bucket }

func (sink) Create(_ context.Context, _ string, body storage.Body) error {
	_, err := io.Copy(io.Discard, body.Reader)
	return err
}

func (sink) List(context.Context, storage.ListQuery) (storage.ListPage, error) {
	return storage.ListPage{}, nil
}

// benchBucket returns a bucket by name: sink, memory, or pebble with synced writes.
func benchBucket(b *testing.B, name string) storage.Bucket {
	b.Helper()
	store := local.NewMemory()
	switch name {
	case "sink":
		return sink{}
	case "pebble":
		var err error
		if store, err = local.Open(b.TempDir(), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

// record returns one record line of n bytes that compresses like a real one.
func record(n, salt int) []byte {
	head := fmt.Sprintf(`{"type":"user_message","submission":"01J%022d","at":17321%08d,"text":"`, salt*7919, salt)
	words := "please look at the invoice from last week and tell me why the total differs from what we agreed on in March "
	text := strings.Repeat(words, n/len(words)+1)
	return []byte(head + text[:max(1, n-len(head)-3)] + "\"}\n")
}

// BenchmarkAppend stores batches of one record. Each writer has its own conversation.
func BenchmarkAppend(b *testing.B) {
	for _, name := range []string{"sink", "memory", "pebble"} {
		for _, size := range []int{300, 600, 4000} {
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/bytes=%d/callers=%d", name, size, callers), func(b *testing.B) {
					benchAppend(b, storage.NewLogs(benchBucket(b, name), nil), size, callers)
				})
			}
		}
	}
}

// benchAppend rotates each caller over 64 writers, so that a store that caches recent keys gets no
// advantage.
func benchAppend(b *testing.B, logs *storage.Logs, size, callers int) {
	const each = 64
	writers := make([]*storage.Writer, callers*each)
	for i := range writers {
		writers[i] = logs.Writer(keyOf(fmt.Sprint(i)), storage.Nonce(fmt.Sprintf("writer-%d", i)), storage.Start(), 1)
		if _, err := writers[i].Append(b.Context(), nil, 1); err != nil { // The claim.
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			lines := record(size, c)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				w := writers[c*each+int(i/int64(callers)%each)]
				if _, err := w.Append(b.Context(), lines, conversation.Time(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkWriteJournal stores journals of various sizes.
func BenchmarkWriteJournal(b *testing.B) {
	for _, name := range []string{"sink", "pebble"} {
		for _, count := range []int{1, 64, 1000} {
			b.Run(fmt.Sprintf("%s/entries=%d", name, count), func(b *testing.B) {
				bucket := benchBucket(b, name)
				var entries []storage.JournalEntry
				for i := range count {
					entries = append(entries, storage.JournalEntry{
						Conv: keyOf(fmt.Sprint(i)), Nonce: storage.Nonce(fmt.Sprintf("01J%023d", i)), Seq: int64(i),
					})
				}
				w, n := storage.NewJournalWriter(bucket), int64(0)
				b.ReportAllocs()
				for b.Loop() {
					j := storage.Journal{Member: "01JMEMBER", N: n, Entries: entries}
					if err := w.Write(b.Context(), j); err != nil {
						b.Fatal(err)
					}
					n++
				}
			})
		}
	}
}
