package clickhouse

import (
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"24.10": true, "24.10.1.2812": true, "24.11.3.66": true, "25.3.2.39": true, "26.7.2.1": true, "24.12.1.1614.altinitystable": true,
		"24.9.3.128": false, "24.8.14.10459": false, "23.12.1": false, "9.99": false, "": false, "unknown": false,
	} {
		if got := atLeast(version, leastServer); got != want {
			t.Errorf("atLeast(%q) is %v", version, got)
		}
	}
}

// TestOldServer: the error comes before the first statement.
func TestOldServer(t *testing.T) {
	d := &Database{version: "24.8.14.10459"}
	err := d.upgrade(t.Context(), nil, "n1", nil)
	if want := "clickhouse has version 24.8.14.10459, refreshable views need at least 24.10"; err == nil || err.Error() != want {
		t.Errorf("upgrade on an old server: got %v, want %s", err, want)
	}
}

// TestDeniedReader verifies that the error names only the grant for reading.
func TestDeniedReader(t *testing.T) {
	d := &Database{opts: Options{Database: "parley", Username: "analyst"}}
	for statement, want := range map[string]string{
		"SELECT FROM events":     "GRANT SELECT ON `parley`.* TO `analyst`",
		"INSERT INTO events_raw": "GRANT SELECT, INSERT, ",
	} {
		err := d.explain(statement, &ch.Exception{Code: codeAccessDenied})
		if err == nil || !strings.Contains(err.Error(), "run "+want) {
			t.Errorf("%s: got %v, want %s", statement, err, want)
		}
	}
}
