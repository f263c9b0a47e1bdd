package analytics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// dataSource is the Grafana plugin whose macros the queries use.
const dataSource = "grafana-clickhouse-datasource"

// dashboard is the tested part of deploy/grafana/parley.json.
type dashboard struct {
	UID           string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Datasource source
	IncludeAll bool
	Query      json.RawMessage
}

type source struct{ Type, UID string }

type panel struct {
	ID          int
	Type, Title string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	Targets     []target
}

type target struct {
	RawSQL     string
	Format     int
	QueryType  string
	Datasource source
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "parley.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// grafana holds the variables and the time range of a dashboard.
type grafana struct {
	from, to time.Time
	interval time.Duration
	agents   []string // empty is All
}

// sql substitutes the variables and macros of a query, like Grafana and the plugin.
func (g grafana) sql(t *testing.T, query string) string {
	t.Helper()
	quoted := make([]string, len(g.agents))
	for i, a := range g.agents {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `\'`) + "'"
	}
	condition := "$1"
	if len(g.agents) == 0 {
		condition = "1=1"
	}
	query = regexp.MustCompile(`\$__conditionalAll\(((?:[^()]|\([^()]*\))*), \$agent\)`).ReplaceAllString(query, condition)
	query = strings.ReplaceAll(query, "${agent:singlequote}", strings.Join(quoted, ","))
	moment := func(at time.Time) string { return fmt.Sprintf("toDateTime(%d)", at.Unix()) }
	for macro, with := range map[string]string{
		`\$__timeFilter\((\w+)\)`:   "$1 >= " + moment(g.from) + " AND $1 <= " + moment(g.to),
		`\$__timeInterval\((\w+)\)`: fmt.Sprintf("toStartOfInterval(toDateTime($1), INTERVAL %d second)", int(g.interval.Seconds())),
	} {
		query = regexp.MustCompile(macro).ReplaceAllString(query, with)
	}
	if strings.Contains(query, "$") {
		t.Fatalf("query has an unknown macro or variable: %s", query)
	}
	return query
}

// dashboards returns the dashboard of all agents, and of two.
func dashboards(w *world) []grafana {
	last := w.events[0].At
	for _, e := range w.events {
		last = max(last, e.At)
	}
	all := grafana{from: time.UnixMilli(int64(worldStart)), to: time.UnixMilli(int64(last)).Add(time.Second), interval: 30 * time.Minute}
	some := all
	some.agents = []string{"triage", "support"}
	return []grafana{all, some}
}

// TestDashboard runs every query of the dashboard.
func TestDashboard(t *testing.T) {
	w := newWorld(seed)
	e := start(t, w)
	t.Run("panels", func(t *testing.T) { checkPanels(t, w, e) })
	t.Run("numbers", func(t *testing.T) { checkFigures(t, w, e) })
	t.Run("agents", func(t *testing.T) { checkAgents(t, w, e) })
}

// checkPanels checks that every panel has data.
func checkPanels(t *testing.T, w *world, e *engine) {
	for _, p := range readDashboard(t).Panels {
		t.Run(p.Title, func(t *testing.T) {
			for _, view := range dashboards(w) {
				for _, q := range p.Targets {
					got := e.query(t, view.sql(t, q.RawSQL), nil)
					least := 1
					if q.QueryType == "timeseries" {
						least = 20
						if got.columns[0] != "time" {
							t.Errorf("columns are %v, want the time first", got.columns)
						}
					}
					if len(got.rows) < least || !informative(got) {
						t.Errorf("agents %v: %d rows, want at least %d with nonzero values: %.200v", view.agents, len(got.rows), least, got.rows)
					}
				}
			}
		})
	}
}

// informative reports whether every numeric column has a value other than zero.
func informative(got table) bool {
	for i := range got.columns {
		if !slices.ContainsFunc(got.rows, func(row []any) bool {
			return row[i] != nil && row[i] != int64(0) && row[i] != float64(0)
		}) {
			return false
		}
	}
	return true
}

