package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// maxProbes bounds how many batches behind a damaged one are tried.
const maxProbes = 1000

// DumpLog writes the batches of a log from one to another, both included, wherever they
// lie; to -1 is as far as the log goes. A first batch above 0 is not checked against what
// is before it.
//
// In the place of batches that cannot be read it writes a line {"object":"damage"} which says
// so, and goes on behind them, for as long as one of the next 1000 can be read. Then the
// error is that of the first of them. Errors are those of [storage.Logs.Batches] and
// [storage.Logs.Range], and [ErrNoConversation].
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
		return fmt.Errorf("dump log: there are no batches %d to %d, the last one is %d", from, to, last)
	}
	d.next, d.to = from, to
	var damage error
	for d.next <= d.to {
		err := d.read(ctx)
		if err != nil && storage.IsCorrupt(err) && d.failed == nil {
			if damage == nil {
				damage = err
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
	if damage != nil {
		return fmt.Errorf("dump log: %w", damage)
	}
	return nil
}

// logDumper writes batches of a log.
type logDumper struct {
	dumper
	logs     *storage.Logs
	conv     conversation.Key
	next, to int64
	// at is where a batch was found behind damage, nil if none was. It is written.
	at *storage.Position
}

func (d *logDumper) one(b storage.Batch) error {
	d.next = b.Seq + 1
	return d.batch(b, batchLine{Object: storage.KindBatch})
}

// read writes batches from the next one to the last, or until one cannot be read.
func (d *logDumper) read(ctx context.Context) error {
	at := storage.Start()
	switch {
	case d.at != nil:
		at, d.at = *d.at, nil
	case d.next > 0: // The reader wants to know what comes before.
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

// corruptionLine stands for batches that cannot be read.
type corruptionLine struct {
	Object string `json:"object"` // damage
	First  int64  `json:"first"`
	Last   int64  `json:"last"` // First-1 if all can be read, and do not follow from those before.
	Error  string `json:"error"`
}

// skip finds the next batch that can be read by itself, says what is between, and writes it.
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
			line.Error += fmt.Sprintf("; nor can the %d behind it, so that what is left is not looked at", maxProbes)
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
