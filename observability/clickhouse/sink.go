package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	drivercolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/observability"
)

// maxDays is the maximum number of days of events in one insert. Each day is a partition, and the
// server rejects inserts into more than 100.
const maxDays = 64

// chunkRows is the number of rows that are encoded at once. By the native protocol each chunk is sent
// on its own, which reuses the buffers; the server joins them to one insert.
const chunkRows = 512

// Sink writes events into a database. It implements [observability.Sink] and is safe for concurrent
// use.
type Sink struct {
	db           *Database
	whole, brief insert
	encoder      *observability.Encoder
	spare        sync.Pool // pool of *filling
}

// insert is an INSERT statement and its columns.
type insert struct {
	statement string
	columns   []column
}

func newInsert(cs []column) insert {
	return insert{"INSERT INTO events_raw (" + names(cs) + ")", cs}
}

// NewSink returns a sink. It returns a [*DeniedError] if the database user may only read. It sends no
// request and creates no tables. The caller owns the Database and closes it after the last Write.
func NewSink(db *Database) (*Sink, error) {
	if db.ReadOnly() {
		return nil, db.denied("INSERT INTO events_raw", errors.New("the user may only read"))
	}
	return &Sink{db: db, whole: newInsert(columns()), brief: newInsert(briefColumns()), encoder: observability.NewEncoder()}, nil
}

// Name implements [observability.Sink].
func (*Sink) Name() string { return "clickhouse" }

// Write implements [observability.Sink]. It returns when the rows are in the table. All events take
// one insert, or one for each 64 days if they are of more. It returns [ErrNoSchema] if tables are
// missing. After an error, any of the events may be stored; writing them again is safe.
func (s *Sink) Write(ctx context.Context, events []observability.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store %d events: %w", len(events), err)
	}
	for _, group := range byDays(events) {
		if err := s.write(ctx, group); err != nil {
			return fmt.Errorf("store %d events: %w", len(group), s.db.explain("INSERT INTO events_raw", err))
		}
	}
	return nil
}

func (s *Sink) write(ctx context.Context, events []observability.Event) error {
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"async_insert": 0}))
	in := &s.brief
	if slices.ContainsFunc(events, func(e observability.Event) bool { return !brief(e.Type) }) {
		in = &s.whole
	}
	batch, err := s.db.conn.PrepareBatch(ctx, in.statement)
	if err != nil {
		return err
	}
	defer func() {
		if !batch.IsSent() { // after an error or a panic
			_ = batch.Abort() // The connection is closed in any case.
		}
	}()
	f, ok := s.spare.Get().(*filling)
	if !ok {
		f = &filling{encoder: s.encoder, wire: newWire()}
	}
	if err := f.fill(ctx, batch, in.columns, events, s.db.opts.HTTP); err != nil {
		return err // Do not reuse a partly filled buffer.
	}
	f.reset()
	s.spare.Put(f)
	return batch.Send()
}

// filling holds the buffers with which one insert is encoded, in addition to the driver's. Sink.spare
// pools them.
type filling struct {
	encoder      *observability.Encoder
	rows         []row
	payloads     []byte
	dictionaries []dictionary // one for each column, used for LowCardinality columns
	wire         *wire
}

// fill adds all events to a batch. If whole, the caller sends it at the end; otherwise fill sends each
// chunk.
func (f *filling) fill(ctx context.Context, batch driver.Batch, columns []column, events []observability.Event, whole bool) error {
	f.rows = slices.Grow(f.rows[:0], min(len(events), chunkRows))
	f.dictionaries = slices.Grow(f.dictionaries[:0], len(columns))[:len(columns)]
	to := batch.Columns()
	for chunk := range slices.Chunk(events, chunkRows) {
		err := ctx.Err() // The driver checks the context only when it sends.
		if err != nil {
			return err
		}
		rows := f.rows[:len(chunk)]
		if f.payloads, err = fillRows(rows, chunk, f.encoder, f.payloads); err != nil {
			return err
		}
		for i, c := range columns {
			if c.word != nil {
				for j := range rows {
					f.dictionaries[i].add(c.word(&rows[j]))
				}
			} else if err := c.append(to[i], rows); err != nil {
				return fmt.Errorf("fill column %s: %w", c.name, err)
			}
		}
		if !whole {
			if err := f.finish(to, columns); err != nil {
				return err
			}
			if err := batch.Flush(); err != nil {
				return err
			}
		}
	}
	if whole {
		return f.finish(to, columns)
	}
	return nil
}

// finish writes the LowCardinality columns of the rows added since the last call.
func (f *filling) finish(to []drivercolumn.Interface, columns []column) error {
	for i, c := range columns {
		if c.word == nil {
			continue
		}
		if err := f.dictionaries[i].writeTo(to[i], f.wire); err != nil {
			return fmt.Errorf("fill column %s: %w", c.name, err)
		}
	}
	return nil
}

// maxSpare bounds the bytes of each buffer that a filling keeps for reuse.
const maxSpare = 1 << 20

// reset clears the rows, so that they do not retain events, and drops large buffers.
func (f *filling) reset() {
	clear(f.rows[:cap(f.rows)])
	if cap(f.payloads) > maxSpare {
		f.payloads = nil
	}
	for i := range f.dictionaries {
		f.dictionaries[i].reset()
	}
	if f.wire.bytes.Cap() > maxSpare {
		f.wire = newWire()
	}
}

// byDays splits events into groups of at most maxDays days. There is one group unless the events are
// of more days.
func byDays(events []observability.Event) [][]observability.Event {
	if len(events) == 0 {
		return nil
	}
	days := map[int64]bool{}
	for i := range events {
		days[day(events[i].At)] = true
	}
	if len(days) <= maxDays {
		return [][]observability.Event{events}
	}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b observability.Event) int { return int(day(a.At) - day(b.At)) })
	var groups [][]observability.Event
	start, distinct := 0, 1
	for i := 1; i < len(sorted); i++ {
		if day(sorted[i].At) == day(sorted[i-1].At) {
			continue
		}
		if distinct++; distinct > maxDays {
			groups = append(groups, sorted[start:i])
			start, distinct = i, 1
		}
	}
	return append(groups, sorted[start:])
}

var _ observability.Sink = (*Sink)(nil)
