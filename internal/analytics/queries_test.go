package analytics_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
)

const seed = 20260301

// answer is the expected result of a query, computed without SQL.
type answer struct {
	columns string
	rows    func(w *world, since conversation.Time) [][]any
}

// page reads docs/analytics.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "analytics.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// queries returns the queries of the page by the question above each.
func queries(t *testing.T) map[string]string {
	t.Helper()
	text, found := page(t), map[string]string{}
	for _, part := range strings.Split(text, "\n### ")[1:] {
		question, rest, _ := strings.Cut(part, "\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(rest, -1)
		if len(blocks) != 1 || found[question] != "" {
			t.Fatalf("question %q has %d queries or is a duplicate", question, len(blocks))
		}
		found[question] = blocks[0][1]
	}
	if n := strings.Count(text, "```sql"); n != len(found) {
		t.Fatalf("%d queries have no question", n-len(found))
	}
	return found
}

// example returns the page's example of a parameter.
func example(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile("--param_" + name + "='([^']*)'").FindStringSubmatch(page(t))
	if m == nil {
		t.Fatalf("no example of %s", name)
	}
	return m[1]
}

func TestQueriesOfThePage(t *testing.T) {
	w := newWorld(seed)
	e := start(t, w)
	since := example(t, "since")
	var at conversation.Time
	if err := at.UnmarshalText([]byte(strings.Replace(since, " ", "T", 1) + "Z")); err != nil {
		t.Fatal(err)
	}
	parameters := map[string]string{"since": since, "submission": string(busiest(w))}
	asked, want := queries(t), answers()
	if len(asked) != 23 {
		t.Errorf("the page has %d queries, want 23", len(asked))
	}
	for question := range want {
		if asked[question] == "" {
			t.Errorf("the page has no question %q", question)
		}
	}
	for _, view := range regexp.MustCompile(`[a-z]+_hourly`).FindAllString(page(t), -1) {
		if got := e.query(t, "SELECT * FROM "+view+" LIMIT 1", nil); len(got.rows) != 1 {
			t.Errorf("%s is empty", view)
		}
	}
	t.Run("hourly tables", func(t *testing.T) { checkHours(t, w, e) })
	// A short period has models without a failure and hours without a success.
	short := lastTurns(w, 12)
	for question, query := range asked {
		t.Run(question, func(t *testing.T) {
			a, ok := want[question]
			if !ok {
				t.Fatal("no computed answer for the question")
			}
			for _, at := range []conversation.Time{at, short} {
				parameters["since"] = time.UnixMilli(int64(at)).UTC().Format(time.DateTime)
				got := e.query(t, query, parameters)
				if diff := cmp.Diff(strings.Fields(a.columns), got.columns); diff != "" {
					t.Fatalf("columns (-want +got):\n%s", diff)
				}
				rows := a.rows(w, at)
				if at != short && len(rows) < 3 {
					t.Fatalf("got only %d rows", len(rows))
				}
				if diff := cmp.Diff(rows, got.rows, cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("since %s, rows (-want +got):\n%s", parameters["since"], diff)
				}
			}
		})
	}
}

// lastTurns returns the last whole hour that is followed by at least n turns.
func lastTurns(w *world, n int) conversation.Time {
	var ends []conversation.Time
	for _, e := range w.events {
		if e.Type == observability.TypeTurn {
			ends = append(ends, e.At)
		}
	}
	slices.Sort(ends)
	return ends[len(ends)-n] / hourMs * hourMs
}

// busiest returns the submission with most durable events.
func busiest(w *world) conversation.SubmissionID {
	count := map[conversation.SubmissionID]int{}
	var most conversation.SubmissionID
	for _, e := range w.events {
		if e.Submission != "" && !e.Live() {
			if count[e.Submission]++; count[e.Submission] > count[most] {
				most = e.Submission
			}
		}
	}
	return most
}

// The generated data covers the cases that queries could get wrong.
func TestWorldCoversCases(t *testing.T) {
	w := newWorld(seed)
	types, resumedFirst, silent := map[observability.Type]int{}, 0, 0
	ids := map[string]bool{}
	for _, e := range w.events {
		if ids[e.ID] {
			t.Fatalf("duplicate event %s", e.ID)
		}
		ids[e.ID] = true
		types[e.Type]++
		switch p := e.Payload.(type) {
		case *observability.SubmissionRunning:
			if p.Attempt == 1 && p.Resumed {
				resumedFirst++
			}
		case *observability.Turn:
			if p.Dropped && p.Retries > 0 {
				silent++
			}
		}
	}
	durable := 0
	for _, e := range w.events {
		if !e.Live() {
			durable++
		}
	}
	if durable < 5000 || resumedFirst < 5 || silent < 5 {
		t.Errorf("%d durable events, %d first attempts that were resumed, %d withdrawn turns that were repeated", durable, resumedFirst, silent)
	}
	// Events without a record in the log are not generated.
	for _, absent := range []observability.Type{observability.TypeTurnRequest, observability.TypeToolcallDelta, observability.TypeLog} {
		if types[absent] != 0 {
			t.Errorf("%d events of type %s", types[absent], absent)
		}
	}
	if len(types) != 27 {
		t.Errorf("%d types of events, want 27: %v", len(types), types)
	}
}

// The page lists exactly the existing types.
func TestPageListsTypes(t *testing.T) {
	named := [2]map[string]bool{{}, {}} // durable, live
	for _, row := range regexp.MustCompile(`(?m)^\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$`).FindAllStringSubmatch(page(t), -1) {
		for i, cell := range row[2:] {
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1) {
				named[i][m[1]] = true
			}
		}
	}
	all := map[string]bool{}
	for _, types := range named {
		for name := range types {
			all[name] = true
			if _, err := observability.DecodePayload(observability.Type(name), []byte("{}")); err != nil {
				t.Error(err)
			}
		}
	}
	if len(all) != 30 {
		t.Errorf("%d types, want 30", len(all))
	}
	durable := map[string]bool{}
	for _, e := range newWorld(seed).events {
		if !e.Live() {
			durable[string(e.Type)] = true
		} else if !named[1][string(e.Type)] {
			t.Errorf("the page does not mark %s as live", e.Type)
		}
	}
	if diff := cmp.Diff(durable, named[0]); diff != "" {
		t.Errorf("durable types (-there are +named):\n%s", diff)
	}
}

