package deploy_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestAlertRules: Prometheus takes every rule, its expression and its templates.
func TestAlertRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile(filepath.Join(root, "prometheus", "alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	rules := 0
	if groups != nil {
		for _, g := range groups.Groups {
			rules += len(g.Rules)
		}
	}
	if rules < 15 {
		t.Errorf("%d rules", rules)
	}
}
