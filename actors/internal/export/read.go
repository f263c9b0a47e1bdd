package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

const (
	// turnBatches is the number of batches read of one log before other logs get their turn.
	turnBatches = 1024
	// corruptAttempts is the number of reads of a corrupt log before it is skipped.
	corruptAttempts = 3
)

// delayed is a trail with the time of its next read.
type delayed struct {
	t  *trail
	at time.Time
}

// errSkipped reports that a log must not be read now.
var errSkipped = errors.New("log must not be read now")

// shortError reports that a log ends before a known batch.
type shortError struct{ end, want int64 }

// Error implements error.
func (e *shortError) Error() string {
	return fmt.Sprintf("log ends at batch %d, but batch %d was known", e.end, e.want)
}

// badRecordsError reports a valid batch whose records cannot be decoded.
type badRecordsError struct {
	seq int64
	err error
}

// Error implements error.
func (e *badRecordsError) Error() string { return fmt.Sprintf("batch %d: %v", e.seq, e.err) }

// Unwrap returns the cause.
func (e *badRecordsError) Unwrap() error { return e.err }

// panicError reports that this version panics over a log, which is handled like corruption.
type panicError struct {
	reason any
	stack  string
}

// recovered turns a panic into an error; it is deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{p, string(debug.Stack())}
	}
}

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.reason) }

// LogValue implements slog.LogValuer and adds the stack.
func (e *panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", fmt.Sprint(e.reason)), slog.String("stack", e.stack))
}

// readLoop reads the logs of conversations that are behind, one after the other, until ctx ends.
func (x *Exporter) readLoop(ctx context.Context) {
	wait := x.opts.RetryPause
	for x.awaitRoom(ctx) {
		t, soon := x.nextToRead()
		if t == nil {
			x.await(ctx, x.readable, soon)
			continue
		}
		adopts, end, err := x.read(ctx, t)
		if ctx.Err() != nil {
			return // It stays behind; the final journal lists it.
		}
		if !x.readDone(t, adopts, end, err, wait) {
			wait = x.opts.RetryPause
			continue
		}
		x.log.Warn("read log failed; retrying", "conversation", string(t.key), "err", err)
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, x.opts.longestPause())
	}
}

// awaitRoom waits until there is room in memory, and reports whether ctx is still valid.
func (x *Exporter) awaitRoom(ctx context.Context) bool {
	for ctx.Err() == nil {
		x.mu.Lock()
		room := x.room
		x.mu.Unlock()
		if x.hasRoom() {
			return true
		}
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
	return false
}

func (x *Exporter) hasRoom() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytes < x.opts.MemoryBytes
}

// nextToRead returns a conversation to read, or nil and the time until the next; 0 waits for a signal.
func (x *Exporter) nextToRead() (*trail, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for len(x.later) > 0 && !x.later[0].at.After(now) {
		x.toRead = append(x.toRead, x.later[0].t)
		x.later = x.later[1:]
	}
	if len(x.toRead) > 0 {
		t := x.toRead[0]
		x.toRead[0] = nil
		x.toRead = x.toRead[1:]
		if len(x.toRead) > 0 {
			signal(x.readable) // for the other readers
		}
		return t, 0
	}
	if len(x.later) > 0 {
		return nil, x.later[0].at.Sub(now)
	}
	return nil, 0
}

// read takes batches of a log after the last taken one. It reports whether it reached the end, and the
// number of adoptions when it began.
func (x *Exporter) read(ctx context.Context, t *trail) (adopts int, end bool, err error) {
	defer recovered(&err)
	x.mu.Lock()
	from, src, want := t.taken, t.src, t.tail
	adopts = t.adopts
	x.mu.Unlock()
	if x.opts.Skip(t.key) {
		return adopts, false, errSkipped
	}
	over := x.opts.Reading(t.key)
	defer func() { over() }()
	await := func() bool {
		if x.hasRoom() {
			return true
		}
		over() // waiting for room is not reading
		ok := x.awaitRoom(ctx)
		over = x.opts.Reading(t.key)
		return ok
	}
	at, src, err := x.place(ctx, t.key, src, from)
	if err != nil {
		return adopts, false, err
	}
	n := 0
	for b, err := range x.logs.Batches(ctx, t.key, at) {
		if err != nil {
			return adopts, false, err
		}
		if src, err = x.readBatch(await, t, b, src); err != nil {
			return adopts, false, err
		}
		at = b.Position()
		if n++; n == turnBatches {
			return adopts, false, nil
		}
	}
	if at.Seq < want {
		return adopts, false, &shortError{at.Seq, want}
	}
	return adopts, true, nil
}

