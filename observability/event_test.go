package observability_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing them")

// golden compares with a file, or rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// bare returns the event without optional fields.
func bare(t *testing.T, e observability.Event) observability.Event {
	t.Helper()
	p, err := observability.DecodePayload(e.Type, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return observability.Event{
		Envelope: observability.Envelope{Version: e.Version, ID: e.ID, Index: e.Index, Seq: e.Seq, At: e.At, Type: e.Type},
		Payload:  p,
	}
}

// TestGoldenEvents compares the JSON of every type, with and without its optional fields, with files,
// and decodes it.
func TestGoldenEvents(t *testing.T) {
	var names []string
	for _, full := range sinktest.Sample() {
		for suffix, e := range map[string]observability.Event{".json": full, ".min.json": bare(t, full)} {
			name := string(e.Type) + suffix
			names = append(names, name)
			line, err := e.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "golden", name), append(line, '\n'))
			var back observability.Event
			if err := back.UnmarshalJSON(line); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(e, back); diff != "" {
				t.Errorf("%s read back (-want +got):\n%s", name, diff)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(names, f.Name()) {
			t.Errorf("golden file %s has no event type", f.Name())
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON":            `{`,
		"a list":             `[]`,
		"no version":         `{"type":"idle"}`,
		"an older version":   `{"v":2,"type":"idle"}`,
		"a field of no kind": `{"v":3,"type":"text_delta","bytes":"many"}`,
		"a moment of no day": `{"v":3,"type":"idle","timestamp":"yesterday"}`,
	} {
		var e observability.Event
		if err := e.UnmarshalJSON([]byte(line)); err == nil || e.Payload != nil {
			t.Errorf("%s: got error %v, event %+v", name, err, e)
		}
	}
	var unknown *observability.UnknownTypeError
	var e observability.Event
	if err := e.UnmarshalJSON([]byte(`{"v":3,"type":"nap"}`)); !errors.As(err, &unknown) || unknown.Type != "nap" {
		t.Errorf("type of another release: got %v", err)
	}
	if err := e.UnmarshalJSON([]byte(`{"v":3,"type":"idle","mood":"good"}`)); err != nil {
		t.Errorf("field of another release: got %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	idle := bare(t, sinktest.Sample()[0]).Envelope
	for name, e := range map[string]observability.Event{
		"no payload":             {Envelope: idle},
		"another type's payload": {Envelope: idle, Payload: &observability.Idle{}},
	} {
		if b, err := e.AppendJSON([]byte("before")); err == nil || !strings.HasPrefix(string(b), "before") {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
	}
}

// FuzzEvent decodes any bytes and checks the round trip of those that decode.
func FuzzEvent(f *testing.F) {
	for _, e := range sinktest.Sample() {
		line, err := e.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, line := range []string{
		`{"v":3,"type":"idle"}`, `{"v":3,"type":"log","attributes":{"a":[1e2,{"b":null}]},"level":"\ud800"}`,
		`{"v":3,"type":"turn_request","request":{"input": [ 1.50, "<" ] }}`, `{"v":3,"type":"turn","response":{"error":{}}}`,
		`{"v":3,"type":"turn_messages","toolResults":[]}`, `{"V":3,"tYpe":"idle","timestamp":"0000-01-01T00:00:00Z"}`,
		`{"v":3,"type":"turn_request","request":{"input":null}}`, `{"v":4,"type":"idle"}`, `{"v":3,"type":"nap"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e observability.Event
		if e.UnmarshalJSON(data) != nil {
			return
		}
		if observability.Size(e) <= 0 {
			t.Errorf("got size %d", observability.Size(e))
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatalf("encode the decoded event of %q: %v", data, err)
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("got more than a line: %q", line)
		}
		var back observability.Event
		if err := back.UnmarshalJSON(line); err != nil {
			t.Fatalf("decode %q: %v", line, err)
		}
		if !cmp.Equal(e.Envelope, back.Envelope) {
			t.Errorf("got envelope\n%+v, want\n%+v", back.Envelope, e.Envelope)
		}
		// Compare encoded payloads: an empty map equals none, and the JSON of a request has no spaces
		// then.
		again, err := back.AppendJSON(nil)
		if err != nil || !bytes.Equal(line, again) {
			t.Errorf("encoded again (%v): got\n%s, want\n%s", err, again, line)
		}
	})
}
