package clickhouse_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// options returns the options for a database of a test server.
func options(t testing.TB, s *clickhousetest.Server, name string) clickhouse.Options {
	t.Helper()
	dsn, err := ch.ParseDSN(s.DSN(name))
	if err != nil {
		t.Fatal(err)
	}
	return clickhouse.Options{Addresses: []string{s.Addr()}, Database: name, Username: dsn.Auth.Username, Password: dsn.Auth.Password}
}

func overHTTP(s *clickhousetest.Server, o clickhouse.Options) clickhouse.Options {
	o.HTTP, o.Addresses = true, []string{s.HTTPAddr()}
	return o
}

func open(t testing.TB, o clickhouse.Options) *clickhouse.Database {
	t.Helper()
	db, err := clickhouse.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// migrated opens an empty database with the schema.
func migrated(t testing.TB, o clickhouse.Options) *clickhouse.Database {
	t.Helper()
	db := open(t, o)
	if err := db.Migrate(t.Context(), nil, "n1"); err != nil {
		t.Fatal(err)
	}
	return db
}

// direct returns a driver connection that bypasses the package.
func direct(t testing.TB, s *clickhousetest.Server, name string) driver.Conn {
	t.Helper()
	o, err := ch.ParseDSN(s.DSN(name))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ch.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// value runs a query with a single number as its result.
func value(t testing.TB, conn driver.Conn, query string) int64 {
	t.Helper()
	var n int64
	if err := conn.QueryRow(t.Context(), "SELECT toInt64(("+query+"))").Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func write(t testing.TB, db *clickhouse.Database, events []observability.Event) {
	t.Helper()
	sink, err := clickhouse.NewSink(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, db *clickhouse.Database, f clickhouse.Filter) []observability.Event {
	t.Helper()
	return readWith(t, t.Context(), db, f)
}

func readWith(t testing.TB, ctx context.Context, db *clickhouse.Database, f clickhouse.Filter) []observability.Event {
	t.Helper()
	var events []observability.Event
	for e, err := range db.Events(ctx, f) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// lines returns events as sorted JSON.
func lines(t testing.TB, events []observability.Event) []string {
	t.Helper()
	var list []string
	for _, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(b))
	}
	slices.Sort(list)
	return list
}

// sameEvents compares events in any order.
func sameEvents(t testing.TB, want, got []observability.Event) {
	t.Helper()
	if w, g := lines(t, want), lines(t, got); !slices.Equal(w, g) { // Faster than a diff.
		t.Errorf("events (-want +got):\n%s", cmp.Diff(w, g))
	}
}

// dayStart is 2026-03-01T00:00:00Z.
const dayStart conversation.Time = 1772323200000

// traffic returns the events of n submissions, of several agents, conversations, hours and outcomes,
// determined by n and seed.
func traffic(n int, seed uint64) []observability.Event {
	m := &maker{rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		m.submission(i)
	}
	return m.events
}

type maker struct {
	rand   *rand.Rand
	events []observability.Event
	env    observability.Envelope
}

func (m *maker) add(after int64, p observability.Payload) {
	e := observability.Event{Envelope: m.env, Payload: p}
	m.env.At += conversation.Time(after)
	m.env.Index++
	e.Type, e.At = p.EventType(), m.env.At
	e.ID = fmt.Sprintf("%s/%d/%d", conversation.Address{Agent: e.Agent, ID: e.Instance}.Key(), e.Seq, e.Index)
	if strings.HasSuffix(string(e.Type), "delta") || e.Type == observability.TypeSubmissionRecovery {
		e.ID, e.Seq = fmt.Sprintf("live_n1_%d", len(m.events)), observability.LiveSeq
	}
	m.events = append(m.events, e)
}

func (m *maker) between(low, high int64) int64 { return low + m.rand.Int64N(high-low) }

func (m *maker) submission(i int) {
	m.env = observability.Envelope{
		Version: observability.Version, Seq: int64(i), At: dayStart + conversation.Time(m.between(0, 3*86_400_000)),
		Agent: []string{"triage", "support", "it's \\ odd?"}[i%3], Instance: fmt.Sprintf("issue %d", i%17),
		Submission: conversation.SubmissionID(fmt.Sprintf("sub_%d", i)), Conversation: "conv_1",
		Session: observability.SessionDefault, Harness: observability.HarnessDefault, Operation: fmt.Sprintf("op_%d", i),
	}
	recovered := i%11 == 0
	m.add(0, &observability.SubmissionQueued{Kind: observability.KindDirect, MessageKind: "user", Body: &observability.Content{Bytes: 12}})
	wait := m.between(0, 500)
	m.add(wait, &observability.SubmissionRunning{Kind: observability.KindDirect, Attempt: 1, MaxAttempts: 10, QueuedMs: wait})
	if recovered {
		m.add(5, &observability.SubmissionRecovery{
			Operation: observability.RecoveryProcess, Outcome: observability.OutcomeDeferred, Attempt: 1, Fenced: i%2 == 0,
			Error: &observability.Error{Type: "node_lost"},
		})
		m.add(5, &observability.SubmissionRunning{Kind: observability.KindDirect, Attempt: 2, Resumed: true, QueuedMs: wait + 10, Recovered: true})
	}
	for turn := range int(m.between(1, 4)) {
		m.env.Turn = conversation.TurnID(fmt.Sprintf("turn_%d_%d", i, turn))
		m.turn(i)
	}
	if i%13 == 0 {
		m.add(3, &observability.Compaction{MessagesBefore: 9, MessagesAfter: 2, DurationMs: 400, IsError: i%2 == 0})
	}
	settled := &observability.SubmissionSettled{Kind: observability.KindDirect, Outcome: "completed", Attempt: 1, WorkMs: m.between(100, 9000), TotalMs: m.between(100, 20000), AdmissionMs: int64(i % 40)}
	switch {
	case i%7 == 0:
		settled.Outcome, settled.Error = "failed", &observability.Error{Type: []string{"timeout", "model_error"}[i%2], Message: "It took too long."}
	case i%19 == 0:
		settled.Outcome = "aborted"
	}
	m.add(1, settled)
}

func (m *maker) turn(i int) {
	t := &observability.Turn{
		Purpose: observability.PurposeAgent, DurationMs: m.between(200, 9000), FirstTokenMs: m.between(0, 3), Retries: i % 2,
		Request:  observability.ModelRequest{Provider: "anthropic", ProviderName: "anthropic", Model: []string{"opus", "haiku"}[i%2]},
		Response: observability.ModelResponse{FinishReason: "stop"},
	}
	switch broken := m.rand.IntN(9); {
	case i%8 == 3:
		t.Response.FinishReason = []string{"aborted", "handover", "interrupted"}[i/8%3]
	case broken == 0:
		t.IsError, t.Response.Error = true, &observability.Error{Type: "overloaded"}
	default:
		cost := float64(m.between(1, 1000)) / 1024 // Sums of these are exact.
		t.Response.Usage = &observability.Usage{
			Input: m.between(1, 5000), Output: m.between(1, 900), CacheRead: m.between(0, 9000), CacheWrite: 5, Reasoning: 1, Total: 7,
			Cost: observability.Cost{Input: cost / 2, Output: cost / 2, Total: cost},
		}
	}
	m.add(0, &observability.TextDelta{Bytes: 3, Text: "äöü"})
	m.add(t.DurationMs, t)
	if m.rand.IntN(2) == 0 {
		m.add(1, &observability.ToolStart{ToolName: "label", ToolCallID: "call_1"})
		m.add(9, &observability.Tool{ToolName: []string{"label", "search"}[m.rand.IntN(2)], ToolCallID: "call_1", IsError: m.rand.IntN(5) == 0, DurationMs: m.between(0, 700)})
	}
}
