package openairesponses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
)

const (
	// minOutput is the smallest output limit that the vendor accepts, in tokens.
	minOutput = 16
	// maxCallID is the maximum length in bytes of a call id that the vendor accepts.
	maxCallID        = 64
	includeEncrypted = "reasoning.encrypted_content"
	noOutput         = "(no output)"
)

type body struct {
	Model             string           `json:"model"`
	Instructions      string           `json:"instructions,omitempty"`
	Tools             []tool           `json:"tools,omitempty"`
	ToolChoice        any              `json:"tool_choice,omitempty"`
	ParallelToolCalls bool             `json:"parallel_tool_calls,omitempty"`
	Input             json.RawMessage  `json:"input"`
	Stream            bool             `json:"stream"`
	Store             bool             `json:"store"`
	Include           []string         `json:"include,omitempty"`
	Reasoning         *reasoningOption `json:"reasoning,omitempty"`
	Text              *textOptions     `json:"text,omitempty"`
	MaxOutputTokens   int              `json:"max_output_tokens,omitempty"`
	Temperature       *float64         `json:"temperature,omitempty"`
	PromptCacheKey    string           `json:"prompt_cache_key,omitempty"`
	PromptCacheKept   string           `json:"prompt_cache_retention,omitempty"`
	PromptCache       *cacheOptions    `json:"prompt_cache_options,omitempty"`

	system *inputItem // first item of Input, nil for none
}

type reasoningOption struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// cacheOptions sets the minimum retention of a cached prompt, "30m" (default) or "12h".
type cacheOptions struct {
	TTL string `json:"ttl"`
}

type textOptions struct {
	Verbosity string `json:"verbosity"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	// Strict is always sent, because its default is not false.
	Strict *bool `json:"strict"`
}

// named names the tool that must be called.
type named struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// inputItem is one item of the input. Its type determines the members.
type inputItem struct {
	Type      string   `json:"type,omitempty"`
	Role      string   `json:"role,omitempty"`
	Status    string   `json:"status,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	Content   any      `json:"content,omitempty"` // a string or []contentPart
	Summary   *[]piece `json:"summary,omitempty"`
	Encrypted string   `json:"encrypted_content,omitempty"`
	CallID    string   `json:"call_id,omitempty"`
	Name      string   `json:"name,omitempty"`
	Arguments *string  `json:"arguments,omitempty"`
	Output    any      `json:"output,omitempty"` // a string or []contentPart
}

type contentPart struct {
	Type        string    `json:"type"`
	Text        *string   `json:"text,omitempty"`
	Annotations *[]string `json:"annotations,omitempty"`
	Detail      string    `json:"detail,omitempty"`
	ImageURL    string    `json:"image_url,omitempty"`
}

// piece is a paragraph of reasoning.
type piece struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	header := http.Header{}
	path, err := c.address(m, o, header)
	if err != nil {
		return nil, err
	}
	if len(o.Stop) > 0 {
		return nil, fmt.Errorf("models of %s do not support stop sequences; remove them", m.API)
	}
	providers.SetCopilot(header, m, req)
	b := &body{Model: m.ID, Stream: true}
	tools, err := providers.SentTools(API, m, req.Tools)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		b.Tools = append(b.Tools, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.InputSchema, Strict: new(false)})
	}
	if name := o.ToolChoice.Tool(); name != "" && len(b.Tools) > 0 {
		b.ToolChoice = named{"function", name}
	} else if o.ToolChoice != providers.ToolAuto && len(b.Tools) > 0 {
		b.ToolChoice = o.ToolChoice
	}
	if o.MaxTokens > 0 && m.Compat.SupportsMaxOutputTokens.Or(true) {
		b.MaxOutputTokens = max(o.MaxTokens, minOutput)
	}
	if m.Compat.PromptCacheKeyMode != "disabled" {
		b.PromptCacheKey = providers.SessionKey(o)
	}
	if !m.Reasoning {
		b.Temperature = o.Temperature
	} else {
		b.Include = []string{includeEncrypted}
		b.Reasoning = thinking(m, o.ThinkingLevel)
	}
	c.finish(b, m, req, o)
	input, err := b.encodeInput(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b.Input = e.Place(input...)
	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	return &providers.Call{Path: path, Header: header, Body: encoded}, nil
}

// thinking returns the reasoning option of a level, nil for none.
func thinking(m providers.Model, level providers.ThinkingLevel) *reasoningOption {
	if level == "" || !m.Compat.SupportsReasoningEffort.Or(true) {
		return nil
	}
	word, ok := m.Thinking.Word(level)
	if !ok {
		return nil
	}
	if level != providers.ThinkingOff {
		return &reasoningOption{Effort: word, Summary: "auto"}
	}
	if m.Provider == providers.Copilot {
		return nil // the model has no value for no thinking
	}
	if _, listed := m.Thinking[level]; !listed {
		word = "none"
	}
	return &reasoningOption{Effort: word}
}

