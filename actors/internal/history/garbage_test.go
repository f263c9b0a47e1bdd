package history

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/storagetest"
)

type slowDeletes struct {
	mu      sync.Mutex
	deleted int
	twice   int
	seen    map[string]bool
}

func (d *slowDeletes) carry(ctx context.Context, c *storagetest.Call) error {
	if c.Method == http.MethodDelete {
		time.Sleep(50 * time.Millisecond)
		d.mu.Lock()
		d.deleted++
		if d.seen[c.Key] {
			d.twice++
		}
		d.seen[c.Key] = true
		d.mu.Unlock()
	}
	return c.Do(ctx)
}

func (d *slowDeletes) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleted
}

func keysFrom(conv conversation.Key, first, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, storage.LogKey(conv, int64(first+i)))
	}
	return keys
}

// TestGarbage checks that each key is deleted once, after its grace period, with several deletions at
// a time.
func TestGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.NewMemory()
		deletes := &slowDeletes{seen: map[string]bool{}}
		bucket := storagetest.Through(store, deletes.carry)
		var log strings.Builder
		g := newGarbage(storage.NewLogs(bucket, nil), slog.New(slog.NewTextHandler(&log, nil)), time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.run(ctx)
		}()
		a, b := conversation.Address{Agent: "a", ID: "1"}.Key(), conversation.Address{Agent: "a", ID: "2"}.Key()
		g.add(a, keysFrom(a, 0, 100))
		time.Sleep(30 * time.Second)
		g.add(a, keysFrom(a, 50, 100)) // half of them are queued already
		g.add(b, keysFrom(b, 0, 100))
		g.add(b, nil)
		time.Sleep(29 * time.Second)
		if n := deletes.count(); n != 0 {
			t.Errorf("got %d keys deleted within their grace period, want 0", n)
		}
		time.Sleep(2 * time.Second)
		if n := deletes.count(); n != 100 {
			t.Errorf("got %d keys deleted after the first grace period, want 100", n)
		}
		time.Sleep(31 * time.Second)
		if n := deletes.count(); n != 250 || deletes.twice != 0 {
			t.Errorf("after the second grace period: got %d keys deleted, %d twice, want 250", n, deletes.twice)
		}

		// More garbage than sequential requests could delete.
		for i := range 300 {
			g.add(a, keysFrom(a, 1000+i*100, 100))
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Minute)
		if n := deletes.count(); n != 250+300*100 {
			t.Errorf("got %d keys deleted, want %d", n, 250+300*100)
		}

		// More than maxGarbageKeys: the oldest are dropped.
		for i := range maxGarbageKeys/1000 + 5 {
			g.add(b, keysFrom(b, 10_000+i*1000, 1000))
		}
		g.mu.Lock()
		waiting := len(g.known)
		g.mu.Unlock()
		if waiting > maxGarbageKeys || waiting < maxGarbageKeys-1000 || !strings.Contains(log.String(), "skipping oldest keys") {
			t.Errorf("got %d queued keys, want at most %d; log %s", waiting, maxGarbageKeys, log.String())
		}
		cancel()
		<-done
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecentBatches(t *testing.T) {
	h := &Archive{}
	for i := range int64(9) {
		h.Wrote(storage.Batch{Header: storage.Header{Seq: i}, Lines: fmt.Appendf(nil, "%0*d\n", 100<<10, i)})
	}
	if h.bytes > maxRecentBytes || len(h.recent) != 5 || h.recent[0].Seq != 4 {
		t.Errorf("got %d bytes of %d batches from %d on", h.bytes, len(h.recent), h.recent[0].Seq)
	}
	h.drop(5)
	if h.recent != nil || h.bytes != 0 {
		t.Errorf("at the end: got %d bytes of %d batches", h.bytes, len(h.recent))
	}
}
