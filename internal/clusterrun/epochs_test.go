package clusterrun_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// window is a period in which the membership changed.
type window struct {
	From, To time.Time
	Epoch    storage.Epoch
}

// watcher records when epochs appear in the bucket.
type watcher struct {
	bucket storage.Bucket

	mu      sync.Mutex
	windows []window
	newest  storage.Epoch
}

// watch polls the bucket until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	last := time.Now()
	for noderun.Pause(ctx, 50*time.Millisecond) == nil {
		asked := time.Now()
		e, _, err := storage.NewestEpoch(ctx, w.bucket, w.newest.N)
		if err != nil {
			continue // The window begins at the last poll without the epoch.
		}
		if e.N > w.newest.N {
			w.mu.Lock()
			w.newest = e
			w.windows = append(w.windows, window{From: last, To: time.Now(), Epoch: e})
			w.mu.Unlock()
		}
		last = asked
	}
}

// changes returns the windows in which a read without an offset may be old. A node that owned a
// conversation under the previous epoch still answers for it, until one heartbeat after it last read
// that epoch as the newest.
func (w *watcher) changes() (out []window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.windows {
		c.To = c.To.Add(heartbeat)
		out = append(out, c)
	}
	return out
}

func (w *watcher) String() string {
	var b strings.Builder
	for _, c := range w.changes() {
		fmt.Fprintf(&b, "  %s to %s epoch %d:", c.From.Format("15:04:05.000"), c.To.Format("15:04:05.000"), c.Epoch.N)
		for _, m := range c.Epoch.Members {
			fmt.Fprintf(&b, " %s at %s", m.ID, m.Node)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
