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
	// doubtedLogs is the number of corrupt logs within doubtWindow that makes the store suspect.
	doubtedLogs = 3
	doubtWindow = time.Minute
	// doubtLimit bounds the time that the store stays suspect. Corruption that lasts longer is
	// reported as such.
	doubtLimit = 10 * time.Minute
	// maxDoubted bounds the number of remembered logs.
	maxDoubted = 1024
)

// SuspectStore returns a source that treats corruption of several logs within a short time as a fault
// of the store. It then returns [storage.ErrUnavailable] until fewer logs are corrupt, for at most ten
// minutes. Corruption of the first logs is reported unchanged. It is safe for concurrent use.
func Doubting(source Source, log *slog.Logger) Source {
	return &doubting{Source: source, log: log, damaged: map[conversation.Key]time.Time{}}
}

type doubting struct {
	Source
	log *slog.Logger

	mu      sync.Mutex
	damaged map[conversation.Key]time.Time // when a log was last found corrupt
	since   time.Time                      // when the store became suspect; zero if it is not
}

// judge returns err, or an unavailability error in its place while the store is suspect.
func (d *doubting) judge(conv conversation.Key, err error) error {
	if !storage.IsCorrupt(err) {
		return err
	}
	n := d.note(conv, time.Now())
	if n < doubtedLogs {
		return err
	}
	// The cause is formatted, not wrapped, so that callers do not find a corruption error in the
	// chain.
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable,
		Err: fmt.Errorf("%d logs cannot be read within %v, the store may be at fault: %v", n, doubtWindow, err)}
}

// note records a corrupt log and returns the number of logs in doubtWindow, or 0 after doubtLimit.
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

// Batches implements [Source]. Resume is passed through: a log that does not continue its checkpoint
// is read from its start.
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
