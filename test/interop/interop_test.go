// Package interop_test compares parley's requests to model vendors and its decoding of their responses
// with other implementations. These are the vendors' Go SDKs, and pi-ai, the npm package from which
// the catalog is generated. It is a module of its own, so that parley depends on none of them; make
// interop runs it. docs/interoperability.md lists each difference between pi-ai and parley with its
// reason. Any other difference fails.
//
// To add a wire format, add a row to formats, a transcript to testdata, and models to subjects.
package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genai"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// format is a wire format: parley's codec and the vendor's SDK.
type format struct {
	protocol func(*http.Client) providers.Protocol
	// answer is the transcript of a response, in testdata.
	answer string
	// known decodes the body of a request with the SDK and encodes it again; nil if there is no SDK.
	// owner is the provider of the SDK.
	known func(body []byte) ([]byte, error)
	owner string
	// read calls a server with the SDK and decodes the response.
	read func(t *testing.T, baseURL string, body []byte) reading
}

func formats() map[string]format {
	type client = *http.Client
	azure := func(c client) providers.Protocol {
		return openairesponses.NewAzure(&openairesponses.Options{Client: c, Getenv: environment})
	}
	vertex := func(c client) providers.Protocol {
		return googlegenerativeai.NewVertex(&googlegenerativeai.Options{Client: c, Getenv: environment})
	}
	return map[string]format{
		anthropicmessages.API: {
			func(c client) providers.Protocol { return anthropicmessages.New(&anthropicmessages.Options{Client: c}) },
			"anthropic-messages", knownToAnthropic, "anthropic", readByAnthropic,
		},
		openaicompletions.API: {
			func(c client) providers.Protocol { return openaicompletions.New(&openaicompletions.Options{Client: c}) },
			"openai-completions", knownToChat, "openai", readByChat,
		},
		openairesponses.API: {
			func(c client) providers.Protocol { return openairesponses.New(&openairesponses.Options{Client: c}) },
			"openai-responses", knownToResponses, "openai", readByResponses,
		},
		openairesponses.APIAzure: {azure, "openai-responses", knownToResponses, "azure", nil},
		openairesponses.APICodex: {
			func(c client) providers.Protocol {
				return openairesponses.NewCodex(&openairesponses.Options{Client: c})
			},
			"openai-responses", knownToResponses, "openai-codex", nil,
		},
		googlegenerativeai.API: {
			func(c client) providers.Protocol {
				return googlegenerativeai.New(&googlegenerativeai.Options{Client: c})
			},
			"google-generative-ai", knownToGoogle(genai.BackendGeminiAPI), "google", readByGoogle,
		},
		googlegenerativeai.APIVertex: {vertex, "google-generative-ai", knownToGoogle(genai.BackendVertexAI), "google-vertex", nil},
		bedrockconverse.API: {
			func(c client) providers.Protocol {
				return bedrockconverse.New(&bedrockconverse.Options{Client: c, Getenv: environment})
			},
			"bedrock-converse-stream", knownToBedrock, "amazon-bedrock", readByBedrock,
		},
		mistralconversations.API: {
			func(c client) providers.Protocol {
				return mistralconversations.New(&mistralconversations.Options{Client: c})
			},
			"mistral-conversations", nil, "", nil,
		},
	}
}

// subject is a model and its settings.
type subject struct {
	name, model string
	level       providers.ThinkingLevel
	reg         *providers.Registration
	// generation sets Temperature, Stop and ToolChoice.
	generation providers.Options
	// alone excludes the subject from pi-ai, which supports Stop and ToolChoice in some formats only.
	alone bool
	// thoughts includes the visible reasoning of the other model in the history.
	thoughts bool
}

