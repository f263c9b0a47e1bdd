package providers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// dialectModels returns a model of each dialect, by API.
func dialectModels() map[providers.SchemaDialect]providers.Model {
	return map[providers.SchemaDialect]providers.Model{
		providers.SchemaPlain:     {Provider: "openai", ID: "gpt-5", API: "openai-responses", BaseURL: "https://api.openai.com/v1"},
		providers.SchemaClaude:    {Provider: "anthropic", ID: "claude-opus-5", API: "anthropic-messages"},
		providers.SchemaConverse:  {Provider: "amazon-bedrock", ID: "amazon.nova-pro-v1:0", API: "bedrock-converse-stream"},
		providers.SchemaGemini:    {Provider: "google", ID: "gemini-3-pro", API: "google-generative-ai"},
		providers.SchemaOpenAPI:   {Provider: "google", ID: "claude-sonnet-4-5", API: "google-vertex"},
		providers.SchemaMoonshot:  {Provider: "moonshotai", ID: "kimi-k2.6", API: "openai-completions"},
		providers.SchemaFireworks: {Provider: "fireworks", ID: "accounts/fireworks/models/glm", API: "openai-completions"},
	}
}

func TestDialectOf(t *testing.T) {
	for want, m := range dialectModels() {
		if got := providers.DialectOf(m.API, m); got != want {
			t.Errorf("%s: dialect %s, want %s", m.Spec(), got, want)
		}
	}
	for _, tt := range []struct {
		name string
		m    providers.Model
		want providers.SchemaDialect
	}{
		{"a registration's own word", providers.Model{API: "openai-completions", Compat: providers.Compat{ToolSchemas: "gemini"}}, providers.SchemaGemini},
		{"an unknown word", providers.Model{API: "anthropic-messages", Compat: providers.Compat{ToolSchemas: "none"}}, providers.SchemaClaude},
		{"Kimi behind a gateway", providers.Model{Provider: "openrouter", ID: "moonshotai/kimi-k2.6", API: "openai-completions"}, providers.SchemaMoonshot},
		{"Kimi at Fireworks", providers.Model{Provider: "fireworks", ID: "accounts/fireworks/models/kimi-k2", API: "anthropic-messages"}, providers.SchemaFireworks},
		{"Moonshot's messages", providers.Model{Provider: "own", ID: "k3", API: "anthropic-messages", BaseURL: "https://api.moonshot.ai/anthropic"}, providers.SchemaMoonshot},
		{"Claude behind a gateway", providers.Model{Provider: "openrouter", ID: "anthropic/claude-opus-5", API: "openai-completions"}, providers.SchemaClaude},
		{"Claude on Bedrock", providers.Model{ID: "us.anthropic.claude-sonnet-4-20250514-v1:0", API: "bedrock-converse-stream"}, providers.SchemaClaude},
		{"Gemini's chat-completions", providers.Model{Provider: "own", ID: "gemini-3-pro", API: "openai-completions",
			BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai"}, providers.SchemaOpenAPI},
		{"a server of one's own", providers.Model{Provider: "local", ID: "m", API: "openai-completions"}, providers.SchemaPlain},
		{"Mistral", providers.Model{Provider: "mistral", ID: "mistral-large", API: "mistral-conversations"}, providers.SchemaPlain},
	} {
		if got := providers.DialectOf(tt.m.API, tt.m); got != tt.want {
			t.Errorf("%s: dialect %s, want %s", tt.name, got, tt.want)
		}
	}
}

type sentSchemas = map[providers.SchemaDialect]string

const (
	plain, claude, converse, gemini = providers.SchemaPlain, providers.SchemaClaude, providers.SchemaConverse, providers.SchemaGemini
	openAPI, moonshot, fireworks    = providers.SchemaOpenAPI, providers.SchemaMoonshot, providers.SchemaFireworks
	anyType                         = `"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object","properties":{}},{"type":"array"},{"type":"null"}]`
	anyMoon                         = `"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object","properties":{},"required":[]},{"type":"array"},{"type":"null"}]`
	textNode, nodeInDefs            = `"text":{"type":"string"}`, `"#/$defs/Node"`
)

// schemaCases are schemas of Go types, authors and other servers, with the expected result per
// dialect. The key "" applies to dialects without a key of their own.
var schemaCases = []struct {
	name, in string
	want     sentSchemas
}{
	{"of struct{}", `{"type":"object","additionalProperties":false}`, sentSchemas{
		"":       `{"type":"object","additionalProperties":false,"properties":{}}`,
		converse: `{"type":"object","properties":{}}`, openAPI: `{"type":"object","properties":{}}`,
		moonshot: `{"type":"object","additionalProperties":false,"properties":{},"required":[]}`,
	}},
	{"none", ``, sentSchemas{"": `{"type":"object","properties":{}}`, moonshot: `{"type":"object","properties":{},"required":[]}`}},
	{"true", `true`, sentSchemas{"": `{"type":"object","properties":{}}`, moonshot: `{"type":"object","properties":{},"required":[]}`}},
	{"empty", `{}`, sentSchemas{"": `{"type":"object","properties":{}}`, moonshot: `{"type":"object","properties":{},"required":[]}`}},
	{"no type at the root", `{"properties":{"b":{"type":"string"},"a":{"type":"string"}},"required":["b"]}`, sentSchemas{
		"": `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}},"required":["b"]}`,
	}},
	{"null at the root", `{"type":["null","object"],"properties":{"a":{"type":"string"}},"required":["a"]}`, sentSchemas{
		"": `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`,
	}},
	{"any and json.RawMessage", `{"type":"object","properties":{"a":{},"b":true,"c":{"description":"d"},"d":false},"required":["a"]}`, sentSchemas{
		"":        `{"type":"object","properties":{"a":{},"b":{},"c":{"description":"d"}},"required":["a"]}`,
		plain:     `{"type":"object","properties":{"a":{},"b":{},"c":{"description":"d"}},"required":["a"]}`,
		moonshot:  `{"type":"object","properties":{"a":{` + anyMoon + `},"b":{` + anyMoon + `},"c":{"description":"d",` + anyMoon + `}},"required":["a"]}`,
		fireworks: `{"type":"object","properties":{"a":{` + anyType + `},"b":{` + anyType + `},"c":{"description":"d",` + anyType + `}},"required":["a"]}`,
	}},
	{"lists, maps and pointers", `{"type":"object","properties":{"l":{"type":["null","array"],"items":{"type":"string"},"description":"d"},
			"m":{"type":["null","object"],"additionalProperties":{"type":"integer"}},"p":{"type":["null","string"],"enum":["a","b",null]}},"required":["l","m"]}`, sentSchemas{
		"": `{"type":"object","properties":{"l":{"type":["null","array"],"items":{"type":"string"},"description":"d"},
				"m":{"type":["null","object"],"additionalProperties":{"type":"integer"},"properties":{}},"p":{"type":["null","string"],"enum":["a","b",null]}},"required":["l","m"]}`,
		gemini: `{"type":"object","properties":{"l":{"type":["null","array"],"items":{"type":"string"},"description":"d"},
				"m":{"type":["null","object"],"additionalProperties":{"type":"integer"},"properties":{}},
				"p":{"anyOf":[{"type":"null"},{"type":"string","enum":["a","b"]}]}},"required":["l","m"]}`,
		openAPI: `{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"description":"d","nullable":true},
				"m":{"type":"object","nullable":true,"properties":{}},"p":{"type":"string","enum":["a","b"],"nullable":true}},"required":["l","m"]}`,
		moonshot: `{"type":"object","properties":{"l":{"description":"d","anyOf":[{"type":"null"},{"type":"array","items":{"type":"string"}}]},
				"m":{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":{"type":"integer"},"properties":{},"required":[]}]},
				"p":{"anyOf":[{"type":"null"},{"type":"string","enum":["a","b"]}]}},"required":["l","m"]}`,
		fireworks: `{"type":"object","properties":{"l":{"description":"d","anyOf":[{"type":"null"},{"type":"array","items":{"type":"string"}}]},
				"m":{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":{"type":"integer"},"properties":{}}]},
				"p":{"anyOf":[{"type":"null"},{"type":"string","enum":["a","b"]}]}},"required":["l","m"]}`,
	}},
	{"bounds", `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"d"},"s":{"type":"string","format":"date-time","pattern":"^x"}}}`, sentSchemas{
		"":       `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"d"},"s":{"type":"string","format":"date-time","pattern":"^x"}}}`,
		openAPI:  `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"d"},"s":{"type":"string","pattern":"^x","description":"(format date-time)"}}}`,
		moonshot: `{"type":"object","properties":{"n":{"type":"integer","description":"d (minimum 1)"},"s":{"type":"string","description":"(format date-time, pattern ^x)"}},"required":[]}`,
	}},
	{"const", `{"type":"object","properties":{"a":{"const":"x"},"b":{"type":"boolean","const":true}}}`, sentSchemas{
		"":        `{"type":"object","properties":{"a":{"const":"x"},"b":{"type":"boolean","const":true}}}`,
		gemini:    `{"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":"boolean","description":"(always true)"}}}`,
		openAPI:   `{"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":"boolean","description":"(always true)"}}}`,
		moonshot:  `{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"boolean","description":"(always true)"}},"required":[]}`,
		fireworks: `{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"boolean","description":"(always true)"}}}`,
	}},
	{"properties named as keywords", `{"type":"object","properties":{"const":{"const":"x"},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`, sentSchemas{
		"":        `{"type":"object","properties":{"const":{"const":"x"},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`,
		gemini:    `{"type":"object","properties":{"const":{"enum":["x"]},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`,
		openAPI:   `{"type":"object","properties":{"const":{"enum":["x"]},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`,
		moonshot:  `{"type":"object","properties":{"const":{"type":"string","enum":["x"]},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`,
		fireworks: `{"type":"object","properties":{"const":{"type":"string","enum":["x"]},"oneOf":{"type":"string"},"$id":{"type":"string"}},"required":["const"]}`,
	}},
	{"a choice within", `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"oneOf":[{"required":["x"]},{"required":["y"]}]}}}`, sentSchemas{
		"":      `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"oneOf":[{"required":["x"],"properties":{"x":{}}},{"required":["y"],"properties":{"y":{}}}]}}}`,
		openAPI: `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"anyOf":[{"required":["x"],"properties":{"x":{}}},{"required":["y"],"properties":{"y":{}}}]}}}`,
		moonshot: `{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["x"]},
				{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"]}]}},"required":[]}`,
		fireworks: `{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["x"]},
				{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"]}]}}}`,
	}},
	{"choices at the root", `{"type":"object","anyOf":[{"type":"object","properties":{"kind":{"const":"a"},"n":{"type":"integer"}},"required":["kind","n"],"additionalProperties":false},
			{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"],"additionalProperties":false}]}`, sentSchemas{
		"":        `{"type":"object","properties":{"kind":{"enum":["a","b"]},"n":{"type":"integer"}},"required":["kind"],"additionalProperties":false}`,
		converse:  `{"type":"object","properties":{"kind":{"enum":["a","b"]},"n":{"type":"integer"}},"required":["kind"]}`,
		openAPI:   `{"type":"object","properties":{"kind":{"enum":["a","b"]},"n":{"type":"integer"}},"required":["kind"]}`,
		moonshot:  `{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"n":{"type":"integer"}},"required":["kind"],"additionalProperties":false}`,
		fireworks: `{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"n":{"type":"integer"}},"required":["kind"],"additionalProperties":false}`,
	}},
	{"allOf at the root", `{"type":"object","allOf":[{"$ref":"#/$defs/b"},{"properties":{"c":{"type":"string"}}}],"$defs":{"b":{"properties":{"a":{"type":"string"}},"required":["a"]}}}`, sentSchemas{
		"": `{"type":"object","properties":{"a":{"type":"string"},"c":{"type":"string"}},"required":["a"]}`,
	}},
	{"shared definitions", `{"type":"object","properties":{"a":{"$ref":"#/definitions/P","description":"d"}},"definitions":{"P":{"type":"object","properties":{"x":{"type":"number"}},"description":"a place"}}}`, sentSchemas{
		plain:    `{"type":"object","properties":{"a":{"$ref":"#/$defs/P","description":"d"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"number"}},"description":"a place"}}}`,
		claude:   `{"type":"object","properties":{"a":{"$ref":"#/$defs/P","description":"d"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"number"}},"description":"a place"}}}`,
		"":       `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"number"}},"description":"d"}}}`,
		moonshot: `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"number"}},"description":"d","required":[]}},"required":[]}`,
	}},
	{"a recursive type", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"tree":{"$ref":"#/$defs/Node"}},"required":["tree"],
			"$defs":{"Node":{"type":"object","properties":{` + textNode + `,"kids":{"type":["null","array"],"items":{"$ref":` + nodeInDefs + `}}},"required":["text"]}}}`, sentSchemas{
		"": `{"type":"object","properties":{"tree":{"$ref":"#/$defs/Node"}},"required":["tree"],
				"$defs":{"Node":{"type":"object","properties":{` + textNode + `,"kids":{"type":["null","array"],"items":{"$ref":` + nodeInDefs + `}}},"required":["text"]}}}`,
		converse: `{"type":"object","properties":{"tree":{"type":"object","properties":{` + textNode + `,"kids":{"type":["null","array"],
				"items":{"type":"object","description":"(as Node)","properties":{}}}},"required":["text"]}},"required":["tree"]}`,
		openAPI: `{"type":"object","properties":{"tree":{"type":"object","properties":{` + textNode + `,"kids":{"type":"array",
				"items":{"type":"object","description":"(as Node)","properties":{}},"nullable":true}},"required":["text"]}},"required":["tree"]}`,
		moonshot: `{"type":"object","properties":{"tree":{"$ref":"#/$defs/Node"}},"required":["tree"],
				"$defs":{"Node":{"type":"object","properties":{` + textNode + `,"kids":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":` + nodeInDefs + `}}]}},"required":["text"]}}}`,
		fireworks: `{"type":"object","properties":{"tree":{"type":"object","properties":{` + textNode + `,"kids":{"anyOf":[{"type":"null"},
				{"type":"array","items":{"type":"object","description":"(as Node)","properties":{}}}]}},"required":["text"]}},"required":["tree"]}`,
	}},
	{"tuples", `{"type":"object","properties":{"t":{"type":"array","items":[{"type":"string"},{"type":"number"}]},"u":{"type":"array"}}}`, sentSchemas{
		"":        `{"type":"object","properties":{"t":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":{}},"u":{"type":"array","items":{}}}}`,
		openAPI:   `{"type":"object","properties":{"t":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}},"u":{"type":"array","items":{}}}}`,
		moonshot:  `{"type":"object","properties":{"t":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}},"u":{"type":"array"}},"required":[]}`,
		fireworks: `{"type":"object","properties":{"t":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}},"u":{"type":"array"}}}`,
	}},
	{"required without properties", `{"type":"object","required":["a"]}`, sentSchemas{
		"":       `{"type":"object","required":["a"],"properties":{"a":{}}}`,
		moonshot: `{"type":"object","required":["a"],"properties":{"a":{` + anyMoon + `}}}`, fireworks: `{"type":"object","required":["a"],"properties":{"a":{` + anyType + `}}}`,
	}},
	{"odd", `{"const":"x","properties":7,"anyOf":{},"items":true,"required":"a","$ref":3,"type":8,"enum":9}`, sentSchemas{
		"":        `{"type":"object","properties":{"a":{}},"items":{},"required":["a"]}`,
		plain:     `{"type":"object","properties":{"a":{}},"items":{},"required":["a"]}`,
		converse:  `{"type":"object","properties":{"a":{}},"required":["a"]}`,
		moonshot:  `{"type":"object","properties":{"a":{` + anyMoon + `}},"items":{` + anyMoon + `},"required":["a"]}`,
		fireworks: `{"type":"object","properties":{"a":{` + anyType + `}},"items":{` + anyType + `},"required":["a"]}`,
	}},
}

func TestToolSchemas(t *testing.T) {
	for _, tt := range schemaCases {
		for dialect, m := range dialectModels() {
			want, ok := tt.want[dialect]
			if !ok {
				want = tt.want[""]
			}
			got, _, err := providers.ToolSchema(m.API, m, json.RawMessage(tt.in))
			if err != nil {
				t.Errorf("%s for %s: got %v", tt.name, dialect, err)
				continue
			}
			if diff := cmp.Diff(indented(t, want), indented(t, string(got))); diff != "" {
				t.Errorf("%s for %s, got %s (-want +got):\n%s", tt.name, dialect, got, diff)
			}
			if err := providertest.StrictSchema(dialect, got); err != nil {
				t.Errorf("%s for %s: got %s, which its server refuses: %v", tt.name, dialect, got, err)
			}
			again, _, err := providers.ToolSchema(m.API, m, got)
			if err != nil || string(again) != string(got) {
				t.Errorf("%s for %s, written twice: got %s, %v\nwant %s", tt.name, dialect, again, err, got)
			}
		}
	}
	if _, _, err := providers.ToolSchema("", providers.Model{}, json.RawMessage(`{"const"`)); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("of no JSON: got %v, want an error over the schema", err)
	}
}

// indented formats JSON with one value per line, preserving order.
func indented(t *testing.T, s string) string {
	t.Helper()
	var v json.RawMessage
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzToolSchema converts arbitrary schemas to every dialect. The output is valid JSON of bounded
// size.
func FuzzToolSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}],"properties":{"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}}}`,
		`{"properties":{"a":{"anyOf":[{"required":["x"]},true,false],"type":["string","object"],"enum":[1,"a",null,true,{}]}}}`,
		`{"properties":{"a":{"items":[{"const":1},true],"additionalItems":{"type":"string"}}},"anyOf":[{"anyOf":[{"required":["a"]}]}]}`,
		`{"properties":{"a":{"$ref":"#/$defs/x~1y%20z"},"b":{"$ref":"#n"},"c":{"$ref":"none"}},"$defs":{"x/y z":{"$anchor":"n","minimum":1,"exclusiveMinimum":true}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		for dialect, m := range dialectModels() {
			got, _, err := providers.ToolSchema(m.API, m, schema)
			if err != nil {
				return
			}
			if !json.Valid(got) {
				t.Fatalf("%s for %s: got %s, want JSON", schema, dialect, got)
			}
			if len(got) > 64*len(schema)+100_000 {
				t.Errorf("%s for %s: got %d bytes of %d", schema, dialect, len(got), len(schema))
			}
		}
	})
}
