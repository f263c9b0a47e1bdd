package interop_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// again decodes a request to a type of an SDK and encodes it again.
func again[T any](body []byte) ([]byte, error) {
	var params T
	if err := json.Unmarshal(body, &params); err != nil {
		return nil, err
	}
	return json.Marshal(params)
}

func knownToAnthropic(body []byte) ([]byte, error) { return again[anthropic.MessageNewParams](body) }

// knownToChat decodes the tool choice separately, because the SDK picks the first of its types, which
// has no name.
func knownToChat(body []byte) ([]byte, error) {
	return apart("tool_choice", isObject, again[openai.ChatCompletionNamedToolChoiceParam], again[openai.ChatCompletionNewParams])(body)
}

func isObject(raw []byte) bool { return raw[0] == '{' }

// apart decodes a member separately if is reports true, because the SDK cannot detect its type, and
// the rest without it.
func apart(name string, is func([]byte) bool, known, rest func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
		member, ok := members[name]
		if !ok || !is(member) {
			return rest(body)
		}
		delete(members, name)
		body, err := json.Marshal(members)
		if err != nil {
			return nil, err
		}
		if body, err = rest(body); err != nil {
			return nil, err
		}
		if member, err = known(member); err != nil {
			return nil, err
		}
		members = nil
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
		members[name] = member
		return json.Marshal(members)
	}
}

// knownToResponses decodes the tool choice and each item separately.
func knownToResponses(body []byte) ([]byte, error) {
	whole := apart("tool_choice", isObject, again[responses.ToolChoiceFunctionParam], again[responses.ResponseNewParams])
	return apart("input", func([]byte) bool { return true }, knownItems, whole)(body)
}

// knownItems decodes items by type. The SDK would lose items without a type and messages, whose type
// it cannot detect.
func knownItems(body []byte) ([]byte, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(body, &items); err != nil {
		return nil, err
	}
	for i, item := range items {
		var head struct{ Type, Role string }
		if err := json.Unmarshal(item, &head); err != nil {
			return nil, err
		}
		known := again[responses.ResponseInputItemUnionParam]
		switch {
		case head.Role == "assistant":
			known = again[responses.ResponseOutputMessageParam]
		case head.Role != "":
			known = again[responses.EasyInputMessageParam]
		}
		var err error
		if items[i], err = known(item); err != nil {
			return nil, err
		}
		// The SDK encodes empty ids.
		items[i] = bytes.Replace(items[i], []byte(`"id":"",`), nil, 1)
	}
	return json.Marshal(items)
}

// TestSDKsKnowRequests verifies that a vendor's SDK decodes requests and encodes them unchanged. It
// would drop unknown members.
func TestSDKsKnowRequests(t *testing.T) {
	compared := map[string]int{}
	for _, s := range subjects() {
		one := talk(t, s)
		if one.model.Provider != one.format.owner {
			continue
		}
		for turn, e := range one.sent {
			back, err := one.format.known(e.Body)
			if err != nil {
				t.Errorf("%s, request %d: %v", s.name, turn+1, err)
				continue
			}
			want, got := map[string]string{}, map[string]string{}
			flatten(want, "", decoded(t, e.Body))
			flatten(got, "", decoded(t, back))
			// The SDK's method sets the first. The second comes from the transcript, which the vendor
			// does not send. The others are optional and have no effect.
			delete(want, "stream")
			delete(want, "messages[4].reasoning_content")
			delete(got, "systemInstruction.role")
			maps.DeleteFunc(want, func(place, v string) bool { return v == "{}" && strings.HasSuffix(place, ".functionCall.args") })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, request %d (-parley +SDK):\n%s", s.name, turn+1, diff)
			}
			compared[one.model.API]++
		}
	}
	for api, f := range formats() {
		if f.known != nil && compared[api] == 0 {
			t.Errorf("%s: got no request to compare", api)
		}
	}
}

