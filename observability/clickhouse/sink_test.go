package clickhouse_test

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/sinktest"
)

// TestSink runs the suite by one protocol under the race detector, and by the other without it.
func TestSink(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	for _, protocol := range sample.Of([]string{"http"}, []string{"native"}) {
		t.Run(protocol, func(t *testing.T) {
			o := options(t, s, s.Database(t))
			if protocol == "http" {
				o = overHTTP(s, o)
			}
			sink := func(t *testing.T, db *clickhouse.Database) observability.Sink {
				sink, err := clickhouse.NewSink(db)
				if err != nil {
					t.Fatal(err)
				}
				return sink
			}
			db := migrated(t, o) // Slower than most rules.
			sinktest.Run(t, sinktest.Options{
				New: func(t *testing.T) (observability.Sink, func(*testing.T) []observability.Event) {
					s.Ask(t, "TRUNCATE TABLE "+o.Database+".events_raw SYNC")
					return sink(t, db), func(t *testing.T) []observability.Event { return read(t, db, clickhouse.Filter{}) }
				},
				Second: func(t *testing.T, _ observability.Sink) observability.Sink { return sink(t, open(t, o)) },
			})
		})
	}
}

// TestRestart checks that acknowledged events survive a crash of the server, and that the next Write
// reconnects.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := clickhousetest.StartOwn(t)
	o := options(t, &s.Server, s.Database(t))
	// The first address has no listener.
	o.Addresses = []string{noderun.Refusing(t), s.Addr()}
	db := migrated(t, o)
	sink, err := clickhouse.NewSink(db)
	if err != nil {
		t.Fatal(err)
	}
	events := traffic(40, 1)
	half := len(events) / 2
	if err := sink.Write(t.Context(), events[:half]); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := sink.Write(t.Context(), events[half:]); err == nil {
		t.Fatal("Write without a server: got no error")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(t.Context(), events[half:]); err != nil {
		t.Fatalf("first Write after the restart: got %v", err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(t.Context(), events); err != nil {
		t.Fatalf("first Write after an idle restart: got %v", err)
	}
	sameEvents(t, events, read(t, db, clickhouse.Filter{}))
}

// TestLostAnswer checks that a Write to a server that never responds ends with its context. The server
// may have stored the events; written again, they are stored once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	events := traffic(300, 1)
	for _, after := range []int{0, 20_000} {
		o := options(t, s, s.Database(t))
		for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
			relay := newRelay(t, listen(t), o.Addresses[0])
			o.Addresses = []string{relay.address()}
			db := migrated(t, o)
			sink, err := clickhouse.NewSink(db)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			relay.hush(after, cancel)
			if err := sink.Write(ctx, events); !errors.Is(err, context.Canceled) {
				t.Fatalf("Write without a response, HTTP %v: got %v, want %v", o.HTTP, err, context.Canceled)
			}
			relay.serve()
			if err := sink.Write(t.Context(), events); err != nil {
				t.Fatalf("second Write, HTTP %v: got %v", o.HTTP, err)
			}
			sameEvents(t, events, read(t, db, clickhouse.Filter{}))
		}
	}
}

// TestDeafServer checks that a server that stops reading during an insert does not block a Write
// beyond the timeout.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	relay := newRelay(t, listen(t), o.Addresses[0])
	o.Addresses, o.DialTimeout = []string{relay.address()}, 10*time.Second // A slow server still greets in less.
	sink, err := clickhouse.NewSink(migrated(t, o))
	if err != nil {
		t.Fatal(err)
	}
	events := traffic(300, 1)[:2000]
	r, noise := rand.NewChaCha8([32]byte{}), make([]byte, 15_000)
	for i := range events { // More than the system buffers.
		_, _ = r.Read(noise) // It never fails.
		text := base64.StdEncoding.EncodeToString(noise)
		events[i].Type, events[i].Payload = observability.TypeLog, &observability.Log{Level: "info", Message: text}
	}
	relay.deafen()
	relay.hush(20_000, func() {})
	err = sink.Write(t.Context(), events)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write to a stalled server: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	relay.serve()
	if err := sink.Write(t.Context(), events[:10]); err != nil {
		t.Errorf("Write after the stall: got %v", err)
	}
}

