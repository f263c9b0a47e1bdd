package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/parleyrun/parley/observability"
)

// maxDays is how many days one insert touches at most. The server refuses more than 100
// partitions in one.
const maxDays = 64

// chunkRows is how many rows are held beside the columns that are built of them, and
// blockRows how many in columns before they are sent, by the native protocol, as a part
// of the same insert. The server puts the blocks together.
const (
	chunkRows = 1024
	blockRows = chunkRows
)

// Sink writes events into a database. It implements [observability.Sink].
type Sink struct {
	db      *Database
	columns []column
	insert  string
}

// NewSink returns a sink. The error is a [*DeniedError] if the user may only read. The
// sink does not make tables, and the Database stays the caller's, who closes it after
// the last Write.
func NewSink(db *Database) (*Sink, error) {
	if db.ReadOnly() {
		return nil, db.denied("INSERT INTO events_raw", errors.New("the user may only read"))
	}
	cs := columns()
	return &Sink{db: db, columns: cs, insert: "INSERT INTO events_raw (" + names(cs) + ")"}, nil
}

// Name implements [observability.Sink].
func (*Sink) Name() string { return "clickhouse" }

// Write implements [observability.Sink]: one insert, which returns when the server has
// the rows in its table. Events of more than 64 days take one for every 64. The error is
// [ErrNoSchema] if tables are missing.
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

func (s *Sink) write(ctx context.Context, events []observability.Event) (err error) {
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"async_insert": 0}))
	batch, err := s.db.conn.PrepareBatch(ctx, s.insert)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !batch.IsSent() {
			_ = batch.Abort() // The connection is given up, which says all.
		}
	}()
	if err := s.fill(batch, events); err != nil {
		return err
	}
	return batch.Send()
}

func (s *Sink) fill(batch driver.Batch, events []observability.Event) error {
	rows := make([]row, min(len(events), chunkRows))
	for chunk := range slices.Chunk(events, chunkRows) {
		for i := range chunk {
			if err := rows[i].fill(&chunk[i]); err != nil {
				return err
			}
		}
		for i, c := range s.columns {
			if err := c.append(batch.Column(i), rows[:len(chunk)]); err != nil {
				return fmt.Errorf("fill column %s: %w", c.name, err)
			}
		}
		if batch.Rows() >= blockRows {
			if err := batch.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// byDays returns the events in groups of at most maxDays days each: nearly always all
// of them as they are.
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
