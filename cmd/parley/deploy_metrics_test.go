package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// knownMetrics returns the samples of a scrape and their labels, from the page that a test of
// internal/admin compares with the code.
func knownMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(parley_\\w+)(?:\\{([^}]*)\\})?` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := map[string]bool{"instance": true, "job": true}
		for label := range strings.SplitSeq(m[2], ",") {
			labels[label] = true
		}
		names := []string{m[1]}
		if m[3] == "histogram" {
			names = []string{m[1] + "_bucket", m[1] + "_sum", m[1] + "_count"}
			labels["le"] = true
		}
		for _, name := range names {
			known[name] = labels
		}
	}
	if len(known) < 50 {
		t.Fatalf("the page lists %d samples", len(known))
	}
	return known
}

var (
	selector = regexp.MustCompile(`\b(parley_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouped  = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// checkExpression checks the names in an expression against the samples of a scrape.
func checkExpression(t *testing.T, known map[string]map[string]bool, desc, expr string) {
	t.Helper()
	found := selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s uses no metric: %s", desc, expr)
	}
	all := map[string]bool{}
	for _, m := range found {
		labels := known[m[1]]
		if labels == nil {
			t.Errorf("%s: unknown metric %s", desc, m[1])
		}
		for label := range labels {
			all[label] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				t.Errorf("%s: %s has no label %s", desc, m[1], l[1])
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !all[label] {
				t.Errorf("%s: no metric has the label %s: %s", desc, label, expr)
			}
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		t.Errorf("%s: parentheses: %s", desc, expr)
	}
}

// Every rule uses existing metrics and has a remedy.
func TestDeployAlerts(t *testing.T) {
	known := knownMetrics(t)
	rules := 0
	seen := map[string]bool{}
	for _, group := range documents(t, "prometheus/alerts.yaml")[0].at("groups").([]any) {
		for _, rule := range group.(tree)["rules"].([]any) {
			r := rule.(tree)
			name := fmt.Sprint(r.at("alert"))
			rules++
			if !strings.HasPrefix(name, "Parley") || seen[name] {
				t.Errorf("rule %q: its name", name)
			}
			seen[name] = true
			if s := r.at("labels.severity"); s != "page" && s != "ticket" {
				t.Errorf("%s: severity %v", name, s)
			}
			if r.at("annotations.summary") == nil {
				t.Errorf("%s has no summary", name)
			}
			checkExpression(t, known, name, fmt.Sprint(r.at("expr")))
		}
	}
	if rules < 15 {
		t.Errorf("%d rules", rules)
	}
}

// Every panel uses existing metrics, and no panels overlap.
func TestDeployMetricsDashboard(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(deployRoot, "grafana", "parley-metrics.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(src, &board); err != nil {
		t.Fatal(err)
	}
	known := knownMetrics(t)
	cells := map[[2]int]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			checkExpression(t, known, p.Title, target.Expr)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if was := cells[cell]; was != "" || cell[0] >= 24 {
					t.Fatalf("%s overlaps %q at %v", p.Title, was, cell)
				}
				cells[cell] = p.Title
			}
		}
	}
	if len(board.Panels) < 10 {
		t.Errorf("%d panels", len(board.Panels))
	}
}