func subjects() []subject {
	chat, long := &providers.Registration{API: openaicompletions.API}, &providers.Registration{LongCacheRetention: true}
	return append([]subject{
		{name: "messages", model: "anthropic/claude-haiku-4-5", level: "off"},
		{name: "messages, a budget", model: "anthropic/claude-haiku-4-5", level: "medium"},
		{name: "messages, long in the cache", model: "anthropic/claude-haiku-4-5", level: "off", reg: long},
		{name: "messages, thoughts of others", model: "anthropic/claude-haiku-4-5", level: "off", thoughts: true},
		{name: "messages, adaptive", model: "anthropic/claude-opus-4-7", level: "xhigh"},
		{name: "messages, adaptive, off", model: "anthropic/claude-opus-4-7", level: "off"},
		{name: "messages, never off", model: "anthropic/claude-opus-5-5", level: "off"},
		{name: "messages of fireworks", model: "fireworks/accounts/fireworks/models/ember-1", level: "high"},
		{name: "messages of copilot", model: "github-copilot/claude-haiku-4.5", level: "low"},
		{name: "messages of a gateway", model: "vercel-ai-gateway/openai/gpt-5.2", level: "high"},
		{name: "messages of cloudflare", model: "cloudflare-ai-gateway/claude-haiku-4-5", level: "off"},
		{name: "chat", model: "openai/gpt-5.2", level: "high", reg: chat},
		{name: "chat, thoughts of others", model: "openai/gpt-5.2", level: "high", reg: chat, thoughts: true},
		{name: "chat without reasoning", model: "openai/gpt-4.1", level: "off", reg: chat},
		{name: "chat, long in the cache", model: "openai/gpt-5.2", level: "low", reg: &providers.Registration{API: openaicompletions.API, LongCacheRetention: true}},
		{name: "chat of ant-ling", model: "ant-ling/Ring-2.6-1T", level: "high"},
		{name: "chat of baseten", model: "baseten/zai-org/GLM-5.2", level: "high"},
		{name: "chat of cerebras", model: "cerebras/gpt-oss-120b", level: "low"},
		{name: "chat of cloudflare", model: "cloudflare-workers-ai/@cf/moonshotai/kimi-k2.6", level: "high"},
		{name: "chat of copilot", model: "github-copilot/gemini-3.8-flash", level: "high"},
		{name: "chat of deepseek", model: "deepseek/deepseek-v4-pro", level: "high"},
		{name: "chat of deepseek, off", model: "deepseek/deepseek-v4-pro", level: "off"},
		{name: "chat of fireworks", model: "fireworks/accounts/fireworks/models/glm-5p3", level: "high"},
		{name: "chat of groq", model: "groq/openai/gpt-oss-120b", level: "medium"},
		{name: "chat of moonshot", model: "moonshotai/kimi-k2.6", level: "high"},
		{name: "chat of nvidia", model: "nvidia/openai/gpt-oss-20b", level: "high"},
		{name: "chat of opencode", model: "opencode/glm-5", level: "high"},
		{name: "chat of openrouter", model: "openrouter/amazon/nova-2-lite-v1", level: "high"},
		{name: "chat of openrouter, off", model: "openrouter/amazon/nova-2-lite-v1", level: "off"},
		{name: "chat of openrouter, marks", model: "openrouter/anthropic/claude-haiku-4.5:batch", level: "low"},
		{name: "chat of openrouter, long marks", model: "openrouter/anthropic/claude-haiku-4.5:batch", level: "low", reg: long},
		{name: "chat of qwen", model: "qwen-token-plan/glm-5", level: "high"},
		{name: "chat of together", model: "together/deepseek-ai/DeepSeek-V4-Pro-0813", level: "high"},
		{name: "chat of xiaomi", model: "xiaomi/mimo-v2.6-pro", level: "high"},
		{name: "chat of zai", model: "zai/glm-5.2", level: "high"},
		{name: "responses", model: "openai/gpt-5.2", level: "high"},
		{name: "responses, off", model: "openai/gpt-5.2", level: "off"},
		{name: "responses without reasoning", model: "openai/gpt-4.1", level: "off"},
		{name: "responses, long in the cache", model: "openai/gpt-4.1", level: "off", reg: long},
		{name: "responses, long in the newest cache", model: "openai/gpt-5.6-luna", level: "low", reg: long},
		{name: "responses of xai", model: "xai/grok-4.3", level: "low"},
		{name: "responses of copilot", model: "github-copilot/gpt-5.3-codex", level: "off"},
		{name: "azure", model: "azure/gpt-5.2", level: "low"},
		{name: "google", model: "google/gemini-3.1-pro-preview", level: "high"},
		{name: "google, never off", model: "google/gemini-3-flash-preview", level: "off"},
		{name: "google, a budget", model: "google/gemini-2.5-flash", level: "medium"},
		{name: "google, off", model: "google/gemini-2.5-flash", level: "off"},
		{name: "google of gemma", model: "google/gemma-4-31b-it", level: "high"},
		{name: "vertex", model: "google-vertex/gemini-3.1-pro-preview", level: "low"},
		{name: "vertex, a budget", model: "google-vertex/gemini-2.5-pro", level: "high"},
		{name: "bedrock", model: "amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", level: "off"},
		{name: "bedrock, a budget", model: "amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", level: "medium"},
		{name: "bedrock, long in the cache", model: "amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", level: "off", reg: long},
		{name: "bedrock, adaptive", model: "amazon-bedrock/us.anthropic.claude-opus-4-7", level: "high"},
		// pi-ai sends reasoning back to any model, not only to Claude.
		{name: "bedrock of nova", model: "amazon-bedrock/amazon.nova-pro-v1:0", level: "off", alone: true},
		{name: "mistral", model: "mistral/mistral-large-4", level: "high"},
		{name: "mistral, off", model: "mistral/mistral-medium-latest", level: "off"},
		{name: "mistral without reasoning", model: "mistral/mistral-large-latest", level: "off"},
		{name: "codex", model: "openai-codex/gpt-5.6-luna", level: "medium"},
	}, generations()...)
}

