package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

// Restored is a decoded checkpoint: the state without its history, and the history that does not fill
// a page yet, or nil.
type Restored struct {
	Checkpoint *storage.Checkpoint
	State      *conversation.State
	Tail       *conversation.HistoryPage
	Bytes      int // size of the encoded state
}

// Restore returns the newest usable checkpoint, or nil. A checkpoint that is corrupt or of another
// version is logged and ignored, because the log is complete. If only another version can read its
// state, the rest of the checkpoint is returned as older. The error is the bucket's.
func Restore(ctx context.Context, source Source, key conversation.Key, log *slog.Logger) (r *Restored, older *storage.Checkpoint, err error) {
	c, err := source.Checkpoint(ctx, key)
	if err == nil && c == nil {
		return nil, nil, nil
	}
	if err == nil {
		r, err = restored(c)
	}
	switch {
	case err == nil:
		return r, nil, nil
	case errors.Is(err, conversation.ErrReducer):
		older = c
		older.State, older.Tail = nil, nil
		log.Info("checkpoint is of another version, folding the log", "conversation", string(key), "err", err)
	case away(err), ctx.Err() != nil:
		return nil, nil, fmt.Errorf("restore %s: %w", key, err)
	default:
		log.Warn("checkpoint unusable; folding log", "conversation", string(key), "err", err)
	}
	return nil, older, nil
}

func restored(c *storage.Checkpoint) (*Restored, error) {
	state, err := conversation.DecodeState(c.State)
	if err != nil {
		return nil, err
	}
	if int64(state.Head()) != c.At.Seq {
		return nil, fmt.Errorf("state ends at batch %d, checkpoint is at batch %d", int64(state.Head()), c.At.Seq)
	}
	r := &Restored{Checkpoint: c, State: state, Bytes: len(c.State)}
	if len(c.Tail) > 0 {
		if r.Tail, err = conversation.DecodeHistory(c.Tail); err != nil {
			return nil, err
		}
	}
	c.State, c.Tail = nil, nil // release the large fields
	return r, nil
}

// away reports whether err is a bucket failure, which proves nothing about the stored data.
func away(err error) bool {
	var e *storage.Error
	return errors.As(err, &e) && !errors.Is(err, storage.ErrNotFound)
}

// History reads pages of closed history. On a [*storage.CorruptError] the caller folds the log
// instead.
func History(ctx context.Context, source Source, key conversation.Key, refs []storage.PageRef) ([]*conversation.HistoryPage, error) {
	out := make([]*conversation.HistoryPage, 0, len(refs))
	for _, ref := range refs {
		data, err := source.Page(ctx, key, ref)
		if err != nil {
			return nil, err
		}
		page, err := conversation.DecodeHistory(data)
		if err != nil {
			return nil, &storage.CorruptError{Conv: key, Key: storage.PageKey(key, ref), Err: err}
		}
		out = append(out, page)
	}
	return out, nil
}

// Admitted reads an admission whose delivery is stored only in the log.
func Admitted(ctx context.Context, source Source, turns *memory.Account, key conversation.Key, l *conversation.Left) (*conversation.SubmissionAdmitted, error) {
	stored, err := source.Range(ctx, key, int64(l.At), int64(l.At))
	if err != nil {
		return nil, err
	}
	for _, b := range stored {
		d, err := decoded(turns, b)
		if err != nil {
			return nil, err
		}
		if adm := l.Of(d.records); adm != nil {
			return adm, nil
		}
	}
	return nil, &logError{int64(l.At), fmt.Errorf("submission %s not admitted in this batch", l.Submission)}
}