type reading struct {
	Text, Thinking string
	Calls          []string // name and arguments
	Stop           providers.StopReason
	Prompt, Cached int64 // tokens; Prompt includes Cached
	Output         int64
}

func compact(t *testing.T, name string, arguments []byte) string {
	t.Helper()
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	raw, err := json.Marshal(decoded(t, arguments))
	if err != nil {
		t.Fatal(err)
	}
	return name + " " + string(raw)
}

func readByUs(t *testing.T, events []providers.Event) (r reading) {
	t.Helper()
	for _, e := range events {
		switch e := e.(type) {
		case providers.TextDelta:
			r.Text += e.Text
		case providers.ReasoningDelta:
			r.Thinking += e.Text
		case providers.ToolCallEnd:
			r.Calls = append(r.Calls, compact(t, e.Name, e.Arguments))
		case providers.Done:
			u := e.Usage
			r.Stop, r.Prompt, r.Cached, r.Output = e.StopReason, u.Input+u.CacheRead+u.CacheWrite, u.CacheRead, u.Output
		}
	}
	return r
}

func readByAnthropic(t *testing.T, base string, body []byte) (r reading) {
	t.Helper()
	client := anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey(key), anthropicoption.WithMaxRetries(0))
	var params anthropic.MessageNewParams
	if err := json.Unmarshal(body, &params); err != nil {
		t.Fatal(err)
	}
	stream, message := client.Messages.NewStreaming(t.Context(), params), anthropic.Message{}
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	for _, b := range message.Content {
		r.Text, r.Thinking = r.Text+b.Text, r.Thinking+b.Thinking
		if b.Type == "tool_use" {
			r.Calls = append(r.Calls, compact(t, b.Name, b.Input))
		}
	}
	u := message.Usage
	r.Prompt, r.Cached, r.Output = u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens
	r.Stop = map[anthropic.StopReason]providers.StopReason{
		anthropic.StopReasonEndTurn: providers.StopStop, anthropic.StopReasonToolUse: providers.StopToolUse,
		anthropic.StopReasonMaxTokens: providers.StopLength, anthropic.StopReasonRefusal: providers.StopContentFilter,
	}[message.StopReason]
	return r
}

func readByChat(t *testing.T, base string, body []byte) (r reading) {
	t.Helper()
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	var params openai.ChatCompletionNewParams
	if err := json.Unmarshal(body, &params); err != nil {
		t.Fatal(err)
	}
	stream, all := client.Chat.Completions.NewStreaming(t.Context(), params), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		chunk := stream.Current()
		if !all.AddChunk(chunk) {
			t.Fatalf("SDK rejects %s", chunk.RawJSON())
		}
		for _, c := range chunk.Choices { // extensions of other servers
			var delta struct {
				Reasoning string `json:"reasoning_content"`
			}
			if err := json.Unmarshal([]byte(c.Delta.RawJSON()), &delta); err != nil {
				t.Fatal(err)
			}
			r.Thinking += delta.Reasoning
		}
	}
	if err := stream.Err(); err != nil || len(all.Choices) != 1 {
		t.Fatalf("got %d choices, %v", len(all.Choices), err)
	}
	choice := all.Choices[0]
	r.Text = choice.Message.Content
	for _, c := range choice.Message.ToolCalls {
		r.Calls = append(r.Calls, compact(t, c.Function.Name, []byte(c.Function.Arguments)))
	}
	r.Prompt, r.Cached, r.Output = all.Usage.PromptTokens, all.Usage.PromptTokensDetails.CachedTokens, all.Usage.CompletionTokens
	r.Stop = map[string]providers.StopReason{
		"stop": providers.StopStop, "tool_calls": providers.StopToolUse, "length": providers.StopLength, "content_filter": providers.StopContentFilter,
	}[choice.FinishReason]
	return r
}