// generations returns one model of each format, with generation settings.
func generations() (all []subject) {
	stop, weather := []string{"\n\n", "END"}, providers.ToolChoice("weather")
	for _, of := range []struct {
		model   string
		reg     *providers.Registration
		stop    []string
		choices []providers.ToolChoice
	}{
		{"anthropic/claude-haiku-4-5", nil, stop, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"openai/gpt-4.1", &providers.Registration{API: openaicompletions.API}, stop, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"openai/gpt-4.1", nil, nil, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"azure/gpt-4.1", nil, nil, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"google/gemini-2.5-flash", nil, stop, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"google-vertex/gemini-2.5-flash", nil, stop, []providers.ToolChoice{providers.ToolRequired, providers.ToolNone, weather}},
		{"amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", nil, stop, []providers.ToolChoice{providers.ToolRequired, weather}},
		{"mistral/mistral-large-latest", nil, nil, nil},
	} {
		one := subject{name: of.model + ", a temperature", model: of.model, level: "off", reg: of.reg, generation: providers.Options{Temperature: new(0.5)}}
		all = append(all, one)
		for _, choice := range of.choices {
			one.name = fmt.Sprintf("%s, tools %s", of.model, choice)
			one.generation.ToolChoice, one.generation.Stop, one.alone = choice, of.stop, true
			all = append(all, one)
		}
	}
	return all
}

const (
	key    = "sk-interop"
	system = "Answer in <b>plain</b> words."
	// token is a token of the codex subscription, whose claims name an account.
	token = "e30.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjXzEifX0.c2ln"
)

// environment has the variables that base URLs name.
func environment(name string) string {
	return map[string]string{
		"CLOUDFLARE_ACCOUNT_ID": "account", "CLOUDFLARE_GATEWAY_ID": "gateway", "AZURE_OPENAI_RESOURCE_NAME": "resource",
	}[name]
}

type exchange struct {
	Method, URL string
	Header      map[string]string
	Body        json.RawMessage
}

// vendor records requests and responds from a list. It rejects further requests.
type vendor struct {
	answers []string
	asked   []exchange
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	header := map[string]string{}
	for name := range r.Header {
		header[strings.ToLower(name)] = r.Header[name][0]
	}
	v.asked = append(v.asked, exchange{r.Method, r.URL.String(), header, body})
	resp := &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Request: r, Body: http.NoBody}
	if len(v.answers) > 0 {
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(v.answers[0]))
		resp.Header.Set("Content-Type", "text/event-stream")
		v.answers = v.answers[1:]
	}
	return resp, nil
}