// checkFigures compares the single-value panels with the events.
func checkFigures(t *testing.T, w *world, e *engine) {
	queries := map[string]string{}
	for _, p := range readDashboard(t).Panels {
		if len(p.Targets) == 1 {
			queries[p.Title] = p.Targets[0].RawSQL
		}
	}
	for _, view := range dashboards(w) {
		var completed, settled, queued, running, usd float64
		var attempts, interrupted, fences int64
		shown := func(agent string) bool { return len(view.agents) == 0 || slices.Contains(view.agents, agent) }
		for _, e := range w.events {
			switch p := e.Payload.(type) {
			case *observability.SubmissionSettled:
				if shown(e.Agent) && p.Outcome != string(conversation.OutcomeAborted) {
					settled++
					if p.Outcome == string(conversation.OutcomeCompleted) {
						completed++
					}
				}
			case *observability.Turn:
				if shown(e.Agent) {
					usd += dollars(p)
				}
			case *observability.SubmissionRunning:
				if shown(e.Agent) && p.Recovered {
					attempts++
				}
			case *observability.SubmissionRecovery:
				if shown(e.Agent) && e.Live() { // others are abandoned
					if interrupted++; p.Fenced {
						fences++
					}
				}
			}
		}
		for _, row := range unsettled(w) {
			switch {
			case !shown(row[0].(string)):
			case row[5] == "queued":
				queued++
			default:
				running++
			}
		}
		for title, want := range map[string][]any{
			"Success rate": {completed / settled}, "Cost": {usd}, "Queued or under way": {int64(queued), int64(running)},
		} {
			got := e.query(t, view.sql(t, queries[title]), nil)
			if diff := cmp.Diff([][]any{want}, got.rows); diff != "" {
				t.Errorf("%s of %v (-want +got):\n%s", title, view.agents, diff)
			}
		}
		sums := make([]int64, 3)
		for _, row := range e.query(t, view.sql(t, queries["Recoveries and fences"]), nil).rows {
			for i := range sums {
				sums[i] += row[1+i].(int64)
			}
		}
		if diff := cmp.Diff([]int64{attempts, interrupted, fences}, sums); diff != "" {
			t.Errorf("recoveries and fences of %v (-want +got):\n%s", view.agents, diff)
		}
	}
}

// checkAgents queries the agents of the selector.
func checkAgents(t *testing.T, w *world, e *engine) {
	for _, v := range readDashboard(t).Templating.List {
		if v.Name != "agent" {
			continue
		}
		var q target
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		got := e.query(t, dashboards(w)[0].sql(t, q.RawSQL), nil)
		if diff := cmp.Diff([][]any{{"research"}, {"support"}, {"triage"}}, got.rows); diff != "" {
			t.Errorf("agents (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("the dashboard has no variable for agents")
}

// TestDashboardIsValid checks for definitions that Grafana would refuse or display badly.
func TestDashboardIsValid(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "parley" || d.SchemaVersion < 39 {
		t.Errorf("uid %q, schema version %d", d.UID, d.SchemaVersion)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	if diff := cmp.Diff([]string{"datasource datasource", "agent query"}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	want := source{dataSource, "${datasource}"}
	taken, ids, titles := map[[2]int]string{}, map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" || len(p.Targets) != 1 {
			t.Errorf("panel %d %q: duplicate id, no title, or not exactly one query", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok || at[0] >= 24 {
					t.Fatalf("panel %q overlaps %q or the edge", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		for _, q := range p.Targets {
			wantType, wantFormat := "table", 1
			if p.Type == "timeseries" {
				wantType, wantFormat = "timeseries", 0
			}
			if p.Datasource != want || q.Datasource != want || q.QueryType != wantType || q.Format != wantFormat {
				t.Errorf("panel %q: data sources %v and %v, query type %s, format %d", p.Title, p.Datasource, q.Datasource, q.QueryType, q.Format)
			}
			if !strings.Contains(q.RawSQL, "$agent") && !strings.Contains(q.RawSQL, "max(ts)") {
				t.Errorf("panel %q ignores the variable agent", p.Title)
			}
		}
	}
	if len(d.Panels) < 15 {
		t.Errorf("got only %d panels", len(d.Panels))
	}
}