// systemFirst sets the system prompt as the first item.
func (b *body) systemFirst(m providers.Model, req providers.Request) {
	if req.System == "" {
		return
	}
	role := "system"
	if m.Reasoning && m.Compat.SupportsDeveloperRole.Or(true) {
		role = "developer"
	}
	b.system = &inputItem{Role: role, Content: req.System}
}

// fragment is a run of encoded items without the brackets of an array, nil if there are none.
type fragment struct{ text *providers.Body }

// encodeInput returns the pieces of the items array.
func (b *body) encodeInput(m providers.Model, req providers.Request) ([]*providers.Body, error) {
	var first []inputItem
	if b.system != nil {
		first = append(first, *b.system)
	}
	f, err := newFragment(first, nil)
	if err != nil {
		return nil, err
	}
	fragments := append(make([]fragment, 0, len(req.History)+2), f)
	for _, block := range req.History {
		f, err := providers.EncodeBlock(block, m, func(fragment) bool { return true }, encodeBlock)
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	if f, err = newFragment(nil, req.Messages); err != nil {
		return nil, err
	}
	return join(append(fragments, f)), nil
}

func encodeBlock(messages []providers.Message) (fragment, int64, error) {
	f, err := newFragment(nil, messages)
	if err != nil || f.text == nil {
		return f, 0, err
	}
	return f, f.text.TextBytes(), nil
}

// newFragment encodes messages and appends their items to out.
func newFragment(out []inputItem, in []providers.Message) (fragment, error) {
	var e providers.BodyEncoder
	for _, msg := range in {
		switch msg.Role {
		case providers.RoleUser:
			out = append(out, inputItem{Role: "user", Content: encodeContent(msg.Parts, &e)})
		case providers.RoleAssistant:
			out = append(out, encodeAssistant(msg.Parts)...)
		case providers.RoleTool:
			out = append(out, encodeResults(msg.Parts, &e)...)
		}
	}
	if len(out) == 0 {
		return fragment{}, nil
	}
	text, err := e.Encode(out)
	if err != nil {
		return fragment{}, err
	}
	return fragment{text.Inner(len("["), len("]\n"))}, nil
}

// join concatenates fragments to one array.
func join(fragments []fragment) []*providers.Body {
	out := make([]*providers.Body, 1, 2*len(fragments)+2)
	out[0] = providers.NewBody("[")
	comma := providers.NewBody(",")
	for _, f := range fragments {
		if f.text == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, comma)
		}
		out = append(out, f.text)
	}
	return append(out, providers.NewBody("]"))
}

// encodeAssistant returns the items of a reply in their order. Consecutive texts are one message, up
// to a signature. Reasoning is emitted with the item that follows it, because the vendor rejects it
// alone.
func encodeAssistant(parts []providers.Part) []inputItem {
	var out, thoughts []inputItem
	var assistant *inputItem // current message
	var text string
	flush := func(phase string) {
		if assistant != nil && text != "" {
			assistant.Phase = phase
			assistant.Content = []contentPart{{Type: "output_text", Text: new(text), Annotations: &[]string{}}}
			out = append(append(out, thoughts...), *assistant)
			thoughts = nil
		}
		assistant, text = nil, ""
	}
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if assistant == nil {
				assistant = &inputItem{Type: itemMessage, Role: "assistant", Status: "completed"}
			}
			text += p.Text
			if phase, ok := phaseOf(p.Signature); ok {
				flush(phase)
			}
		case providers.Reasoning:
			flush("")
			if item, ok := reasoningItem(p); ok {
				thoughts = append(thoughts, item)
			}
		case providers.ToolCall:
			flush("")
			arguments := string(p.Arguments)
			out = append(append(out, thoughts...), inputItem{Type: itemCall, CallID: callID(p.ID), Name: p.Name, Arguments: &arguments})
			thoughts = nil
		}
	}
	flush("")
	return out
}

// callID returns the id of a call in the request, the same for call and result.
func callID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:20])
}

func encodeResults(parts []providers.Part, e *providers.BodyEncoder) []inputItem {
	var out []inputItem
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		content := encodeContent(r.Content, e)
		if r.IsError {
			content = append([]contentPart{{Type: inputText, Text: new("Error: ")}}, content...)
		}
		out = append(out, inputItem{Type: itemResult, CallID: callID(r.CallID), Output: output(content)})
	}
	return out
}

// output returns a text, or parts if there are images.
func output(content []contentPart) any {
	var text strings.Builder
	for _, c := range content {
		if c.Type != inputText {
			return content
		}
		text.WriteString(*c.Text)
	}
	if text.Len() == 0 {
		return noOutput
	}
	return text.String()
}

// Types of parts of the input.
const (
	inputText  = "input_text"
	inputImage = "input_image"
)

func encodeContent(parts []providers.Part, e *providers.BodyEncoder) []contentPart {
	var out []contentPart
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, contentPart{Type: inputText, Text: &p.Text})
		case providers.Image:
			out = append(out, contentPart{Type: inputImage, Detail: "auto", ImageURL: "data:" + p.MimeType + ";base64," + e.Base64(p)})
		}
	}
	return out
}
