package follower

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// doubtedLogs is how many damaged logs within doubtWindow put the store in doubt.
	doubtedLogs = 3
	doubtWindow = time.Minute
	// doubtLimit bounds how long the store is in doubt: what is damaged for longer is corrupt.
	doubtLimit = 10 * time.Minute
	// maxDoubted bounds the logs that are remembered.
	maxDoubted = 1024
)

// Doubting returns a source that takes damage of several logs within a short time for a
// fault of the store, not of the logs: errors are those of a bucket without an answer until
// fewer logs are damaged, or for at most ten minutes. The first logs are reported as damaged.
// It is safe for concurrent use.
func Doubting(source Source, log *slog.Logger) Source {
	return &doubting{Source: source, log: log, damaged: map[conversation.Key]time.Time{}}
}

type doubting struct {
	Source
	log *slog.Logger

	mu      sync.Mutex
	damaged map[conversation.Key]time.Time // when a log was found damaged last
	since   time.Time                      // when the doubt began, zero without one
}

// judge returns err, or what stands for it while the store is in doubt.
func (d *doubting) judge(conv conversation.Key, err error) error {
	if !storage.IsCorrupt(err) {
		return err
	}
	n := d.note(conv, time.Now())
	if n < doubtedLogs {
		return err
	}
	// The chain is cut: this damage is not believed.
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable,
		Err: fmt.Errorf("%d logs cannot be read within %v, the store may be at fault: %v", n, doubtWindow, err)}
}

// note counts a damaged log and returns how many there were of late; 0 once the doubt has
// lasted too long.
func (d *doubting) note(conv conversation.Key, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, at := range d.damaged {
		if now.Sub(at) > doubtWindow {
			delete(d.damaged, key)
		}
	}
	if len(d.damaged) < maxDoubted {
		d.damaged[conv] = now
	}
	switch n := len(d.damaged); {
	case n < doubtedLogs:
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = now
		d.log.Warn("several logs cannot be read, the store may be at fault", "logs", n)
	case now.Sub(d.since) > doubtLimit:
		return 0
	}
	return len(d.damaged)
}

// Batches implements [Source]. Resume is not judged: a log that does not continue its
// checkpoint is read from its start.
func (d *doubting) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range d.Source.Batches(ctx, conv, after) {
			if !yield(b, d.judge(conv, err)) {
				return
			}
		}
	}
}

// Range implements [Source].
func (d *doubting) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	batches, err := d.Source.Range(ctx, conv, first, last)
	return batches, d.judge(conv, err)
}