// The page lists exactly the existing queries of a bucket. The package of the queries runs them.
func TestPageNamesSegmentQueries(t *testing.T) {
	_, section, _ := strings.Cut(page(t), "\n## Queries on the bucket\n")
	var want, got []string
	for name, query := range clickhouse.SegmentQueries() {
		want = append(want, name)
		for _, m := range regexp.MustCompile(`\{(\w+):String\}`).FindAllStringSubmatch(query, -1) {
			if m[1] != "conversation" && !strings.Contains(section, "--param_"+m[1]) {
				t.Errorf("%s has the parameter %s, which the page does not describe", name, m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("queries (-there are +named):\n%s", diff)
	}
}

// checkHours compares error-prone numbers of the hourly tables: attempts
// that resume under their number, and withdrawn calls.
func checkHours(t *testing.T, w *world, e *engine) {
	var begun, waited, retried, admitted int64
	for _, e := range w.events {
		switch p := e.Payload.(type) {
		case *observability.SubmissionRunning:
			if !p.Resumed {
				begun, waited = begun+1, waited+p.QueuedMs
			}
		case *observability.SubmissionSettled:
			if p.AdmissionMs > 0 {
				admitted++
			}
		case *observability.Turn:
			if !p.Dropped {
				retried += int64(p.Retries)
			}
		}
	}
	for query, want := range map[string]int64{
		"SELECT sum(begun) FROM queue_hourly":                           begun,
		"SELECT sum(waited_ms) FROM queue_hourly":                       waited,
		"SELECT sum(n) FROM latency_hourly WHERE measure = 'queue'":     begun,
		"SELECT sum(n) FROM latency_hourly WHERE measure = 'admission'": admitted,
		"SELECT sum(retried) FROM usage_hourly":                         retried,
	} {
		if got := e.query(t, query, nil).rows[0][0]; got != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
}
