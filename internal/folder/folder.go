// Package folder tells the console of "parley dev" what there is: the conversations of its bucket, the timelines of
// their submissions, their records, and the figures of all of them.
//
// Nothing is kept beside what a node keeps anyway. The logs of the bucket say what happened, and events made of them
// are counted by package stats, as "parley stats" and "parley trace" do; where events go adds what stands in no log,
// above all what models were sent. Figures are of the source that "parley stats" reads: the database, the file, or
// the logs where there is neither. Reading never activates a conversation.
//
// A [Folder] remembers how far it has read each log, so that a look at many conversations costs what is new of them.
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
	// maxRows bounds the conversations that are remembered, and maxSubmissions the newest submissions of each:
	// about 300 bytes for one.
	maxRows        = 5_000
	maxSubmissions = 50
)

// Folder is what a node has. It is safe for concurrent use.
type Folder struct {
	bucket storage.Bucket
	logs   *storage.Logs
	events Events

	mu   sync.Mutex
	rows map[conversation.Key]*row
}

// Events are where the events of a node go, as far as they can be read again. The zero value is nowhere.
type Events struct {
	// Database opens a ClickHouse, or returns the one that is open; nil without one. Its owner closes it.
	Database func(context.Context) (*clickhouse.Database, error)
	// File is a file of them, "" without one. A database comes before it.
	File string
}

// New returns the folder of a bucket, whose events go there.
func New(bucket storage.Bucket, events Events) *Folder {
	return &Folder{bucket: bucket, logs: storage.NewLogs(bucket, nil), events: events, rows: map[conversation.Key]*row{}}
}

// Endpoints are what the console asks for, by their names.
func (f *Folder) Endpoints() map[string]console.Endpoint {
	return map[string]console.Endpoint{
		"conversations": f.conversations,
		"conversation":  f.conversation,
		"submission":    f.submission,
		"records":       f.records,
		"figures":       f.figures,
	}
}

// refresh reads what is new of every log. The caller holds mu.
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
			r.damaged = err.Error()
			return nil
		}
		return err
	})
}

// read reads what is new of a log.
func (f *Folder) read(ctx context.Context, key conversation.Key, r *row) error {
	for batch, err := range f.logs.Batches(ctx, key, r.at) {
		if err != nil {
			return err
		}
		at := reading{Source: r.source} // A row shows no inputs.
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

// reading is how far a log is read: whose it is, and the calls of turns that are not over.
type reading struct {
	observability.Source
	calls []conversation.Record
}

// project makes the events of the next batch, with what was said. Events show the input of a call where it stands in the
// batch that starts it, a timeline wherever it stands: a slow model's calls are stored before their turn is over.
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
			if record.Turn != "" { // An earlier version names none.
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

// sent yields the events of a submission, and possibly others, as they were sent where events go. If they go
// nowhere, there are none.
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

// filed yields the events of the file, but for lines that are none. Without a file there are none.
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

// everything yields the events that figures are made of: those of the file, as "parley stats" reads it, or those of
// all logs.
func (f *Folder) everything(ctx context.Context) iter.Seq2[observability.Event, error] {
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

// both yields the events of a log, and those sent that stand in none. Whoever cannot read the latter is told of
// that by lost, and has the log.
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

// notThere says that there is no such thing, and what to do.
func notThere(message, details string) error {
	return &console.Error{Status: 404, Type: "not_there", Message: message, Details: details}
}

// malformed says what is wrong with a parameter.
func malformed(name, want string) error {
	return &console.Error{Status: 400, Type: "invalid_request", Message: "The request is malformed.", Details: fmt.Sprintf("The parameter %s must be %s.", name, want)}
}

// figuresOf are the figures that "parley stats" prints.
func (f *Folder) figuresOf(ctx context.Context, filter stats.Filter) (*stats.Summary, error) {
	if f.events.Database == nil {
		return stats.Summarize(f.everything(ctx), filter)
	}
	db, err := f.events.Database(ctx)
	if err == nil {
		var s *stats.Summary
		if s, err = db.Summary(ctx, filter); err == nil {
			return s, nil
		}
	}
	return nil, &console.Error{Status: 503, Type: "events_unavailable", Message: "The database of events does not answer.", Details: err.Error()}
}
