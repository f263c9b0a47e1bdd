package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/providers"
)

// StrictSchema returns an error if a server of the dialect rejects the schema of a tool, by the
// vendor's documentation or its error responses. It shares no code with the schema writer.
func StrictSchema(d providers.SchemaDialect, schema []byte) error {
	var root map[string]any
	if err := json.Unmarshal(schema, &root); err != nil {
		return fmt.Errorf("root is not an object: %w", err)
	}
	if root["type"] != "object" || root["properties"] == nil {
		return fmt.Errorf("object schema missing properties: %s", schema)
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if root[name] != nil {
			return fmt.Errorf("schema must not have %q at the top level", name)
		}
	}
	if d == providers.SchemaConverse {
		for name := range root {
			if !slices.Contains([]string{"type", "properties", "required"}, name) {
				return fmt.Errorf("%q is not supported at the top level", name)
			}
		}
	}
	return strictSchema{d, root}.check("root", root)
}

type strictSchema struct {
	d    providers.SchemaDialect
	root map[string]any
}

// strictMembers lists the keywords of dialects that reject others.
var strictMembers = map[providers.SchemaDialect][]string{
	providers.SchemaMoonshot: {
		"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "description", "title", "default", "$ref", "$defs",
	},
	providers.SchemaOpenAPI: {
		"type", "format", "title", "description", "nullable", "default", "enum", "items", "minItems", "maxItems", "properties", "required",
		"minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
	},
}

func (s strictSchema) check(at string, v any) error {
	n, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("at %s: %v is not of type object", at, v)
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("at %s: "+format, append([]any{at}, args...)...)
	}
	for name := range n {
		if known := strictMembers[s.d]; known != nil && !slices.Contains(known, name) {
			return refuse("unknown name %q", name)
		}
	}
	if err := s.reference(n); err != nil {
		return refuse("%w", err)
	}
	if err := s.typed(n); err != nil {
		return refuse("%w", err)
	}
	properties, _ := n["properties"].(map[string]any)
	if n["type"] == "object" && n["properties"] == nil {
		return refuse("object schema missing properties")
	}
	required, _ := n["required"].([]any)
	for _, name := range required {
		if _, ok := properties[name.(string)]; !ok {
			return refuse("required %q is not defined", name)
		}
	}
	if s.d == providers.SchemaMoonshot && n["type"] == "object" && n["required"] == nil {
		return refuse("required is missing")
	}
	for _, branches := range []any{n["anyOf"], n["oneOf"], n["allOf"], n["prefixItems"]} {
		list, _ := branches.([]any)
		for i, b := range list {
			if err := s.check(fmt.Sprintf("%s.anyOf.%d", at, i), b); err != nil {
				return err
			}
		}
	}
	for _, named := range []any{n["properties"], n["$defs"], n["patternProperties"]} {
		schemas, _ := named.(map[string]any)
		for name, sub := range schemas {
			if err := s.check(at+"."+name, sub); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"items", "additionalProperties", "not", "contains"} {
		if _, isBool := n[name].(bool); n[name] == nil || isBool && name == "additionalProperties" {
			continue
		}
		if err := s.check(at+"."+name, n[name]); err != nil {
			return err
		}
	}
	return nil
}

// reference checks "$ref" and its siblings.
func (s strictSchema) reference(n map[string]any) error {
	ref, ok := n["$ref"].(string)
	if !ok {
		return nil
	}
	name, local := strings.CutPrefix(ref, "#/$defs/")
	defs, _ := s.root["$defs"].(map[string]any)
	switch {
	case ref != "#" && (!local || defs[name] == nil):
		return fmt.Errorf("unresolved reference %q", ref)
	case s.d == providers.SchemaFireworks, s.d == providers.SchemaOpenAPI, s.d == providers.SchemaConverse:
		return fmt.Errorf("error resolving schema reference %q", ref)
	case len(n) > 1 && (s.d == providers.SchemaMoonshot || s.d == providers.SchemaGemini):
		return fmt.Errorf("conflicting keywords next to $ref: %v", n)
	}
	return nil
}

// typed checks "type" and the keywords that depend on it.
func (s strictSchema) typed(n map[string]any) error {
	_, isList := n["type"].([]any)
	wants := s.d == providers.SchemaMoonshot || s.d == providers.SchemaFireworks
	values, _ := n["enum"].([]any)
	_, texts := first(values).(string)
	_, numbers := first(values).(float64)
	switch {
	case wants && n["type"] == nil && n["anyOf"] == nil && n["$ref"] == nil:
		return fmt.Errorf("type is not defined: could not understand the instance %v", n)
	case wants && n["type"] != nil && n["anyOf"] != nil:
		return fmt.Errorf("when using anyOf, type should be defined in anyOf items instead of the parent schema")
	case isList && (wants || s.d == providers.SchemaOpenAPI):
		return fmt.Errorf("type is a list")
	case n["const"] != nil && (wants || s.d == providers.SchemaGemini):
		return fmt.Errorf("unknown name const")
	case n["type"] == "array" && n["items"] == nil && !wants:
		return fmt.Errorf("array schema missing items")
	case len(values) > 0 && !texts && (!numbers || s.d == providers.SchemaOpenAPI) && s.d != providers.SchemaPlain && s.d != providers.SchemaClaude && s.d != providers.SchemaConverse:
		return fmt.Errorf("enum %v has values of other types", values)
	}
	return nil
}