// talked is the conversation of a subject with parley.
type talked struct {
	subject
	format format
	model  providers.Model
	sent   []exchange
	events []providers.Event
}

// talk calls a model, and calls it once more with the results of its tool calls.
func talk(t *testing.T, s subject) talked {
	t.Helper()
	v := &vendor{}
	reg := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin(), Getenv: environment})
	for api, f := range formats() {
		reg.RegisterProtocol(api, f.protocol(&http.Client{Transport: v}))
	}
	if provider, _, _ := strings.Cut(s.model, "/"); s.reg != nil {
		if err := reg.RegisterProvider(provider, *s.reg); err != nil {
			t.Fatal(err)
		}
	}
	m, err := reg.Resolve(s.model)
	if err != nil {
		t.Fatal(err)
	}
	out := talked{subject: s, format: formats()[m.API], model: m}
	if out.model.BaseURL, err = reg.Endpoint(m); err != nil {
		t.Fatal(err)
	}
	v.answers = []string{transcript(t, out.format.answer)}
	req := providers.Request{System: system, Tools: tools(), Messages: question(s)}
	events, failure, broken := providertest.Collect(reg.Stream(t.Context(), s.model, req, s.options()))
	if failure != nil || broken != nil {
		t.Fatalf("%s: %v, %v", s.name, failure, broken)
	}
	out.events = events
	req.Messages = append(req.Messages, providertest.MessageOf(s.model, events), results(events))
	if _, _, broken := providertest.Collect(reg.Stream(t.Context(), s.model, req, s.options())); broken != nil || len(v.asked) != 2 {
		t.Fatalf("%s: got %d requests, %v", s.name, len(v.asked), broken)
	}
	out.sent = v.asked
	return out
}

func (s subject) options() providers.Options {
	o := providers.Options{APIKey: key, SessionID: "conversation-1", MaxTokens: 5000, ThinkingLevel: s.level}
	o.Temperature, o.Stop, o.ToolChoice = s.generation.Temperature, s.generation.Stop, s.generation.ToolChoice
	if strings.HasPrefix(s.model, "openai-codex/") {
		o.APIKey = token
	}
	return o
}

func transcript(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(filepath.Join("testdata", name+".events"))
		b = []byte(framed(t, string(b)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func tools() []providers.Tool {
	return []providers.Tool{
		{Name: "weather", Description: "The weather of a city.", InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)},
		{Name: "now", Description: "The time.", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
}

// picture is a PNG of one pixel.
var picture = providers.Image{MimeType: "image/png", Content: providers.Bytes("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU")}

// question is a user message after the answer of another model.
func question(s subject) []providers.Message {
	parts := []providers.Part{providers.Text{Text: "Hello."}}
	if s.thoughts {
		parts = []providers.Part{providers.Reasoning{Text: "They greet.", Signature: "sig"}, parts[0]}
	}
	return []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "Hi"}}},
		{Role: providers.RoleAssistant, Model: "elsewhere/other", Parts: parts},
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "What is there?"}, picture}},
	}
}

// results returns the results of a response's calls: a text with a picture, and an error.
func results(events []providers.Event) providers.Message {
	out := providers.Message{Role: providers.RoleTool}
	for _, e := range events {
		if c, ok := e.(providers.ToolCallEnd); ok {
			r := providers.ToolResult{CallID: c.ID, Name: c.Name, Content: []providers.Part{providers.Text{Text: "It rains."}, picture}}
			if len(out.Parts) > 0 {
				r.Content, r.IsError = []providers.Part{providers.Text{Text: "The clock is broken."}}, true
			}
			out.Parts = append(out.Parts, r)
		}
	}
	return out
}

func everyModel() (all []providers.CatalogModel) {
	for _, p := range catalog.Builtin() {
		all = append(all, p.Models()...)
	}
	return all
}

// decoded decodes JSON to a comparable value. Numbers keep their digits.
func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("invalid JSON: %v in %s", err, raw)
	}
	return v
}
