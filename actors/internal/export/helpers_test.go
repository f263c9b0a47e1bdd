package export_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

func project(src observability.Source, b conversation.Batch) []observability.Event {
	return observability.Project(src, b, nil)
}

func memory(tb testing.TB) *local.Store {
	tb.Helper()
	return waiting.ToClose(tb, local.NewMemory())
}

type logbook struct {
	tb     testing.TB
	key    conversation.Key
	at     conversation.Address
	logs   *storage.Logs
	writer *storage.Writer
	nonces int
	tail   storage.Position
	src    observability.Source // source before the next batch
}

func newLogbook(tb testing.TB, logs *storage.Logs, id string) *logbook {
	l := &logbook{tb: tb, at: conversation.Address{Agent: "triage", ID: id}, logs: logs, tail: storage.Start()}
	l.key = l.at.Key()
	l.src.Key = l.key
	l.takeOver()
	return l
}

func (l *logbook) takeOver() {
	l.nonces++
	l.writer = l.logs.Writer(l.key, storage.Nonce(fmt.Sprintf("n%d", l.nonces)), l.tail, int64(l.nonces))
}

// append stores a batch. The first creates the conversation; every third of the others has no events.
func (l *logbook) append() (observability.Source, conversation.Batch) {
	l.tb.Helper()
	seq := l.tail.Seq + 1
	at := conversation.Time(1_000 * (seq + 1))
	sub := conversation.SubmissionID(fmt.Sprint("sub_", seq))
	var records []conversation.Record
	if seq == 0 {
		records = append(records, &conversation.ConversationCreated{
			Agent: l.at.Agent, ID: l.at.ID, UID: "inst_1", ConversationID: conversation.ConversationID("conv_" + l.at.ID), At: at,
		})
	}
	if seq%3 == 2 {
		records = append(records, &conversation.Delta{Message: "msg_1", Kind: "text", Text: "text"})
	} else {
		records = append(records,
			&conversation.SubmissionAdmitted{Submission: sub, Message: "msg_1", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hello"}, At: at},
			&conversation.AttemptStarted{Submission: sub, Attempt: 1, At: at})
	}
	return l.store(records)
}

func (l *logbook) store(records []conversation.Record) (observability.Source, conversation.Batch) {
	l.tb.Helper()
	lines, err := conversation.EncodeRecords(nil, records)
	if err != nil {
		l.tb.Fatal(err)
	}
	if l.tail, err = l.writer.Append(context.Background(), lines, conversation.Time(l.tail.Seq+2)); err != nil {
		l.tb.Fatal(err)
	}
	src, b := l.src, conversation.Batch{Offset: conversation.Offset(l.tail.Seq), Records: records}
	l.src = l.src.After(b)
	return src, b
}

// events returns the projection of the conversation's log, by id.
func (l *logbook) events() map[string]string {
	l.tb.Helper()
	out := map[string]string{}
	src := observability.Source{Key: l.key}
	for b, err := range l.logs.Batches(context.Background(), l.key, storage.Start()) {
		if err != nil {
			l.tb.Fatal(err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			l.tb.Fatal(err)
		}
		batch := conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records}
		for _, e := range project(src, batch) {
			out[e.ID] = encoded(l.tb, e)
		}
		src = src.After(batch)
	}
	return out
}

func encoded(tb testing.TB, e observability.Event) string {
	line, err := e.AppendJSON(nil)
	if err != nil {
		tb.Error(err)
	}
	return string(line)
}

// sink stores events once by id, like ClickHouse.
type sink struct {
	tb   testing.TB
	name string
	// outcome decides the next write: an error before it, or in the middle with half of the events
	// stored. nil stores all.
	outcome func() (err error, half bool)

	mu     bubbleLock
	busy   bool
	stored map[string]string
	order  []string // ids received, in order, with repetitions
	writes []int    // number of events of each successful write
	calls  int
	hang   bool // writes hang until their context ends
}

// bubbleLock is a mutex whose waiters let bubble time pass, because an outcome may sleep.
type bubbleLock chan struct{}

func (l bubbleLock) Lock()   { l <- struct{}{} }
func (l bubbleLock) Unlock() { <-l }

func newSink(tb testing.TB, name string) *sink {
	return &sink{tb: tb, name: name, mu: make(bubbleLock, 1), stored: map[string]string{}}
}

func (s *sink) Name() string { return s.name }

func (s *sink) Write(ctx context.Context, events []observability.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.busy {
		s.tb.Errorf("sink %s got two concurrent writes", s.name)
	}
	if _, ok := ctx.Deadline(); !ok {
		s.tb.Errorf("sink %s has no deadline", s.name)
	}
	if s.hang {
		s.busy = true
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		s.busy = false
		return ctx.Err()
	}
	if s.outcome != nil {
		err, half := s.outcome()
		if half {
			s.take(events[:len(events)/2])
		}
		if err != nil {
			return err
		}
	}
	s.take(events)
	s.writes = append(s.writes, len(events))
	return nil
}

func (s *sink) take(events []observability.Event) {
	for _, e := range events {
		line := encoded(s.tb, e)
		if was, ok := s.stored[e.ID]; ok && was != line {
			s.tb.Errorf("event %s received as\n%s and as\n%s", e.ID, was, line)
		}
		s.stored[e.ID] = line
		s.order = append(s.order, e.ID)
	}
}

func (s *sink) got() (stored map[string]string, writes []int, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored = map[string]string{}
	for id, line := range s.stored {
		stored[id] = line
	}
	return stored, slices.Clone(s.writes), s.calls
}

func (s *sink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

var errAway = errors.New("away")

func away() (error, bool) { return errAway, false }

type rig struct {
	*export.Exporter
	bucket storage.Bucket
	logs   *storage.Logs
	sinks  []*sink
	stop   func()
}

// newRig runs an exporter until the test ends, or stop is called.
func newRig(t *testing.T, b storage.Bucket, opts export.Options, sinks ...*sink) *rig {
	t.Helper()
	r := &rig{bucket: b, logs: storage.NewLogs(b, nil), sinks: sinks}
	if opts.Member == "" {
		opts.Member = "me"
	}
	if opts.Project == nil {
		opts.Project = project
	}
	for _, s := range sinks {
		opts.Sinks = append(opts.Sinks, s)
	}
	x, err := export.New(r.logs, b, &opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Exporter = x
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(r.stop)
	return r
}

func journals(tb testing.TB, b storage.Bucket) map[string]map[conversation.Key]int64 {
	tb.Helper()
	out := map[string]map[conversation.Key]int64{}
	refs, err := storage.ExportJournals(context.Background(), b)
	if err != nil {
		tb.Fatal(err)
	}
	for _, ref := range refs {
		j, err := storage.ReadExportJournal(context.Background(), b, ref.Member, ref.Shard, ref.N)
		if err != nil {
			tb.Fatal(err)
		}
		if out[ref.Member] == nil {
			out[ref.Member] = map[conversation.Key]int64{}
		}
		for _, e := range j.Entries {
			out[ref.Member][e.Conv] = e.Seq
		}
	}
	return out
}

func merge(books ...*logbook) map[string]string {
	out := map[string]string{}
	for _, l := range books {
		for id, line := range l.events() {
			out[id] = line
		}
	}
	return out
}

const second = time.Second
