package interop_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

type object = map[string]any

// reference is the conversation of a subject with pi-ai.
type reference struct {
	Sent []exchange
	Said struct {
		Content    []object
		Usage      piUsage
		StopReason string
		Error      string `json:"errorMessage"`
	}
}

type piUsage struct {
	Input, Output, CacheRead, CacheWrite, CacheWrite1h, Reasoning int64
	Cost                                                          piPrice
}

// piPrice is in US dollars.
type piPrice struct{ Input, Output, CacheRead, CacheWrite, Total float64 }

// ask runs pi-ai with the subjects' models and computes the costs of usages with it.
func ask(t *testing.T, cases, prices []object) (references []reference, priced []piPrice) {
	t.Helper()
	in, err := json.Marshal(object{"cases": append([]object{}, cases...), "prices": append([]object{}, prices...)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "opinion.mjs")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	cmd.Env = append(os.Environ(), "AZURE_OPENAI_RESOURCE_NAME="+environment("AZURE_OPENAI_RESOURCE_NAME"), "AZURE_OPENAI_BASE_URL=", "AWS_PROFILE=", "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED=true")
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("node opinion.mjs: %v; run make interop to install its packages", err)
	}
	var out struct {
		Cases  []reference
		Prices []piPrice
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Cases) != len(cases) || len(out.Prices) != len(prices) {
		t.Fatalf("got %d of %d cases and %d of %d prices", len(out.Cases), len(cases), len(out.Prices), len(prices))
	}
	return out.Cases, out.Prices
}

// referenceRequests returns the subjects' conversations with parley and with pi-ai.
func referenceRequests(t *testing.T) (all []talked, theirs []reference) {
	t.Helper()
	var cases []object
	for _, s := range subjects() {
		if !s.alone {
			one := talk(t, s)
			all, cases = append(all, one), append(cases, one.asCase(t))
		}
	}
	theirs, _ = ask(t, cases, nil)
	return all, theirs
}

// asCase converts a subject to pi-ai's terms: the model with all that parley knows about it.
func (s talked) asCase(t *testing.T) object {
	t.Helper()
	o, m := s.options(), s.model
	options := object{"apiKey": o.APIKey, "sessionId": o.SessionID, "maxTokens": o.MaxTokens, "transport": "sse"}
	if o.ThinkingLevel != providers.ThinkingOff {
		options["reasoning"] = o.ThinkingLevel
	}
	if o.Temperature != nil {
		options["temperature"] = *o.Temperature
	}
	if m.LongCacheRetention {
		options["cacheRetention"] = "long"
	}
	model := object{
		"id": m.ID, "name": m.ID, "api": m.API, "provider": m.Provider, "baseUrl": m.BaseURL, "reasoning": m.Reasoning,
		"input": m.Input, "cost": piCost(m.Cost), "contextWindow": m.ContextWindow, "maxTokens": m.MaxTokens, "compat": m.Compat,
	}
	if m.Thinking != nil {
		model["thinkingLevelMap"] = m.Thinking
	}
	if m.Headers != nil {
		model["headers"] = m.Headers
	}
	req := providers.Request{Tools: tools(), Messages: question(s.subject)}
	var declared []object
	for _, tool := range req.Tools {
		declared = append(declared, object{"name": tool.Name, "description": tool.Description, "parameters": tool.InputSchema})
	}
	return object{
		"model":   model,
		"context": object{"systemPrompt": system, "messages": piMessages(t, req.Messages), "tools": declared},
		"options": options, "answer": []byte(transcript(t, s.format.answer)), "results": piMessages(t, []providers.Message{results(s.events)}),
	}
}

func piCost(c providers.Cost) object {
	rates := func(r providers.Rates) object {
		return object{"input": r.Input, "output": r.Output, "cacheRead": r.CacheRead, "cacheWrite": r.CacheWrite}
	}
	out, tiers := rates(c.Rates), []object{}
	for _, tier := range c.Tiers {
		one := rates(tier.Rates)
		one["inputTokensAbove"] = tier.InputTokensAbove
		tiers = append(tiers, one)
	}
	out["tiers"] = tiers
	return out
}

func piMessages(t *testing.T, messages []providers.Message) (out []object) {
	t.Helper()
	for _, m := range messages {
		switch m.Role {
		case providers.RoleUser:
			out = append(out, object{"role": "user", "content": piParts(t, m.Parts), "timestamp": 1})
		case providers.RoleAssistant:
			provider, model, _ := strings.Cut(m.Model, "/")
			out = append(out, object{
				"role": "assistant", "content": piParts(t, m.Parts), "timestamp": 1, "api": "other", "provider": provider, "model": model,
				"stopReason": "stop", "usage": object{"cost": object{}},
			})
		case providers.RoleTool:
			for _, p := range m.Parts {
				r := p.(providers.ToolResult)
				out = append(out, object{
					"role": "toolResult", "toolCallId": r.CallID, "toolName": r.Name, "content": piParts(t, r.Content), "isError": r.IsError, "timestamp": 1,
				})
			}
		}
	}
	return out
}

