package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parleyrun/parley/agent"
)

// oracle returns the library's own verdict on values, nil if it rejects the schema. It is used for
// short values only.
func oracle(schema []byte) func(value []byte) (fits, ok bool) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("agent:///schema.json", doc); err != nil {
		return nil
	}
	compiled, err := c.Compile("agent:///schema.json")
	if err != nil {
		return nil
	}
	return func(value []byte) (fits, ok bool) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		return err == nil && compiled.Validate(v) == nil, err == nil
	}
}

// agree compares a schema's verdicts with the library's, unless a bound forbids one.
func agree(t *testing.T, schema string, values ...string) {
	t.Helper()
	s, err := agent.NewSchema(json.RawMessage(schema))
	ask := oracle([]byte(schema))
	if err != nil || ask == nil {
		return
	}
	for _, value := range values {
		err := s.Validate(t.Context(), json.RawMessage(value))
		var unfit *agent.SchemaError
		if err != nil && (!errors.As(err, &unfit) || strings.Contains(err.Error(), "out of range")) {
			continue
		}
		if want, ok := ask([]byte(value)); ok && want != (err == nil) {
			t.Errorf("schema %s, value %s: got %v, library %v", schema, value, err, want)
		}
	}
}

// keywords are schemas that cover every keyword and draft.
func keywords() []string {
	return []string{
		`true`, `false`, `{}`,
		`{"type":"integer"}`, `{"type":["number","null"]}`, `{"const":{"a":[1,1.0]}}`, `{"enum":[1,"a",null,[],{"a":1}]}`,
		`{"minLength":1,"maxLength":2,"pattern":"^a"}`, `{"format":"date"}`, `{"format":"regex"}`, `{"format":"uuid","minimum":1}`,
		`{"minimum":1,"exclusiveMaximum":3}`, `{"exclusiveMinimum":1,"maximum":3,"multipleOf":0.5}`,
		`{"properties":{"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`,
		`{"patternProperties":{"^a":{"type":"number"},"b$":{"minimum":2}},"additionalProperties":{"type":"string"}}`,
		`{"propertyNames":{"maxLength":1},"minProperties":1,"maxProperties":2}`,
		`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"maxProperties":2}}}`,
		`{"dependencies":{"a":["b"],"b":{"required":["c"]}}}`,
		`{"prefixItems":[{"type":"number"},{"type":"string"}],"items":{"type":"null"}}`, `{"items":false}`,
		`{"minItems":1,"maxItems":2,"uniqueItems":true}`,
		`{"contains":{"type":"number"}}`, `{"contains":{"type":"number"},"minContains":0,"maxContains":1}`, `{"contains":{"const":1},"minContains":2}`,
		`{"not":{"type":"number"}}`, `{"allOf":[{"minimum":1},{"maximum":2}]}`, `{"anyOf":[{"type":"string"},{"minimum":2}]}`,
		`{"oneOf":[{"type":"number"},{"minimum":2},{"type":"string"}]}`,
		`{"if":{"type":"number"},"then":{"minimum":2},"else":{"type":"string"}}`,
		`{"properties":{"a":true},"anyOf":[{"properties":{"b":{"type":"number"}}},{"properties":{"c":true}}],"unevaluatedProperties":false}`,
		`{"allOf":[{"properties":{"a":true},"unevaluatedProperties":{"type":"number"}}],"unevaluatedProperties":false}`,
		`{"not":{"properties":{"a":true},"unevaluatedProperties":false},"unevaluatedProperties":{"type":"number"}}`,
		`{"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":true}},"unevaluatedProperties":false}`,
		`{"prefixItems":[true],"contains":{"type":"string"},"unevaluatedItems":{"type":"null"}}`,
		`{"anyOf":[{"prefixItems":[true,{"type":"number"}]},{"prefixItems":[true]}],"unevaluatedItems":false}`,
		`{"$ref":"#/$defs/a","maxLength":2,"$defs":{"a":{"type":"string"}}}`, `{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`,
		`{"properties":{"a":{"$ref":"#"}},"items":{"$ref":"#"},"type":["object","array"]}`,
		`{"properties":{"a":{"$dynamicRef":"#n"}},"$dynamicAnchor":"n","type":"object"}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"number"}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[true],"contains":{"type":"string"},"unevaluatedItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$recursiveRef":"#"}},"$recursiveAnchor":true,"unevaluatedProperties":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}},"$ref":"#/definitions/a","maxLength":1}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"type":"null"},"contains":{"const":1}}`,
		`{"$schema":"http://json-schema.org/draft-06/schema#","items":{"type":"number"},"propertyNames":{"pattern":"^a"}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true,"dependencies":{"a":["b"]}}`,
	}
}

// values cover every type and the limits in the schemas.
func values() []string {
	return []string{
		`null`, `true`, `0`, `1`, `1.0`, `2`, `2.5`, `3`, `1e2`, `-0.0`, `""`, `"a"`, `"abc"`, `"2020-01-02"`, `"("`, `"ä"`, `"a\u0000\ud800"`,
		`[]`, `[1]`, `[1,1.0]`, `[1,"a",null]`, `["a","b"]`, `[[],[[]]]`, `[1,2,3]`, `[{"a":1,"b":2},{"b":2,"a":1}]`, `[1,null]`,
		`{}`, `{"a":1}`, `{"a":"x"}`, `{"b":1}`, `{"a":1,"b":2}`, `{"a":"x","b":"y","c":null}`, `{"a":{"a":{"a":1}}}`, `{"a":[1,1]}`, `{"ab":3,"c":"d"}`,
		`{"a":1,"a":"x"}`, `{"a":{},"b":{"a":[]}}`, `{"c":1,"b":3,"a":1}`,
	}
}

func TestSchemaAgreesWithLibrary(t *testing.T) {
	all := keywords()
	for _, schema := range all {
		if _, err := agent.NewSchema(json.RawMessage(schema)); err != nil {
			t.Errorf("schema %s: %v", schema, err)
		}
	}
	for i := range all { // and every schema within another
		all = append(all, `{"anyOf":[`+all[i]+`,{"type":"boolean"}],"items":`+all[(i+1)%len(all)]+`}`)
	}
	// Combine keywords of two schemas, in a fixed pseudo-random selection.
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		var a, b map[string]json.RawMessage
		if json.Unmarshal([]byte(all[random.IntN(len(all))]), &a) != nil || json.Unmarshal([]byte(all[random.IntN(len(all))]), &b) != nil || a == nil {
			continue
		}
		for k, v := range b {
			a[k] = v
		}
		merged, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(merged))
	}
	for _, schema := range all {
		agree(t, schema, values()...)
	}
}