func readByResponses(t *testing.T, base string, body []byte) (r reading) {
	t.Helper()
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	stream := client.Responses.NewStreaming(t.Context(), param.Override[responses.ResponseNewParams](json.RawMessage(body)))
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.output_text.delta":
			r.Text += e.Delta
		case "response.reasoning_summary_text.delta":
			r.Thinking += e.Delta
		case "response.output_item.done":
			if e.Item.Type == "function_call" {
				r.Calls = append(r.Calls, compact(t, e.Item.Name, []byte(e.Item.AsFunctionCall().Arguments)))
			}
		case "response.completed", "response.incomplete":
			u := e.Response.Usage
			r.Prompt, r.Cached, r.Output = u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens
			r.Stop = map[string]providers.StopReason{
				"": providers.StopStop, "max_output_tokens": providers.StopLength, "content_filter": providers.StopContentFilter,
			}[e.Response.IncompleteDetails.Reason]
			if r.Stop == providers.StopStop && len(r.Calls) > 0 { // the format has no stop reason of its own for calls
				r.Stop = providers.StopToolUse
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSDKsReadStreams compares an SDK's decoding with parley's, for streams of the fake model and for
// transcripts.
func TestSDKsReadStreams(t *testing.T) {
	model := httptest.NewServer(fakemodel.New(nil))
	defer model.Close()
	scripts := []string{
		"Hello there", "tokens=40", `reasoning=5 say="größer \"als\" nichts"`, `say="I look." tool=weather {"city":"Rome"} tool=now`,
		"reasoning=2 tool=now {}", "tokens=9 finish=length", "tokens=2 finish=filter",
	}
	for api, f := range formats() {
		if f.read == nil {
			continue
		}
		stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(transcript(t, f.answer)))
		}))
		t.Run(api+"/transcript", func(t *testing.T) { readAlike(t, api, f, stub.URL, "Hi") })
		stub.Close()
		base, speaks := map[string]string{
			"openai-completions": model.URL + "/v1", "openai-responses": model.URL + "/v1", "anthropic-messages": model.URL, "google-generative-ai": model.URL + "/v1beta",
			"bedrock-converse-stream": model.URL + "/bedrock",
		}[api]
		for _, script := range scripts {
			if speaks {
				t.Run(api+"/"+script, func(t *testing.T) { readAlike(t, api, f, base, script) })
			}
		}
	}
}

// readAlike calls a server with parley and with an SDK.
func readAlike(t *testing.T, api string, f format, base, text string) {
	t.Helper()
	asked := &recorder{next: http.DefaultTransport}
	p := f.protocol(&http.Client{Transport: asked})
	m := providers.Model{Provider: "p", ID: "m", API: api, BaseURL: base, Reasoning: true}
	req := providers.Request{System: system, Tools: tools(), Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}}}
	events, failure, broken := providertest.Collect(p.Stream(t.Context(), m, req, providers.Options{APIKey: key, MaxTokens: 4000}))
	if failure != nil || broken != nil {
		t.Fatalf("%v, %v", failure, broken)
	}
	ours, theirs := readByUs(t, events), f.read(t, base, asked.body)
	if diff := cmp.Diff(ours, theirs); diff != "" {
		t.Errorf("(-parley +SDK):\n%s", diff)
	}
	if ours.Text+ours.Thinking+strings.Join(ours.Calls, "") == "" || ours.Output == 0 {
		t.Errorf("got an empty response: %+v", ours)
	}
}

// recorder is an http.RoundTripper that records the latest request body.
type recorder struct {
	next http.RoundTripper
	body []byte
}

func (l *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	v := &vendor{}
	copied := r.Clone(r.Context())
	if _, err := v.RoundTrip(copied); err != nil {
		return nil, err
	}
	l.body = v.asked[0].Body
	again, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = again
	return l.next.RoundTrip(r)
}