func piParts(t *testing.T, parts []providers.Part) (out []object) {
	t.Helper()
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, object{"type": "text", "text": p.Text})
		case providers.Reasoning:
			out = append(out, object{"type": "thinking", "thinking": p.Text, "thinkingSignature": p.Signature})
		case providers.Image:
			out = append(out, object{"type": "image", "mimeType": p.MimeType, "data": base64.StdEncoding.EncodeToString(p.Content.(providers.Bytes))})
		default:
			t.Fatalf("unknown part %T", p)
		}
	}
	return out
}

// difference is a member of a request that both write differently.
type difference struct{ api, place, ours, theirs string }

// absent marks a missing member.
const absent = "—"

// TestSecondOpinion compares the requests of pi-ai and parley to the same models in the same
// conversation. Differences must be listed in docs/interoperability.md, and each listed one must
// occur.
func TestSecondOpinion(t *testing.T) {
	all, references := referenceRequests(t)
	listed := pageOfDifferences(t)
	for i, s := range all {
		if len(references[i].Sent) != len(s.sent) {
			t.Errorf("%s: pi-ai made %d requests with error %q", s.name, len(references[i].Sent), references[i].Said.Error)
			continue
		}
		for turn := range s.sent {
			for _, d := range differences(t, s.model.API, s.sent[turn], references[i].Sent[turn]) {
				if !explained(listed, d) {
					t.Errorf("%s, request %d: %s\n parley %.300s\n pi-ai  %.300s", s.name, turn+1, d.place, d.ours, d.theirs)
				}
			}
		}
	}
	for _, row := range listed {
		if !row.met {
			t.Errorf("difference of docs/interoperability.md does not occur: %s", row.text)
		}
	}
}

// differences compares two requests. It ignores headers of HTTP clients, but not those that identify
// the application.
func differences(t *testing.T, api string, ours, theirs exchange) (out []difference) {
	t.Helper()
	a, b := flat(t, ours), flat(t, theirs)
	places := maps.Clone(a)
	maps.Copy(places, b)
	for _, place := range slices.Sorted(maps.Keys(places)) {
		x, y := a[place], b[place]
		if x == "" {
			x = absent
		}
		if y == "" {
			y = absent
		}
		if x != y {
			out = append(out, difference{api, place, x, y})
		}
	}
	return out
}

// flat returns a request as a map from paths to JSON.
func flat(t *testing.T, e exchange) map[string]string {
	t.Helper()
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"url": e.Method + " " + u.Scheme + "://" + u.Host + u.EscapedPath()}
	for name, values := range u.Query() {
		out["query "+name] = values[0]
	}
	for name, value := range e.Header {
		switch {
		case slices.Contains([]string{"accept", "accept-encoding", "content-length", "content-type", "connection", "accept-language", "sec-fetch-mode", "host", "x-amz-user-agent"}, name),
			strings.HasPrefix(name, "x-stainless-"), strings.HasPrefix(name, "amz-sdk-"):
		default:
			out["header "+name] = value
		}
	}
	flatten(out, "", plainer(decoded(t, e.Body)))
	return out
}

func flatten(out map[string]string, place string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			out[place] = "{}"
		}
		for name, inner := range v {
			flatten(out, strings.TrimPrefix(place+"."+name, "."), inner)
		}
	case []any:
		if len(v) == 0 {
			out[place] = "[]"
		}
		for i, inner := range v {
			flatten(out, fmt.Sprintf("%s[%d]", place, i), inner)
		}
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err) // the value was decoded from JSON
		}
		out[place] = string(raw)
	}
}

// plainer normalizes alternatives of a format: a text may be a list with one text, and arguments are
// JSON within a string.
func plainer(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			text, ok := inner.(string)
			var parsed any
			switch {
			case ok && name == "content":
				inner = []any{object{"type": "text", "text": text}}
			case ok && name == "arguments" && json.Unmarshal([]byte(text), &parsed) == nil:
				inner = parsed
			}
			v[name] = plainer(inner)
		}
	case []any:
		for i := range v {
			v[i] = plainer(v[i])
		}
	}
	return v
}

type row struct {
	text, ours, theirs string
	api, place         *regexp.Regexp
	met                bool
}

// pageOfDifferences reads the table of docs/interoperability.md. In a format or place, * matches
// anything and [] any index. A value in quotes matches itself, "something" any value that is present.
func pageOfDifferences(t *testing.T) (rows []*row) {
	t.Helper()
	page, err := os.ReadFile("../../docs/interoperability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "\n| format | place | parley | pi-ai | why |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/interoperability.md has no table of differences")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |"), " | ")
		if len(cells) != 5 {
			break // end of the table
		}
		rows = append(rows, &row{
			text: strings.TrimSpace(line), api: pattern(cells[0]), place: pattern(cells[1]), ours: cells[2], theirs: cells[3],
		})
	}
	return rows
}

func pattern(cell string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.Trim(cell, "`"))
	quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\[\]`, `\[\d+\]`), `\*`, `.*`)
	return regexp.MustCompile("^" + quoted + "$")
}

// explained reports whether a difference is listed.
func explained(listed []*row, d difference) (ok bool) {
	for _, r := range listed {
		if r.api.MatchString(d.api) && r.place.MatchString(d.place) && matches(r.ours, d.ours) && matches(r.theirs, d.theirs) {
			r.met, ok = true, true
		}
	}
	return ok
}

func matches(cell, value string) bool {
	switch {
	case cell == "something":
		return value != absent
	case cell == absent:
		return value == absent
	}
	return cell == "`"+value+"`"
}
