package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
)

// branching is a schema whose branches double with each level of a value.
const branching = `{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"},"minItems":1}]}`

// brackets is a nested value that no schema of arrays only accepts.
func brackets(depth int) string {
	return strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)
}

// listOf is an array of about the given size.
func listOf(item string, bytes int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", bytes/(len(item)+1)), ",") + "]"
}

// inVirtualTime runs a check in virtual time, so that it ends by another bound on a slow machine too.
func inVirtualTime(t *testing.T, check func(context.Context)) {
	synctest.Test(t, func(t *testing.T) { check(t.Context()) })
}

func TestSchemaBounds(t *testing.T) {
	var chain strings.Builder // ten schemas for each level of a value
	for i := range 10 {
		chain.WriteString(`"` + string(rune('a'+i)) + `":{"$ref":"#/$defs/` + string(rune('b'+i)) + `"},`)
	}
	wordy := `{"items":{"enum":["` + strings.Repeat("x", 1<<10) + `"]}}`
	for _, tc := range []struct{ name, schema, value, want string }{
		{"branches", branching, brackets(36), "takes more than 1000000 steps to check against the schema; send less, or nest it less"},
		{"wrong items", `{"items":{"type":"number"}}`, listOf(`"wrong item"`, 4<<20), "/0: got string, want number; /1: got string, want number; /10: "},
		{"wrong items with long words about each", wordy, listOf(`"wrong item"`, 4<<20), "/0: value must be 'xxx"},
		{"too many values", `true`, listOf(`[]`, 4<<20), "takes more than 1000000 steps"},
		{"unknown members", `{"additionalProperties":false}`, `{"` + strings.Repeat(`x":0,"`, 100_000) + `":0}`, `unknown member "", "x"`},
		{"long pattern", `{"pattern":"^(a{1,1000}|b{1,1000})*c$"}`, `"` + strings.Repeat("a", 1<<20) + `"`, "takes more than 1000000 steps"},
		{"long expression", `{"format":"regex"}`, `"` + strings.Repeat("a", 1<<20) + `"`, "takes more than 1000000 steps"},
		{"long names, looked at often", `{"anyOf":[` + strings.Repeat(`{"properties":{"a":true},"not":{}},`, 200) + `false]}`, `{"` + strings.Repeat("x", 3<<20) + `":1}`, "takes more than 1000000 steps"},
		{"depth of schemas", `{"items":{"$ref":"#/$defs/a"},"$defs":{` + chain.String() + `"k":{"$ref":"#"}}}`, brackets(1000), "goes through the schema in a way that is nested too deep"},
		{"depth of a value", `true`, brackets(1001), "is nested deeper than 1000"},
		{"depth that is taken", `{"items":{"$ref":"#"}}`, brackets(1000), ""},
		{"an issue that repeats the value", `{"const":1,"pattern":"a"}`, `"` + strings.Repeat("x", 4<<20) + `"`, "value must be 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := agent.NewSchema(json.RawMessage(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			inVirtualTime(t, func(ctx context.Context) { err = s.Validate(ctx, json.RawMessage(tc.value)) })
			runtime.ReadMemStats(&after)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %.200v\nwant %s", err, tc.want)
			}
			if err != nil && len(err.Error()) > 4000 {
				t.Errorf("got an error of %d bytes", len(err.Error()))
			}
			if used := int(after.TotalAlloc-before.TotalAlloc) >> 20; used > 400 {
				t.Errorf("got %d MB allocated, want at most 400", used)
			}
		})
	}
}

// TestSchemaEndsWithContext checks values in a context that has ended: one that needs all steps, and
// one that is done at once.
func TestSchemaEndsWithContext(t *testing.T) {
	s, err := agent.NewSchema(json.RawMessage(branching))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Validate(ctx, json.RawMessage(brackets(36))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := s.Validate(ctx, json.RawMessage(`[]`)); err != nil {
		t.Errorf("short value: got %v", err)
	}
	a := &agent.Agent{InitialData: s}
	if err := agenthost.CheckInitialData(ctx, a, json.RawMessage(brackets(36))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestCheckContainsItsOwnPanic uses the zero Schema to provoke a panic in the check.
func TestCheckContainsItsOwnPanic(t *testing.T) {
	var crash *agent.PanicError
	if err := new(agent.Schema).Validate(t.Context(), json.RawMessage(`{}`)); !errors.As(err, &crash) {
		t.Errorf("got %v, want a *PanicError", err)
	}
}

func TestSchemaBoundsOfUsers(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"pattern":"^(a{1,1000}|b{1,1000})*c$"}}}`)
	value := json.RawMessage(`{"a":"` + strings.Repeat("a", 1<<20) + `"}`)
	const bound = "takes more than 1000000 steps to check against the schema"

	tool := agent.NewTool("look", "Looks.", func(context.Context, map[string]any) (int, error) { return 0, nil }, &agent.ToolOptions{InputSchema: schema})
	var err error
	inVirtualTime(t, func(ctx context.Context) { _, err = tool.Call(ctx, value) })
	var input *agent.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), bound) {
		t.Errorf("input of a tool: %v", err)
	}
	var written written
	data := agent.NewDataWriter[json.RawMessage]("found", &agent.DataOptions{Schema: schema})
	inVirtualTime(t, func(ctx context.Context) { err = data.Write(written.context(ctx), value) })
	var beyond *agent.SchemaBoundError
	if !errors.As(err, &beyond) || !strings.Contains(err.Error(), bound) || len(written) > 0 {
		t.Errorf("data: %v", err)
	}
	s, err := agent.NewSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	inVirtualTime(t, func(ctx context.Context) { err = agenthost.CheckInitialData(ctx, &agent.Agent{InitialData: s}, value) })
	if err == nil || !strings.HasPrefix(err.Error(), "invalid_request: initialData: "+bound) {
		t.Errorf("initial data: %v", err)
	}
}

func TestNewSchemaRefusesDynamicPlaces(t *testing.T) {
	for _, schema := range []string{
		`{"properties":{"a":{"$dynamicRef":"#n"}},"$defs":{"n":{"$id":"n","$dynamicAnchor":"n"}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"$recursiveRef":"#"},"$defs":{"n":{"$id":"n"}}}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		if _, err := agent.NewSchema(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), `use "$ref"`) {
			t.Errorf("schema %s: got %v", schema, err)
		}
	}
}
