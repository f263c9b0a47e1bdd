package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxGarbageKeys bounds the keys that wait for their deletion. Above it the oldest go
	// before their time, which costs a reader that is just there a few requests.
	maxGarbageKeys = 50_000
	// removeTimeout bounds the deletion of what one compaction has left.
	removeTimeout = time.Minute
)

// garbage deletes what segments have replaced, when readers have had time to end.
// It is only memory: what a process leaves behind is found by the next compaction.
// Safe for concurrent use.
type garbage struct {
	logs  *storage.Logs
	log   *slog.Logger
	grace time.Duration

	mu      sync.Mutex
	waiting []heap // the oldest first
	keys    int
	kick    chan struct{}
}

// heap is what one compaction has left.
type heap struct {
	conv conversation.Key
	keys []string
	due  time.Time
}

func newGarbage(logs *storage.Logs, log *slog.Logger, grace time.Duration) *garbage {
	return &garbage{logs: logs, log: log, grace: grace, kick: make(chan struct{}, 1)}
}

// add takes keys that are to be deleted.
func (g *garbage) add(conv conversation.Key, keys []string) {
	if len(keys) == 0 {
		return
	}
	g.mu.Lock()
	g.waiting = append(g.waiting, heap{conv, keys, time.Now().Add(g.grace)})
	g.keys += len(keys)
	g.mu.Unlock()
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// next returns what is to be deleted now, or when to look again; 0 is when something
// is added.
func (g *garbage) next() (now []heap, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for ; n < len(g.waiting); n++ {
		wait = time.Until(g.waiting[n].due)
		if wait > 0 && g.keys <= maxGarbageKeys {
			break
		}
		g.keys -= len(g.waiting[n].keys)
		wait = 0
	}
	now, g.waiting = g.waiting[:n:n], g.waiting[n:]
	return now, wait
}

// run deletes until ctx ends.
func (g *garbage) run(ctx context.Context) {
	for ctx.Err() == nil {
		now, wait := g.next()
		for _, h := range now {
			g.remove(ctx, h)
		}
		var due <-chan time.Time
		var t *time.Timer
		if wait > 0 {
			t = time.NewTimer(wait)
			due = t.C
		}
		select {
		case <-ctx.Done():
		case <-g.kick:
		case <-due:
		}
		if t != nil {
			t.Stop()
		}
	}
}

func (g *garbage) remove(ctx context.Context, h heap) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := g.logs.Remove(ctx, h.conv, h.keys); err != nil && ctx.Err() == nil {
		g.log.Warn("batches that are in segments are not deleted", "conversation", string(h.conv), "err", err)
	}
}
