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
	// suspectLogs is the number of corrupt logs within suspectWindow that makes the store suspect.
	suspectLogs   = 3
	suspectWindow = time.Minute
	// suspectLimit bounds the time that the store stays suspect. Corruption that lasts longer is
	// reported as such.
	suspectLimit = 10 * time.Minute
	// maxSuspects bounds the number of remembered logs.
	maxSuspects = 1024
)

// SuspectStore returns a source that treats corruption of several logs within a short time as a fault
// of the store. It then returns [storage.ErrUnavailable] until fewer logs are corrupt, for at most ten
// minutes. Corruption of the first logs is reported unchanged. It is safe for concurrent use.
func SuspectStore(source Source, log *slog.Logger) Source {
	return &suspectStore{Source: source, log: log, corrupt: map[conversation.Key]time.Time{}}
}

type suspectStore struct {
	Source
	log *slog.Logger

	mu      sync.Mutex
	corrupt map[conversation.Key]time.Time // when a log was last found corrupt
	since   time.Time                      // when the store became suspect; zero if it is not
}

// classify returns err, or an unavailability error in its place while the store is suspect.
func (d *suspectStore) classify(conv conversation.Key, err error) error {
	if !storage.IsCorrupt(err) {
		return err
	}
	n := d.note(conv, time.Now())
	if n < suspectLogs {
		return err
	}
	// The cause is formatted, not wrapped, so that callers do not find a corruption error in the
	// chain.
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable,
		Err: fmt.Errorf("%d logs unreadable within %v; the store may be at fault: %v", n, suspectWindow, err)}
}

// note records a corrupt log and returns the number of logs in suspectWindow, or 0 after suspectLimit.
func (d *suspectStore) note(conv conversation.Key, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, at := range d.corrupt {
		if now.Sub(at) > suspectWindow {
			delete(d.corrupt, key)
		}
	}
	if len(d.corrupt) < maxSuspects {
		d.corrupt[conv] = now
	}
	switch n := len(d.corrupt); {
	case n < suspectLogs:
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = now
		d.log.Warn("several logs unreadable; suspecting the store", "logs", n)
	case now.Sub(d.since) > suspectLimit:
		return 0
	}
	return len(d.corrupt)
}

// Batches implements [Source]. Resume is passed through: a log that does not continue its checkpoint
// is read from its start.
func (d *suspectStore) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range d.Source.Batches(ctx, conv, after) {
			if !yield(b, d.classify(conv, err)) {
				return
			}
		}
	}
}

// Range implements [Source].
func (d *suspectStore) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	batches, err := d.Source.Range(ctx, conv, first, last)
	return batches, d.classify(conv, err)
}
