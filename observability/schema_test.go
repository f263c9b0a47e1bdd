package observability_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// object is a JSON object of the schema; encoding sorts its members.
type object = map[string]any

// describer derives a schema from Go types; structs other than payloads get a definition.
type describer struct{ defs object }

func (d *describer) of(t *testing.T, typ reflect.Type) object {
	t.Helper()
	switch typ {
	case reflect.TypeFor[conversation.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{} // any JSON
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return d.of(t, typ.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": d.of(t, typ.Elem())}
	case reflect.Map:
		return object{"type": "object"}
	case reflect.Struct:
		if d.defs[typ.Name()] == nil {
			d.defs[typ.Name()] = d.structOf(t, typ)
		}
		return object{"$ref": "#/$defs/" + typ.Name()}
	}
	t.Fatalf("missing schema for %s", typ)
	return nil
}

func (d *describer) structOf(t *testing.T, typ reflect.Type) object {
	t.Helper()
	properties, required := object{}, []string{}
	for i := range typ.NumField() {
		name, option, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			t.Fatalf("field %s.%s has no JSON name", typ, typ.Field(i).Name)
		}
		properties[name] = d.of(t, typ.Field(i).Type)
		if option == "" {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func describe(t *testing.T) []byte {
	t.Helper()
	d := &describer{defs: object{}}
	root := d.structOf(t, reflect.TypeFor[observability.Envelope]())
	envelope := root["properties"].(object)
	envelope["v"] = object{"const": observability.Version}
	envelope["type"] = object{"enum": observability.Types()}
	envelope["seq"] = object{"type": "integer", "minimum": observability.LiveSeq}
	var oneOf []object
	for _, typ := range observability.Types() {
		p, err := observability.DecodePayload(typ, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		payload := d.structOf(t, reflect.TypeOf(p).Elem())
		properties := payload["properties"].(object)
		for name := range properties {
			if envelope[name] != nil {
				t.Errorf("%s: field %s repeats a field of the envelope", typ, name)
			}
		}
		properties["type"] = object{"const": typ}
		d.defs[string(typ)] = payload
		oneOf = append(oneOf, object{"$ref": "#/$defs/" + string(typ)})
	}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "urn:parley:observability:v3"
	root["title"] = "An observability event of Parley, version 3"
	root["oneOf"], root["$defs"] = oneOf, d.defs
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// TestSchemaIsThatOfTheStructs rewrites the schema with -rewrite.
func TestSchemaIsThatOfTheStructs(t *testing.T) {
	want := describe(t)
	golden(t, filepath.Join("schema", "v3.json"), want)
	if !*rewrite && !bytes.Equal(observability.Schema(), want) {
		t.Error("Schema differs from the file")
	}
}

// compiled compiles the schema file, even while it is rewritten.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(describe(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("v3.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("v3.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, line []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaAcceptsEveryEvent(t *testing.T) {
	s := compiled(t)
	for _, full := range sinktest.Sample() {
		for _, e := range []observability.Event{full, bare(t, full)} {
			line, err := e.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, s, line); err != nil {
				t.Errorf("%s\n%v", line, err)
			}
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	i := slices.IndexFunc(sinktest.Sample(), func(e observability.Event) bool { return e.Type == observability.TypeTool })
	line, err := sinktest.Sample()[i].AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for old, changed := range map[string]string{
		`"v":3`:                 `"v":2`,
		`"type":"tool"`:         `"type":"nap"`,
		`"type":"tool",`:        `"type":"turn",`,
		`"isError":true`:        `"isError":"yes"`,
		`"durationMs":33`:       `"durationMs":33.5`,
		`"toolName":`:           `"tool":`,
		`"eventId":`:            `"id":`,
		`"bytes":70000`:         `"bytes":null`,
		`"seq":7`:               `"seq":-2`,
		`"timestamp":"2026-01-`: `"timestamp":"2026-13-`,
	} {
		bad := bytes.Replace(line, []byte(old), []byte(changed), 1)
		if bytes.Equal(bad, line) {
			t.Fatalf("%s is not in %s", old, line)
		}
		if validate(t, s, bad) == nil {
			t.Errorf("%s: got no error for %s", changed, bad)
		}
	}
	more := bytes.Replace(line, []byte(`"v":3`), []byte(`"v":3,"mood":"good"`), 1)
	if err := validate(t, s, more); err != nil {
		t.Errorf("field of a later release: got %v", err)
	}
}