func first(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// StrictVendor is a server that rejects the requests that its vendor rejects. It checks tool schemas
// by StrictSchema, unknown members of the body, and an output limit above the window minus the prompt.
// It answers all other requests.
type StrictVendor struct {
	// API is the wire format: "openai-completions", "openai-responses" or "google-generative-ai".
	API     string
	Dialect providers.SchemaDialect
	// Window is in tokens; the prompt counts one per 4 bytes of the body. 0 means no limit.
	Window int
	// MaxOutput is an additional maximum of the output limit; 0 means none.
	MaxOutput int

	mu       sync.Mutex
	refused  []string
	requests []string
}

// Refused returns the reasons of rejected requests.
func (v *StrictVendor) Refused() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.refused)
}

// Requests returns the bodies of all requests.
func (v *StrictVendor) Requests() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.requests)
}

// strictBodies lists the documented members of a request, by format.
var strictBodies = map[string][]string{
	"openai-completions": {
		"model", "messages", "stream", "stream_options", "store", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "temperature", "stop",
		"prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "thinking",
	},
	"openai-responses": {
		"model", "input", "instructions", "stream", "store", "tools", "tool_choice", "parallel_tool_calls", "include", "reasoning", "text",
		"max_output_tokens", "temperature", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
	},
	"google-generative-ai": {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"},
}

// ServeHTTP implements http.Handler.
func (v *StrictVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = v.check(body)
	}
	v.mu.Lock()
	v.requests = append(v.requests, string(body))
	if err != nil {
		v.refused = append(v.refused, err.Error())
	}
	v.mu.Unlock()
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		message, _ := json.Marshal(err.Error())
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error"}}`, message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, strictAnswers[v.API]) // the client may be gone
}

// strictAnswers are the responses "pong" in each format.
var strictAnswers = map[string]string{
	"openai-completions": `data: {"choices":[{"index":0,"delta":{"content":"pong"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	"openai-responses": `data: {"type":"response.output_item.added","output_index":0,"item":{"id":"m1","type":"message","role":"assistant","content":[]}}` + "\n\n" +
		`data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m1","delta":"pong"}` + "\n\n" +
		`data: {"type":"response.output_item.done","output_index":0,"item":{"id":"m1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"pong","annotations":[]}]}}` + "\n\n" +
		`data: {"type":"response.completed","response":{"id":"r1","status":"completed","output":[{"id":"m1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"pong","annotations":[]}]}]}}` + "\n\n",
	"google-generative-ai": `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"pong"}]},"finishReason":"STOP","index":0}]}` + "\n\n",
}

// check returns the reason to reject a request, or nil.
func (v *StrictVendor) check(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	for name := range members {
		if !slices.Contains(strictBodies[v.API], name) {
			return fmt.Errorf("unrecognized request argument supplied: %s", name)
		}
	}
	for _, schema := range v.schemas(members["tools"]) {
		if err := StrictSchema(v.Dialect, schema); err != nil {
			return fmt.Errorf("invalid schema for function: %w", err)
		}
	}
	return v.limit(len(body)/4, members)
}

// schemas returns the schemas in the tools of a request.
func (v *StrictVendor) schemas(tools json.RawMessage) (out []json.RawMessage) {
	var list []struct {
		Parameters json.RawMessage
		Function   struct{ Parameters json.RawMessage }
		Functions  []struct {
			JSONSchema json.RawMessage `json:"parametersJsonSchema"`
			Parameters json.RawMessage
		} `json:"functionDeclarations"`
	}
	_ = json.Unmarshal(tools, &list)
	for _, t := range list {
		out = append(out, t.Parameters, t.Function.Parameters)
		for _, f := range t.Functions {
			out = append(out, f.JSONSchema, f.Parameters)
		}
	}
	return slices.DeleteFunc(out, func(s json.RawMessage) bool { return s == nil })
}

func (v *StrictVendor) limit(prompt int, members map[string]json.RawMessage) error {
	var config struct{ MaxOutputTokens int }
	_ = json.Unmarshal(members["generationConfig"], &config)
	most := config.MaxOutputTokens
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		var n int
		_ = json.Unmarshal(members[name], &n)
		most = max(most, n)
	}
	switch {
	case v.Window > 0 && prompt+most > v.Window:
		return fmt.Errorf("this model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). "+
			"Please reduce the length of the messages or completion", v.Window, prompt+most, prompt, most)
	case v.MaxOutput > 0 && most > v.MaxOutput:
		return fmt.Errorf("max_tokens is too large: %d. This model supports at most %d completion tokens, whereas you provided %d", most, v.MaxOutput, most)
	}
	return nil
}