// place returns the position of a batch and the source after it.
func (x *Exporter) place(ctx context.Context, key conversation.Key, src observability.Source, from int64) (storage.Position, observability.Source, error) {
	if from < 0 {
		return storage.Start(), src, nil
	}
	batches, err := x.logs.Range(ctx, key, from, from)
	if err != nil {
		return storage.Position{}, src, err
	}
	// The creation is at the start of the log, after the claims of writers before it.
	for seq := int64(0); src.Agent == "" && seq <= from; seq++ {
		first, err := x.logs.Range(ctx, key, seq, seq)
		if err != nil {
			return storage.Position{}, src, err
		}
		b, err := decode(first[0])
		if err != nil {
			return storage.Position{}, src, err
		}
		src = src.After(b)
	}
	return batches[0].Position(), src, nil
}

func decode(b storage.Batch) (conversation.Batch, error) {
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return conversation.Batch{}, &badRecordsError{b.Seq, err}
	}
	return conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records}, nil
}

// readBatch takes a batch of a log and returns the source after it.
func (x *Exporter) readBatch(await func() bool, t *trail, stored storage.Batch, src observability.Source) (observability.Source, error) {
	b, err := decode(stored)
	if err != nil {
		return src, err
	}
	p, err := x.project(src, b, nil)
	if err != nil {
		return src, err
	}
	if !await() {
		return src, context.Canceled
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if stored.Seq == t.taken+1 { // else it was offered during the read
		x.take(t, stored.Seq, p)
	}
	return p.src, nil
}

// readDone processes the result of a read and reports whether the bucket did not answer. The log is
// then delayed as long as its reader, so that the other readers do not retry it.
func (x *Exporter) readDone(t *trail, adopts int, end bool, err error, wait time.Duration) (retry bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t.queued = false
	var newer *conversation.UnknownRecordError
	var bad *badRecordsError
	var short *shortError
	var panicked *panicError
	switch {
	case err == nil:
		t.corrupt = 0
		if end && t.adopts == adopts {
			t.unread = false
		}
	case errors.Is(err, errSkipped):
		x.delay(t, x.opts.longestPause())
	case errors.As(err, &newer): // A newer node will read it.
		if !t.logged {
			t.logged = true
			x.log.Warn("log of newer version; export delayed", "conversation", string(t.key), "err", err)
		}
		x.delay(t, x.opts.longestPause())
	case storage.IsCorrupt(err), errors.As(err, &bad), errors.As(err, &short), errors.As(err, &panicked):
		if t.corrupt++; t.corrupt >= corruptAttempts {
			x.skip(t, err)
		} else {
			x.delay(t, x.opts.longestPause())
		}
	default:
		x.delay(t, wait)
		retry = true
	}
	x.enqueue(t)
	x.settle(t)
	signal(x.answered)
	return retry
}

func (x *Exporter) delay(t *trail, wait time.Duration) {
	t.queued = true
	at := time.Now().Add(wait)
	i := len(x.later)
	for i > 0 && x.later[i-1].at.After(at) {
		i--
	}
	x.later = slices.Insert(x.later, i, delayed{t, at})
}

// skip moves the cursor of a log that cannot be read to its tail, and logs the loss.
func (x *Exporter) skip(t *trail, err error) {
	x.log.Error("events lost; log cannot be read",
		"conversation", string(t.key), "exported", t.exported, "known", t.tail, "err", err)
	x.counts.lost++
	x.counts.lastLost = fmt.Sprintf("conversation %s, batches after %d: %v", t.key, t.taken, err)
	t.unread, t.corrupt = false, 0
	t.taken = t.tail
	if t.pending > 0 {
		t.last.upto = t.tail
	} else {
		t.exported = t.tail
	}
}
