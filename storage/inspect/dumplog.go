package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// maxProbes bounds the batches that are tried after a corrupt one.
const maxProbes = 1000

// DumpLog writes the batches of a log from one to another, inclusive, wherever they are stored; to -1
// is the end of the log. A first batch above 0 is not checked against the one before.
//
// In place of unreadable batches it writes a line {"object":"damage"} and continues after them, if one
// of the next 1000 is readable. Then it returns the error of the first unreadable one. Errors are
// those of [storage.Logs.Batches] and [storage.Logs.Range], and [ErrNoConversation].
func DumpLog(ctx context.Context, b storage.Bucket, conv conversation.Key, from, to int64, w io.Writer) error {
	d := &logDumper{dumper: dumper{w: w, bucket: b}, logs: storage.NewLogs(b, nil), conv: conv}
	last, err := d.logs.Tail(ctx, conv, -1)
	if err != nil {
		return fmt.Errorf("dump log: %w", err)
	}
	if last < 0 {
		return ErrNoConversation
	}
	if to < 0 || to > last {
		to = last
	}
	if from < 0 || from > to {
		return fmt.Errorf("dump log: batches %d to %d do not exist; the last one is %d", from, to, last)
	}
	d.next, d.to = from, to
	var corruption error
	for d.next <= d.to {
		err := d.read(ctx)
		if err != nil && storage.IsCorrupt(err) && d.failed == nil {
			if corruption == nil {
				corruption = err
			}
			err = d.skip(ctx, err)
		}
		switch {
		case d.failed != nil:
			return fmt.Errorf("write dump: %w", d.failed)
		case err != nil:
			return fmt.Errorf("dump log: %w", err)
		}
	}
	if corruption != nil {
		return fmt.Errorf("dump log: %w", corruption)
	}
	return nil
}

// logDumper prints batches of a log.
type logDumper struct {
	dumper
	logs     *storage.Logs
	conv     conversation.Key
	next, to int64
	// at is the position of a batch found after corruption, nil if none was. It is printed already.
	at *storage.Position
}

func (d *logDumper) one(b storage.Batch) error {
	d.next = b.Seq + 1
	return d.batch(b, batchLine{Object: storage.KindBatch})
}

// read prints batches from the next to the last, or until one is unreadable.
func (d *logDumper) read(ctx context.Context) error {
	at := storage.Start()
	switch {
	case d.at != nil:
		at, d.at = *d.at, nil
	case d.next > 0: // The reader needs the batch before.
		before, err := d.logs.Range(ctx, d.conv, d.next-1, d.next-1)
		if err != nil {
			return err
		}
		at = before[0].Position()
	}
	for b, err := range d.logs.Batches(ctx, d.conv, at) {
		switch {
		case err != nil:
			return err
		case b.Seq > d.to:
			d.next = b.Seq
			return nil
		}
		if err := d.one(b); err != nil {
			return err
		}
	}
	d.next = d.to + 1
	return nil
}

// corruptionLine replaces unreadable batches.
type corruptionLine struct {
	Object string `json:"object"` // "damage"
	First  int64  `json:"first"`
	Last   int64  `json:"last"` // First-1 if all are readable but do not continue those before.
	Error  string `json:"error"`
}

// skip finds the next readable batch, prints the corruption before it, and prints the batch.
func (d *logDumper) skip(ctx context.Context, why error) error {
	line := corruptionLine{Object: "damage", First: d.next, Error: why.Error()}
	n := d.next
	for tries := 0; n <= d.to; tries++ {
		found, err := d.logs.Range(ctx, d.conv, n, n)
		if err == nil {
			line.Last = n - 1
			if err := d.value(line); err != nil {
				return err
			}
			d.at = new(found[0].Position())
			return d.one(found[0])
		}
		if !storage.IsCorrupt(err) {
			return err
		}
		if tries == maxProbes {
			line.Error += fmt.Sprintf("; the next %d are unreadable too, and the rest is skipped", maxProbes)
			break
		}
		n++
		var gap *storage.GapError
		if errors.As(err, &gap) && gap.Next > n {
			n = gap.Next
		}
	}
	line.Last, d.next = d.to, d.to+1
	return d.value(line)
}