// TestManyDays checks a replay of years, which spans more partitions than one insert may have.
func TestManyDays(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	db := migrated(t, options(t, s, s.Database(t)))
	var events []observability.Event
	for i, e := range traffic(60, 3) {
		e.At = dayStart + conversation.Time(i*37%200)*86_400_000
		events = append(events, e)
	}
	write(t, db, events)
	sameEvents(t, events, read(t, db, clickhouse.Filter{}))
}

// TestMoments checks that events at the bounds of time are stored, and those beyond are clamped.
func TestMoments(t *testing.T) {
	const last = conversation.Time(4291747199999)
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	for at, want := range map[conversation.Time]conversation.Time{0: 0, 1: 1, dayStart: dayStart, last: last, -5: 0, last + 1: last} {
		e := traffic(1, 1)[0]
		e.At, e.ID = at, e.ID+at.String()
		e.Submission = conversation.SubmissionID(at.String())
		write(t, db, []observability.Event{e})
		if got := read(t, db, clickhouse.Filter{Submission: e.Submission}); len(got) != 1 || got[0].At != want {
			t.Errorf("an event of %d is read as %v, want %d", at, got, want)
		}
	}
}

func TestSinkErrors(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
		sink, err := clickhouse.NewSink(open(t, o))
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), traffic(1, 1)); !errors.Is(err, clickhouse.ErrNoSchema) {
			t.Errorf("Write without tables, HTTP %v: got %v, want %v", o.HTTP, err, clickhouse.ErrNoSchema)
		}
	}
	sink, err := clickhouse.NewSink(migrated(t, o))
	if err != nil {
		t.Fatal(err)
	}
	bad := traffic(200, 1)[:700]
	bad[600].Payload = nil // In the second chunk.
	if err := sink.Write(t.Context(), bad); err == nil {
		t.Error("event without a payload: got no error")
	}
	if err := sink.Write(t.Context(), traffic(1, 1)); err != nil {
		t.Errorf("Write after a failed one: got %v", err)
	}
	o.Username, o.Password = "readonly", ""
	var denied *clickhouse.DeniedError
	if _, err := clickhouse.NewSink(open(t, o)); !errors.As(err, &denied) {
		t.Errorf("sink of a read-only user: got %v, want a DeniedError", err)
	}
}

// TestPanicsCostNoConnection checks that a contained panic of Write leaks no connection.
func TestPanicsCostNoConnection(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	sink, err := clickhouse.NewSink(migrated(t, o))
	if err != nil {
		t.Fatal(err)
	}
	bad := traffic(1, 1)[:2]
	bad[1].Type, bad[1].Payload = observability.TypeLog, (*observability.Log)(nil)
	for range 12 { // The driver has ten connections.
		func() {
			defer func() {
				if recover() == nil {
					t.Error("nil payload: got no error")
				}
			}()
			_ = sink.Write(t.Context(), bad) // It panics.
		}()
	}
	if err := sink.Write(t.Context(), traffic(1, 1)); err != nil {
		t.Errorf("Write after panics: got %v", err)
	}
}

// TestAlteredColumns alters a dictionary column to a plain or a nullable one.
func TestAlteredColumns(t *testing.T) {
	s := clickhousetest.Start(t)
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	conn := direct(t, s, o.Database)
	for column, kind := range map[string]string{"error_type": "String", "outcome": "LowCardinality(Nullable(String))", "reason": "Nullable(String)"} {
		if err := conn.Exec(t.Context(), "ALTER TABLE events_raw MODIFY COLUMN "+column+" "+kind); err != nil {
			t.Fatal(err)
		}
	}
	events := traffic(200, 1)
	write(t, db, events)
	sameEvents(t, events, read(t, db, clickhouse.Filter{}))
	var settled int64
	for _, e := range events {
		if p, ok := e.Payload.(*observability.SubmissionSettled); ok && p.Outcome == "completed" {
			settled++
		}
	}
	got := value(t, conn, "SELECT toInt64(count()) FROM events WHERE type = 'submission_settled' AND outcome = 'completed'")
	if got != settled || settled == 0 {
		t.Errorf("%d submissions are completed, want %d", got, settled)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
