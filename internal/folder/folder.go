// Package folder provides the data for the console of "parley dev": the conversations of its bucket,
// the timelines of their submissions, their records, and statistics.
//
// It stores nothing of its own. The logs of the bucket are projected into events, which package stats
// aggregates as for "parley stats" and "parley trace". The event destination adds data that no log
// has, above all the model requests. Statistics come from the source that "parley stats" reads: the
// database, the file, or otherwise the logs. Reading never activates a conversation.
//
// A [Folder] remembers its position in each log, so the cost of a listing depends only on new records.
package folder

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/parleyrun/parley/console"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxRows bounds the conversations kept, and maxSubmissions the newest submissions of each. A
	// submission takes about 300 bytes.
	maxRows        = 5_000
	maxSubmissions = 50
)

// Folder reads the data of a node. It is safe for concurrent use.
type Folder struct {
	bucket storage.Bucket
	logs   *storage.Logs
	events Events

	mu   sync.Mutex
	rows map[conversation.Key]*row
}

// Events is the readable event destination of a node. The zero value is none.
type Events struct {
	// Database opens a ClickHouse, or returns the open one; nil without one. Its owner closes it.
	Database func(context.Context) (*clickhouse.Database, error)
	// File is an event file, "" without one. A database takes precedence.
	File string
}

// New returns the folder of a bucket and its event destination.
func New(bucket storage.Bucket, events Events) *Folder {
	return &Folder{bucket: bucket, logs: storage.NewLogs(bucket, nil), events: events, rows: map[conversation.Key]*row{}}
}

// Endpoints returns the console's endpoints by name.
func (f *Folder) Endpoints() map[string]console.Endpoint {
	return map[string]console.Endpoint{
		"conversations": f.conversations,
		"conversation":  f.conversation,
		"submission":    f.submission,
		"records":       f.records,
		"figures":       f.stats,
	}
}

// refresh reads new records of every log. The caller holds mu.
func (f *Folder) refresh(ctx context.Context) error {
	return cli.EachConversation(ctx, f.bucket, func(key conversation.Key) error {
		r := f.rows[key]
		if r == nil {
			if len(f.rows) >= maxRows {
				return nil
			}
			r = &row{at: storage.Start()}
			f.rows[key] = r
		}
		err := f.read(ctx, key, r)
		if storage.IsCorrupt(err) {
			r.corrupt = err.Error()
			return nil
		}
		return err
	})
}

// read reads new records of a log.
func (f *Folder) read(ctx context.Context, key conversation.Key, r *row) error {
	for batch, err := range f.logs.Batches(ctx, key, r.at) {
		if err != nil {
			return err
		}
		at := reading{Source: r.source} // A row has no inputs.
		events, err := at.project(key, batch)
		if err != nil {
			return err
		}
		r.at, r.source = batch.Position(), at.Source
		for i := range events {
			r.add(&events[i])
		}
	}
	return nil
}

// reading is the position in a log: its source, and the calls of open turns.
type reading struct {
	observability.Source
	calls []conversation.Record
}

// project returns the events of the next batch, including texts. Events have a call's input only if it
// is in the batch that starts the call. A timeline needs it in any case: the calls of a slow model are
// stored before their turn ends.
func (r *reading) project(key conversation.Key, batch storage.Batch) ([]observability.Event, error) {
	records, err := conversation.DecodeRecords(batch.Lines)
	if err != nil {
		return nil, &storage.CorruptError{Conv: key, Seq: batch.Seq, Err: err}
	}
	r.Key = key
	b := conversation.Batch{Offset: conversation.Offset(batch.Seq), Records: slices.Concat(r.calls, records)}
	events := observability.Project(r.Source, b, &observability.ProjectOptions{Content: true})
	r.Source = r.After(b)
	for _, record := range records {
		switch record := record.(type) {
		case *conversation.ToolCalled:
			if record.Turn != "" { // An earlier version omits it.
				r.calls = append(r.calls, record)
			}
		case *conversation.StepCompleted:
			r.end(record.Turn)
		case *conversation.StepDropped:
			r.end(record.Turn)
		}
	}
	return events, nil
}

func (r *reading) end(turn conversation.TurnID) {
	r.calls = slices.DeleteFunc(r.calls, func(c conversation.Record) bool { return c.(*conversation.ToolCalled).Turn == turn })
}

// logged yields the events of a log.
func (f *Folder) logged(ctx context.Context, key conversation.Key) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		var at reading
		for batch, err := range f.logs.Batches(ctx, key, storage.Start()) {
			var events []observability.Event
			if err == nil {
				events, err = at.project(key, batch)
			}
			if err != nil {
				yield(observability.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// sent yields the events of a submission, and possibly others, from the event destination. Without one
// there are none.
func (f *Folder) sent(ctx context.Context, id conversation.SubmissionID) iter.Seq2[observability.Event, error] {
	if f.events.Database == nil {
		return f.filed(ctx)
	}
	return func(yield func(observability.Event, error) bool) {
		db, err := f.events.Database(ctx)
		if err != nil {
			yield(observability.Event{}, err)
			return
		}
		db.Events(ctx, clickhouse.Filter{Submission: id})(yield)
	}
}

// filed yields the events of the file and skips invalid lines. Without a file there are none.
func (f *Folder) filed(ctx context.Context) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		if f.events.File == "" {
			return
		}
		for e, err := range jsonl.ReadFiles(f.events.File) {
			var line *jsonl.LineError
			switch {
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			case errors.As(err, &line):
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// statsEvents yields the events for statistics: those of the file, as "parley stats" reads it, or those
// of all logs.
func (f *Folder) statsEvents(ctx context.Context) iter.Seq2[observability.Event, error] {
	if f.events.File != "" {
		return f.filed(ctx)
	}
	return func(yield func(observability.Event, error) bool) {
		enough := errors.New("enough")
		err := cli.EachConversation(ctx, f.bucket, func(key conversation.Key) error {
			for e, err := range f.logged(ctx, key) {
				if storage.IsCorrupt(err) {
					return nil
				}
				if err != nil {
					return err
				}
				if !yield(e, nil) {
					return enough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(observability.Event{}, err)
		}
	}
}

// both yields the events of a log, and the sent events that no log has. If the latter cannot be read,
// it calls lost and yields the log only.
func both(logged, sent iter.Seq2[observability.Event, error], lost func(error)) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		for e, err := range logged {
			if !yield(e, err) {
				return
			}
		}
		for e, err := range sent {
			if err != nil {
				lost(err)
				return
			}
			if e.Live() && !yield(e, nil) {
				return
			}
		}
	}
}

// notFound returns a not-found error with a remedy.
func notFound(message, details string) error {
	return &console.Error{Status: 404, Type: "not_there", Message: message, Details: details}
}

// malformed returns an error for an invalid parameter.
func malformed(name, want string) error {
	return &console.Error{Status: 400, Type: "invalid_request", Message: "The request is malformed.", Details: fmt.Sprintf("The parameter %s must be %s.", name, want)}
}

// summary returns the statistics that "parley stats" prints.
func (f *Folder) summary(ctx context.Context, filter stats.Filter) (*stats.Summary, error) {
	if f.events.Database == nil {
		return stats.Summarize(f.statsEvents(ctx), filter)
	}
	db, err := f.events.Database(ctx)
	if err == nil {
		var s *stats.Summary
		if s, err = db.Summary(ctx, filter); err == nil {
			return s, nil
		}
	}
	return nil, &console.Error{Status: 503, Type: "events_unavailable", Message: "The event database is unavailable.", Details: err.Error()}
}
