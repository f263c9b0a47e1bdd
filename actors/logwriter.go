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

// logWriter is an activation as the writer of its log. It belongs to the activation, but for
// log while an append is under way, and tip.
type logWriter struct {
	nonce   storage.Nonce
	atRest  *restingWriter  // the one to go on as, if the log has not moved on; nil once it is open
	log     *storage.Writer // nil until it is open
	claimed bool            // the writer has a durable batch
	tail    storage.Position
	tip     *atomic.Int64 // for other goroutines: the tail's number once the claim is verified, else -1
	writers int64         // how many there are, this one included once it has a batch
	// handedOver says that what the conversation owes is another node's now.
	handedOver bool
}

func newLogWriter(atRest *restingWriter) *logWriter { return &logWriter{atRest: atRest} }

func newNonce(random io.Reader) storage.Nonce {
	return storage.Nonce(ulid.MustNew(ulid.Now(), random).String())
}

// assume takes a name to write under, and returns where its tip is told.
func (w *logWriter) assume(nonce storage.Nonce) *atomic.Int64 {
	w.nonce, w.tip = nonce, new(atomic.Int64)
	w.tip.Store(-1)
	return w.tip
}

// goOn goes on as the writer at rest if the log still ends where that one left it, and
// reports whether it does. Otherwise that writer is over: somebody else has fenced it, and
// this activation needs a name of its own, and begin.
func (w *logWriter) goOn(logs *storage.Logs, key conversation.Key, tail storage.Position, writers int64) bool {
	resting := w.atRest
	w.tail, w.atRest = tail, nil
	if resting == nil || resting.tail != tail && checksResting() {
		return false
	}
	w.log, w.claimed, w.writers = logs.Continue(key, w.nonce, tail, writers-1), true, writers
	return true
}

// begin begins to write at the tail of a log that has had so many writers.
func (w *logWriter) begin(logs *storage.Logs, key conversation.Key, writers int64) {
	w.log = logs.Writer(key, w.nonce, w.tail, writers)
	w.writers = writers + 1 // a checkpoint comes after the first batch
}

// landed takes note of a durable batch, and returns what was the tail.
func (w *logWriter) landed(at storage.Position) (before storage.Position) {
	before = w.tail
	w.tip.Store(at.Seq)
	w.tail, w.claimed = at, true
	return before
}

// checkpoint is one of the log as the writer knows it.
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
