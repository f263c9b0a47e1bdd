package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/parleyrun/parley/conversation"
)

// Writer appends batches to the log of one conversation under one nonce. It starts at the position up
// to which its owner has read the log. Its first batch is the claim that fences earlier writers.
//
// Guarantees:
//
//  1. Append returns a position only for a batch that is stored byte for byte. That batch stays the
//     batch of its number.
//  2. After ErrFenced or ErrUncertain the writer is unusable: every further Append returns that
//     error and sends nothing.
//  3. After any other error nothing of that Append was stored or will be stored. The writer may
//     continue.
//
// One Append runs at a time; a concurrent one returns ErrConcurrentAppend. The rules R1 to R6 in
// comments are defined in the package comment.
type Writer struct {
	logs  *Logs
	conv  conversation.Key
	nonce Nonce
	epoch int64

	busy atomic.Bool
	// The Append that holds busy owns the fields below.
	at      Position // Last appended batch, or the position at which the writer started.
	claimed bool     // The claim is stored and verified.
	stored  Batch    // Batch of the last Append.
	spent   error    // Error that every further Append returns; nil while the writer is usable.
}

// Writer returns a writer that appends after at. The nonce must never have been used before. epoch is
// stored in each batch for information only. No request is sent until the first Append.
func (l *Logs) Writer(conv conversation.Key, nonce Nonce, at Position, epoch int64) *Writer {
	return &Writer{logs: l, conv: conv, nonce: nonce, epoch: epoch, at: at}
}

// Continue returns a writer that replaces an earlier one with the same nonce. The earlier one must
// have stored and verified a batch, must have stored nothing after at, and must not be used again. The
// new writer makes no claim: if another writer has written after at, its first Append is fenced.
func (l *Logs) Continue(conv conversation.Key, nonce Nonce, at Position, epoch int64) *Writer {
	w := l.Writer(conv, nonce, at, epoch)
	w.claimed = true
	return w
}

// Nonce returns the writer's nonce.
func (w *Writer) Nonce() Nonce { return w.nonce }

// Append stores lines as the next batch and returns its position. lines are zero or more record lines,
// each with its newline, and must not change until Append returns. at is stored as the creation time
// of the batch, for information only.
//
// Append retries until the outcome is known or ctx ends. It returns a [*FencedError], or an [*Error]
// with ErrUncertain or ErrRefused. The [*Error] has no kind if ctx ended before the first request.
func (w *Writer) Append(ctx context.Context, lines []byte, at conversation.Time) (Position, error) {
	if !w.busy.CompareAndSwap(false, true) {
		return Position{}, ErrConcurrentAppend
	}
	defer w.busy.Store(false)
	if w.spent != nil {
		return Position{}, w.spent
	}
	stored, err := w.append(ctx, lines, at)
	if err != nil {
		err = fmt.Errorf("append batch %d: %w", w.at.Seq+1, err)
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrUncertain) {
			w.spent = err
		}
		return Position{}, err
	}
	w.at, w.claimed, w.stored = stored.Position(), true, stored
	return w.at, nil
}

// Stored returns the batch of the last Append, with its lines. It must not be called during an Append.
func (w *Writer) Stored() Batch { return w.stored }

func (w *Writer) append(ctx context.Context, lines []byte, at conversation.Time) (Batch, error) {
	if err := validAfter(w.conv, w.at.Seq); err != nil {
		return Batch{}, err
	}
	key := LogKey(w.conv, w.at.Seq+1)
	if ctx.Err() != nil {
		return Batch{}, &Error{Op: "append", Key: key, Err: context.Cause(ctx)}
	}
	head := Header{
		Version: SchemaVersion, Seq: w.at.Seq + 1, Nonce: w.nonce, First: !w.claimed,
		Prev: w.at.Hash, Epoch: w.epoch, At: at,
	}
	data, hash, err := encodeBatch(w.logs.frames, head, lines)
	if err != nil {
		return Batch{}, &Error{Op: "append", Key: key, Kind: ErrRefused, Err: err}
	}
	attempts := 0
	err = createResolved(ctx, w.logs.bucket, w.logs.retry, key, func() Body {
		if attempts++; attempts > 1 && !frozenBody() {
			data, hash = w.rebuild(ctx, head, lines)
		}
		return Bytes(data)
	})
	if errors.Is(err, ErrExists) {
		err = w.settle(ctx, head.Seq, hash)
	}
	if err == nil && head.First && verifyClaim() {
		err = w.verify(ctx, head.Seq)
	}
	return Batch{Header: head, Lines: lines, Hash: hash}, err
}

// settle reads the stored batch to decide the outcome of an append that got 412 (rule R2). Only a
// batch with the same nonce and hash is a success. The nonce alone would also match another content
// from this writer.
func (w *Writer) settle(ctx context.Context, seq int64, hash Hash) error {
	if !readBack() {
		return nil
	}
	key := LogKey(w.conv, seq)
	o := w.logs.retry.reads(w.logs.bucket, key)
	o.attempts = 0
	b, err := readDecoded(ctx, o, func(data []byte) (Batch, error) { return w.logs.decode(w.conv, seq, data) })
	switch {
	case errors.Is(err, ErrNotFound), IsCorrupt(err):
		return &FencedError{Conv: w.conv, Seq: seq, Err: err}
	case err != nil:
		return &Error{Op: "append", Key: key, Kind: ErrUncertain, Err: err}
	case b.Nonce == w.nonce && (b.Hash == hash || !frozenBody()):
		return nil
	default:
		return &FencedError{Conv: w.conv, Seq: seq, Winner: b.Nonce}
	}
}

// verify lists the log after the claim is stored (rule R4). A batch above the claim means that the
// writer started from an old position. Then the key of the claim was free only because compaction had
// deleted the batch there.
func (w *Writer) verify(ctx context.Context, seq int64) error {
	tail, err := readResolved(ctx, w.logs.retry, func(ctx context.Context) (int64, error) {
		return w.logs.Tail(ctx, w.conv, seq)
	})
	if err != nil {
		return &Error{Op: "append", Key: LogKey(w.conv, seq), Kind: ErrUncertain, Err: err}
	}
	if tail > seq {
		return &FencedError{Conv: w.conv, Seq: tail, Err: errors.New("claim is stale")}
	}
	return nil
}
