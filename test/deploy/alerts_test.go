package deploy_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestAlertRules verifies that Prometheus parses each rule with its expression and templates, and that
// a promtool case exists in which it fires. make deploy-check runs the cases.
func TestAlertRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile(filepath.Join(root, "prometheus", "alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	cases, err := os.ReadFile(filepath.Join("testdata", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	if groups != nil {
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				rules++
				if !strings.Contains(string(cases), `{alertname="`+r.Alert+`"}`) {
					t.Errorf("alert %s: no case of testdata/alerts_test.yaml fires it", r.Alert)
				}
			}
		}
	}
	if rules < 20 {
		t.Errorf("got %d rules, want 20 or more", rules)
	}
}
