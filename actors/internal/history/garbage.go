package history

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxGarbageKeys bounds the keys that wait for deletion. Above it the oldest are left to a later
	// compaction, which finds them.
	maxGarbageKeys = 50_000
	removeTimeout  = time.Minute
)

// garbage deletes objects replaced by segments after a grace period for readers. It is kept in memory
// only: a later compaction finds what a crash leaves. It is safe for concurrent use.
type garbage struct {
	logs  *storage.Logs
	log   *slog.Logger
	grace time.Duration

	mu      sync.Mutex
	waiting []load // oldest first
	known   map[string]bool
	kick    chan struct{}
}

type load struct {
	conv conversation.Key
	keys []string
	due  time.Time
}

func newGarbage(logs *storage.Logs, log *slog.Logger, grace time.Duration) *garbage {
	return &garbage{logs: logs, log: log, grace: grace, known: map[string]bool{}, kick: make(chan struct{}, 1)}
}

// add queues keys for deletion. Keys that are queued already keep their time.
func (g *garbage) add(conv conversation.Key, keys []string) {
	g.mu.Lock()
	keys = slices.DeleteFunc(keys, func(key string) bool { return g.known[key] })
	if len(keys) > 0 {
		g.waiting = append(g.waiting, load{conv, keys, time.Now().Add(g.grace)})
	}
	for _, key := range keys {
		g.known[key] = true
	}
	dropped := 0
	for len(g.known) > maxGarbageKeys && len(g.waiting) > 1 {
		dropped += len(g.take().keys)
	}
	g.mu.Unlock()
	if dropped > 0 {
		g.log.Warn("deletion queue full, skipping oldest keys", "count", dropped)
	}
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// take removes and returns the oldest load. The caller holds mu.
func (g *garbage) take() load {
	l := g.waiting[0]
	g.waiting[0] = load{}
	g.waiting = g.waiting[1:]
	for _, key := range l.keys {
		delete(g.known, key)
	}
	if len(g.waiting) == 0 { // a slice and a map never shrink
		g.waiting, g.known = nil, map[string]bool{}
	}
	return l
}

// next returns a load that is due, or the time to wait for one; 0 means until one is added.
func (g *garbage) next() (l load, ready bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return load{}, false, 0
	}
	if wait = time.Until(g.waiting[0].due); wait > 0 {
		return load{}, false, wait
	}
	return g.take(), true, 0
}

func (g *garbage) run(ctx context.Context) {
	for ctx.Err() == nil {
		l, ready, wait := g.next()
		if ready {
			g.remove(ctx, l)
			continue
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

func (g *garbage) remove(ctx context.Context, l load) {
	bound, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := g.logs.Remove(bound, l.conv, l.keys); err != nil && ctx.Err() == nil {
		g.log.Warn("delete compacted batches failed", "conversation", string(l.conv), "count", len(l.keys), "err", err)
	}
}
