package analytics_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// engine is a database with the events of a world.
type engine struct {
	address *url.URL // HTTP, with the user
	name    string
}

// table is the answer to a query. Values are string, bool, int64, float64, nil or lists of them; times
// are strings.
type table struct {
	columns []string
	rows    [][]any
}

// start stores a world in an engine, including the repeated writes.
func start(t *testing.T, w *world) *engine {
	t.Helper()
	server := clickhousetest.Start(t)
	e := &engine{name: server.Database(t)}
	var err error
	if e.address, err = url.Parse(server.HTTPDSN(e.name)); err != nil {
		t.Fatal(err)
	}
	password, _ := e.address.User.Password()
	db, err := clickhouse.Open(t.Context(), clickhouse.Options{
		Addresses: []string{server.Addr()}, Database: e.name, Username: e.address.User.Username(), Password: password,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := db.Migrate(t.Context(), nil, "n1"); err != nil {
		t.Fatal(err)
	}
	// Without merges the duplicates remain in the table, so only the view can remove them.
	e.query(t, "SYSTEM STOP MERGES events_raw", nil)
	sink, err := clickhouse.NewSink(db)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, group := range w.writes() {
		total += len(group)
		if err := sink.Write(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := e.query(t, "SELECT (SELECT count() FROM events) AS once, (SELECT count() FROM events_raw) AS stored", nil)
	if once, stored := got.rows[0][0], got.rows[0][1]; once != int64(len(w.events)) || stored != int64(total) || total <= len(w.events) {
		t.Fatalf("the view has %v events and the table %v, want %d and %d", once, stored, len(w.events), total)
	}
	return e
}

// query runs a statement over HTTP, as analysts do.
func (e *engine) query(t *testing.T, statement string, parameters map[string]string) table {
	t.Helper()
	u := *e.address
	u.Path, u.User = "/", nil
	values := url.Values{"database": {e.name}, "default_format": {"JSONCompact"}, "output_format_json_quote_64bit_integers": {"0"}}
	for name, v := range parameters {
		values.Set("param_"+name, v)
	}
	u.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), strings.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := e.address.User.Password()
	req.SetBasicAuth(e.address.User.Username(), password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s\n%s: %s", statement, resp.Status, body)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return table{}
	}
	return decode(t, body)
}

// decode decodes an answer in the format JSONCompact.
func decode(t *testing.T, body []byte) table {
	t.Helper()
	var answer struct {
		Meta []struct{ Name, Type string }
		Data [][]any
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		t.Fatalf("%v of %.300s", err, body)
	}
	var out table
	for _, m := range answer.Meta {
		out.columns = append(out.columns, m.Name)
	}
	for _, row := range answer.Data {
		for i := range row {
			row[i] = valueOf(t, answer.Meta[i].Type, row[i])
		}
		out.rows = append(out.rows, row)
	}
	return out
}

// valueOf converts a value of a column of a type.
func valueOf(t *testing.T, kind string, v any) any {
	t.Helper()
	switch v := v.(type) {
	case []any:
		kind = strings.TrimSuffix(strings.TrimPrefix(kind, "Array("), ")")
		for i := range v {
			v[i] = valueOf(t, kind, v[i])
		}
	case json.Number:
		var out any
		var err error
		if strings.Contains(kind, "Float") {
			out, err = v.Float64()
		} else {
			out, err = strconv.ParseInt(v.String(), 10, 64)
		}
		if err != nil {
			t.Fatalf("%s of type %s: %v", v, kind, err)
		}
		return out
	}
	return v
}