// TestReadAlike compares pi-ai's decoding of a response and its cost with parley's.
func TestReadAlike(t *testing.T) {
	all, references := referenceRequests(t)
	for i, s := range all {
		parts := references[i].Said
		done := s.events[len(s.events)-1].(providers.Done)
		if s.model.API == openairesponses.APIAzure {
			done.PriceFactor = 0 // pi-ai ignores tiers there
		}
		u, price := done.Usage, s.model.Cost.PriceOf(done)
		ours := piUsage{u.Input, u.Output, u.CacheRead, u.CacheWrite, done.CacheWriteHour, u.Reasoning, piPrice(price)}
		if s.model.API == "anthropic-messages" {
			ours.Reasoning = parts.Usage.Reasoning // not in the transcript
		}
		if diff := cmp.Diff(ours, parts.Usage); diff != "" {
			t.Errorf("%s, usage (-parley +pi-ai):\n%s", s.name, diff)
		}
		if want := map[string]providers.StopReason{"stop": "stop", "length": "length", "toolUse": providers.StopToolUse}[parts.StopReason]; done.StopReason != want {
			t.Errorf("%s: got stop reason %s, pi-ai got %s", s.name, done.StopReason, parts.StopReason)
		}
		if diff := cmp.Diff(ourParts(t, s), theirParts(t, parts.Content)); diff != "" {
			t.Errorf("%s, parts (-parley +pi-ai):\n%s", s.name, diff)
		}
	}
}

func ourParts(t *testing.T, s talked) (out []string) {
	t.Helper()
	for _, p := range providertest.MessageOf(s.subject.model, s.events).Parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, "text "+p.Text)
		case providers.Reasoning:
			out = append(out, "thinking "+p.Text)
		case providers.ToolCall:
			out = append(out, compact(t, p.Name, p.Arguments))
		}
	}
	return out
}

func theirParts(t *testing.T, content []object) (out []string) {
	t.Helper()
	for _, p := range content {
		switch p["type"] {
		case "text":
			if p["text"] != "" { // parley keeps non-empty texts
				out = append(out, "text "+p["text"].(string))
			}
		case "thinking":
			text := p["thinking"].(string)
			if p["redacted"] == true { // pi-ai has a placeholder
				text = ""
			}
			out = append(out, "thinking "+text)
		case "toolCall":
			raw, err := json.Marshal(p["arguments"])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, compact(t, p["name"].(string), raw))
		}
	}
	return out
}

// TestSamePrices compares costs by each price list of the catalog with pi-ai, to the last digit.
func TestSamePrices(t *testing.T) {
	lists := map[string]providers.Cost{}
	for _, m := range everyModel() {
		raw, err := json.Marshal(m.Cost)
		if err != nil {
			t.Fatal(err)
		}
		lists[string(raw)] = m.Cost
	}
	var ours []providers.Price
	var asked []object
	for _, list := range slices.Sorted(maps.Keys(lists)) {
		c := lists[list]
		prompts := []int64{7, 1999, 123_457}
		for _, tier := range c.Tiers {
			prompts = append(prompts, tier.InputTokensAbove, tier.InputTokensAbove+1)
		}
		for _, n := range prompts {
			for _, d := range []providers.Done{
				{Usage: providers.Usage{Input: n, Output: 1234}},
				{Usage: providers.Usage{Input: n / 3, CacheRead: n / 3, CacheWrite: n - 2*(n/3), Output: 3}, CacheWriteHour: n / 5},
			} {
				ours = append(ours, c.PriceOf(d))
				u := d.Usage
				asked = append(asked, object{"cost": piCost(c), "usage": object{
					"input": u.Input, "output": u.Output, "cacheRead": u.CacheRead, "cacheWrite": u.CacheWrite, "cacheWrite1h": d.CacheWriteHour,
				}})
			}
		}
	}
	_, theirs := ask(t, nil, asked)
	for i := range ours {
		if piPrice(ours[i]) != theirs[i] {
			t.Errorf("%v: got %+v, pi-ai got %+v", asked[i], ours[i], theirs[i])
		}
	}
	if len(ours) < 2000 {
		t.Errorf("got %d prices, want more", len(ours))
	}
}
