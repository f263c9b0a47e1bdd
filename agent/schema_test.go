package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
)

func TestSchemaValidate(t *testing.T) {
	for _, tc := range []struct{ name, schema, value, want string }{
		{"fits", `{"type":"object"}`, `{}`, ""},
		{"absent where required", `{"type":"object","required":["a"]}`, ``, "is required, but was not sent"},
		{"absent where all is optional", `{"type":"object"}`, ``, "is required, but was not sent"},
		{"absent where null is valid", `{"type":["null","object"],"required":["a"]}`, ``, ""},
		{"absent where anything is valid", `true`, ``, ""},
		{"null is a value", `{"type":"object"}`, `null`, "got null, want object"},
		{"empty is not JSON", `true`, ` `, "is not valid JSON: EOF"},
		{"several, in order of place", `{"properties":{"a":{"type":"string"},"b":{"minimum":2}},"required":["c"]}`,
			`{"b":1,"a":1}`, `missing "c"; /a: got number, want string; /b: must be at least 2`},
		{"place is a JSON pointer", `{"additionalProperties":{"type":"string"}}`, `{"a/b~c":1}`, "/a~1b~0c: got number, want string"},
		{"length", `{"minLength":3}`, `"ab"`, "has 2 characters, want at least 3"},
		{"length, other side", `{"maxLength":1}`, `"ab"`, "has 2 characters, want at most 1"},
		{"items", `{"minItems":1}`, `[]`, "has 0 items, want at least 1"},
		{"items, other side", `{"maxItems":1}`, `[1,2]`, "has 2 items, want at most 1"},
		{"exclusive bounds", `{"exclusiveMinimum":0.5}`, `0.5`, "must be greater than 0.5"},
		{"exclusive bounds, other side", `{"exclusiveMaximum":1}`, `1`, "must be less than 1"},
		{"multiple", `{"multipleOf":0.25}`, `0.3`, "must be a multiple of 0.25"},
		{"exact bound", `{"maximum":9007199254740992}`, `9007199254740993`, "must be at most 9007199254740992"},
		{"nothing", `{"properties":{"a":false}}`, `{"a":1}`, "/a: is not allowed"},
		{"format is checked", `{"format":"date"}`, `"soon"`, "is not a valid date; use RFC 3339, such as 2006-01-02"},
		{"reference within", `{"$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}`, `"x"`, "got string, want number"},
		{"choice", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, "got number, want null; got number, want string"},
		{"older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}`, `1`, "got number, want string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := agent.NewSchema(json.RawMessage(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Validate(t.Context(), rawOrNil(tc.value))
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
				return
			}
			var invalid *agent.SchemaError
			if !errors.As(err, &invalid) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestNewSchemaRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ schema, want string }{
		"empty":          {``, "parse schema"},
		"not JSON":       {`{`, "parse schema"},
		"unknown type":   {`{"type":"objekt"}`, "compile schema"},
		"not a schema":   {`7`, "compile schema"},
		"file":           {`{"$ref":"file://` + secret + `"}`, "not loaded"},
		"relative file":  {`{"$ref":"other.json"}`, "not loaded"},
		"network":        {`{"$ref":"https://example.com/s.json"}`, "not loaded"},
		"missing target": {`{"$ref":"#/$defs/none"}`, "compile schema"},
		"bad pattern":    {`{"pattern":"("}`, "compile schema"},
	} {
		if _, err := agent.NewSchema(json.RawMessage(tc.schema)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error about %q", name, err, tc.want)
		}
	}
}

func TestSchemaFor(t *testing.T) {
	type order struct {
		ID string    `json:"id"`
		At time.Time `json:"at,omitzero"`
	}
	required, optional := agent.SchemaFor[order](), agent.SchemaFor[*order]()
	if err := required.Validate(t.Context(), nil); err == nil {
		t.Error("absent struct was accepted")
	}
	if err := optional.Validate(t.Context(), nil); err != nil {
		t.Errorf("absent pointer: got %v", err)
	}
	for _, s := range []*agent.Schema{required, optional} {
		if err := s.Validate(t.Context(), json.RawMessage(`{"id":"o1"}`)); err != nil {
			t.Error(err)
		}
		if err := s.Validate(t.Context(), json.RawMessage(`{}`)); err == nil {
			t.Error("missing member was accepted")
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("schema of a channel was derived")
		}
	}()
	agent.SchemaFor[chan int]()
}

func TestOpenSchemas(t *testing.T) {
	type line struct {
		Item string `json:"item"`
	}
	type order struct {
		Lines  []line           `json:"lines"`
		First  *line            `json:"first,omitempty"`
		Counts map[string]int   `json:"counts,omitempty"`
		Named  map[string]*line `json:"named,omitempty"`
	}
	closed, open := agent.SchemaFor[order](), agent.OpenSchemaFor[order]()
	tool := func(o *agent.ToolOptions) agent.Tool {
		return agent.NewTool("order", "Orders.", func(_ context.Context, in order) (order, error) { return in, nil }, o)
	}
	strict, lax := tool(nil), tool(&agent.ToolOptions{Open: true})
	for _, value := range []string{
		`{"lines":[],"x":1}`, `{"lines":[{"item":"a","x":1}]}`, `{"lines":[],"first":{"item":"a","x":1}}`, `{"lines":[],"named":{"n":{"item":"a","x":1}}}`,
	} {
		if err := closed.Validate(t.Context(), json.RawMessage(value)); err == nil || !strings.Contains(err.Error(), `unknown member "x"`) {
			t.Errorf("closed, %s: %v", value, err)
		}
		if err := open.Validate(t.Context(), json.RawMessage(value)); err != nil {
			t.Errorf("open, %s: %v", value, err)
		}
		var unfit *agent.InputError
		if _, err := strict.Call(t.Context(), json.RawMessage(value)); !errors.As(err, &unfit) {
			t.Errorf("a closed tool, %s: %v", value, err)
		}
		if out, err := lax.Call(t.Context(), json.RawMessage(value)); err != nil || strings.Contains(string(out), `"x"`) {
			t.Errorf("an open tool, %s: %s, %v", value, out, err)
		}
	}
	for _, value := range []string{`{}`, `{"lines":[{}]}`, `{"lines":[],"counts":{"n":"x"}}`, `{"lines":[],"named":{"n":7}}`} {
		if err := open.Validate(t.Context(), json.RawMessage(value)); err == nil {
			t.Errorf("open: accepted invalid %s", value)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("open tool with its own schema was accepted")
		}
	}()
	tool(&agent.ToolOptions{Open: true, InputSchema: json.RawMessage(`{"type":"object"}`)})
}

func TestSchemaJSONIsOneLine(t *testing.T) {
	s, err := agent.NewSchema(json.RawMessage("{\n \"maximum\": 9007199254740993\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.JSON()), `{"maximum":9007199254740993}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzSchemaValidate(f *testing.F) {
	f.Add([]byte(`{"type":"object","required":["a"]}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"multipleOf":1e-400}`), []byte(`1e400`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`{"a":{"a":[]}}`))
	f.Add([]byte(`{"enum":[1,"a",null]}`), []byte(`1.0`))
	f.Add([]byte(`{"uniqueItems":true}`), []byte(`[1,1.0,{}]`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := agent.NewSchema(schema)
		if err != nil {
			return
		}
		first := s.Validate(t.Context(), value)
		if second := s.Validate(t.Context(), value); (first == nil) != (second == nil) {
			t.Fatalf("got two verdicts: %v and %v", first, second)
		} else if first != nil && first.Error() != second.Error() {
			t.Fatalf("two texts:\n%v\n%v", first, second)
		}
		if len(value) < 64 && bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) < 8 { // The library may not terminate for more.
			agree(t, string(schema), string(value))
		}
	})
}
