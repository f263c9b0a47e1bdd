package clusterrun_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// A window contains the moment in which its epoch landed, and no earlier epoch.
func TestWatcher(t *testing.T) {
	bucket, closeBucket, err := noderun.Place{Dir: t.TempDir()}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeBucket()
	w := &watcher{bucket: bucket}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		w.watch(ctx)
	}()
	var landed [][2]time.Time
	for n := int64(1); n <= 3; n++ {
		before := time.Now()
		e := storage.Epoch{N: n, Nonce: storage.Nonce(fmt.Sprint("n", n)), Members: []storage.Member{{ID: "m", Weight: 1}}}
		if newest, err := storage.CreateEpoch(t.Context(), bucket, e); err != nil || !newest {
			t.Fatal(newest, err)
		}
		landed = append(landed, [2]time.Time{before, time.Now()})
		for len(w.changes()) < int(n) {
			if time.Since(began) > liveness {
				t.Fatalf("epoch %d not noticed", n)
			}
			_ = noderun.Pause(ctx, time.Millisecond)
		}
	}
	cancel()
	<-done
	for i, c := range w.changes() {
		if c.Epoch.N != int64(i+1) || c.From.After(landed[i][1]) || c.To.Before(landed[i][0].Add(heartbeat)) || c.From.Before(began) {
			t.Errorf("window %v to %v of epoch %d, which landed between %v", c.From, c.To, c.Epoch.N, landed[i])
		}
	}
}
