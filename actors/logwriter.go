package actors

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// logWriter is the writer state of an activation. It belongs to the activation's goroutine, except log
// during an append, and tip.
type logWriter struct {
	nonce      storage.Nonce
	passivated *idleWriter     // writer to continue as if the log has not moved; nil once the log is open
	log        *storage.Writer // nil until the log is open
	claimed    bool            // the writer has a durable batch
	tail       storage.Position
	tip        *atomic.Int64 // for other goroutines: the tail's number once the claim is verified, else -1
	writers    int64         // number of writers of the log, including this one once it has a batch
	// handedOver reports that another node has taken over the pending work.
	handedOver bool
}

func newLogWriter(passivated *idleWriter) *logWriter { return &logWriter{passivated: passivated} }

func newNonce(random io.Reader) storage.Nonce {
	return storage.Nonce(ulid.MustNew(ulid.Now(), random).String())
}

// assume sets the nonce, and returns the counter that publishes the tip.
func (w *logWriter) assume(nonce storage.Nonce) *atomic.Int64 {
	w.nonce, w.tip = nonce, new(atomic.Int64)
	w.tip.Store(-1)
	return w.tip
}

// tryContinue continues as the idle writer if the log still ends at its last batch, and reports whether it
// does. Otherwise another writer has fenced it, and the activation needs a new nonce and begin.
func (w *logWriter) tryContinue(logs *storage.Logs, key conversation.Key, tail storage.Position, writers int64) bool {
	idle := w.passivated
	w.tail, w.passivated = tail, nil
	if idle == nil || idle.tail != tail && checksIdleWriter() {
		return false
	}
	w.log, w.claimed, w.writers = logs.Continue(key, w.nonce, tail, writers-1), true, writers
	return true
}

// begin starts writing at the tail of a log that has had the given number of writers.
func (w *logWriter) begin(logs *storage.Logs, key conversation.Key, writers int64) {
	w.log = logs.Writer(key, w.nonce, w.tail, writers)
	w.writers = writers + 1 // a checkpoint follows the first batch
}

// landed records a durable batch as the new tail and returns the previous one.
func (w *logWriter) landed(at storage.Position) (before storage.Position) {
	before = w.tail
	w.tip.Store(at.Seq)
	w.tail, w.claimed = at, true
	return before
}

// checkpoint returns the checkpoint to store at the current tail.
func (w *logWriter) checkpoint(e machine.Checkpoint, exported *int64) *history.Due {
	writers := w.writers
	if !w.claimed {
		writers-- // this one
	}
	due := &history.Due{
		Checkpoint: storage.Checkpoint{At: w.tail, Writers: writers, Exported: exported, State: e.State},
		Address:    e.Of, Day: storage.DayOf(conversation.TimeOf(time.Now())), Closed: e.Closed,
	}
	for _, c := range e.Claims {
		due.Claims = append(due.Claims, storage.Claim{Seq: int64(c.Seq), Nonce: storage.Nonce(c.Nonce)})
	}
	return due
}
