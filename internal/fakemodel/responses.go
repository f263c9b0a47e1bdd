package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responses is a variant of the responses format, by its path. They differ in their keys, in
// what they refuse, and in the form of errors. Models that end with "-codex" have phases.
type responses string

const (
	openAI responses = "/v1/responses"
	azure  responses = "/openai/v1/responses"
	codex  responses = "/backend-api/codex/responses"
)

// Types of items.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemResult    = "function_call_output"
)

// responsesCall has all members that the vendor takes of ours: it refuses others.
type responsesCall struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        []responsesItem `json:"input"`
	Tools        []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Parallel   bool            `json:"parallel_tool_calls"`
	Stream     bool            `json:"stream"`
	Store      bool            `json:"store"`
	Include    []string        `json:"include"`
	Reasoning  *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Text struct {
		Verbosity string `json:"verbosity"`
	} `json:"text"`
	MaxTokens   int      `json:"max_output_tokens"`
	Temperature *float64 `json:"temperature"`
	CacheKey    string   `json:"prompt_cache_key"`
	CacheKept   string   `json:"prompt_cache_retention"`
	Cache       struct {
		TTL string `json:"ttl"`
	} `json:"prompt_cache_options"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Status    string          `json:"status"`
	Phase     string          `json:"phase"`
	Content   json.RawMessage `json:"content"`
	Summary   []responsesPart `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

type responsesPart struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	Annotations []string `json:"annotations"`
	Detail      string   `json:"detail"`
	ImageURL    string   `json:"image_url"`
}

func (f responses) key(h http.Header) string {
	switch f {
	case azure:
		return h.Get("Api-Key")
	case codex: // its tokens are an account's
		return h.Get("Chatgpt-Account-Id")
	}
	return bearer(h)
}

func (f responses) decode(body []byte) (*prompt, error) {
	var c responsesCall
	if err := strictly(body, &c); err != nil {
		return nil, err
	}
	if err := f.refuse(&c); err != nil {
		return nil, err
	}
	p := &prompt{model: c.Model, system: c.Instructions, stream: c.Stream, maxTokens: c.MaxTokens}
	if c.Reasoning != nil {
		p.effort = c.Reasoning.Effort
	}
	for _, t := range c.Tools {
		p.tools = append(p.tools, t.Name)
	}
	for i, item := range c.Input {
		var err error
		if item.Type == itemReasoning && (i+1 == len(c.Input) || !c.Input[i+1].said()) {
			err = errors.New("item of type 'reasoning' was provided without its required following item")
		} else {
			err = p.addItem(f, item)
		}
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
	}
	return p, nil
}

// refuse says no to what a variant does not take.
func (f responses) refuse(c *responsesCall) error {
	switch {
	case c.MaxTokens != 0 && f == codex:
		return errors.New("unsupported parameter: max_output_tokens")
	case c.MaxTokens != 0 && c.MaxTokens < 16:
		return errors.New("max_output_tokens: integer below minimum value 16")
	case c.Store && f == codex:
		return errors.New("store must be set to false")
	case !c.Stream && f == codex:
		return errors.New("stream must be set to true")
	case c.Instructions == "" && f == codex:
		return errors.New("instructions are required")
	case len(c.CacheKey) > 64:
		return errors.New("prompt_cache_key: string too long")
	case c.Reasoning != nil && c.Temperature != nil:
		return errors.New("unsupported parameter: 'temperature' is not supported with this model")
	case c.Reasoning != nil && !slices.Contains(c.Include, "reasoning.encrypted_content"):
		return errors.New("include lacks reasoning.encrypted_content: the reasoning would be lost")
	}
	return nil
}

// said reports whether an item is the model's.
func (item responsesItem) said() bool {
	return item.Role == sideAssistant || item.Type == itemReasoning || item.Type == itemCall
}

// addItem makes a turn of an item. The model's items in a row are one.
func (p *prompt) addItem(f responses, item responsesItem) error {
	t := &turn{side: item.Role}
	switch n := len(p.turns); {
	case !item.said():
	case n > 0 && p.turns[n-1].side == sideAssistant:
		t = &p.turns[n-1]
	default:
		p.turns = append(p.turns, turn{side: sideAssistant})
		t = &p.turns[n]
	}
	switch item.Type {
	case itemReasoning:
		return p.checkThought(item)
	case itemCall:
		if len(item.CallID) > 64 || !json.Valid([]byte(item.Arguments)) {
			return fmt.Errorf("call_id %q is too long, or its arguments are not JSON", item.CallID)
		}
		t.calls = append(t.calls, call{item.CallID, item.Name, item.Arguments})
		return nil
	case itemResult:
		t.side, t.result, item.Content = sideTool, item.CallID, item.Output
	case "", itemMessage:
		if err := p.checkMessage(f, item); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown type %q of an item", item.Type)
	}
	err := t.addInput(item.Content)
	switch {
	case t.side == "system" || t.side == "developer":
		p.system += strings.Join(t.texts, "\n")
	case t.side != sideAssistant:
		p.turns = append(p.turns, *t)
	}
	return err
}

func (p *prompt) checkThought(item responsesItem) error {
	var text string
	for _, part := range item.Summary {
		text += part.Text
	}
	if item.Encrypted != p.encrypt(text) {
		return errors.New("invalid_encrypted_content: the encrypted content could not be verified")
	}
	return nil
}

// encrypt stands for reasoning that its model alone can read.
func (p *prompt) encrypt(thoughts string) string { return sign(p.model + " " + thoughts) }

func (p *prompt) checkMessage(f responses, item responsesItem) error {
	switch item.Role {
	case "system", "developer":
		if f == codex || len(p.turns) > 0 {
			return errors.New("system messages must come first, and of a subscription are instructions")
		}
	case sideUser, sideAssistant:
	default:
		return fmt.Errorf("unknown role %q", item.Role)
	}
	if !slices.Contains([]string{"", phaseComment, phaseFinal}, item.Phase) {
		return fmt.Errorf("unknown phase %q", item.Phase)
	}
	return nil
}

func (t *turn) addInput(content json.RawMessage) error {
	var parts []responsesPart
	if len(content) == 0 {
		return errors.New("content is missing")
	}
	if text, ok := plain(content); ok {
		t.texts = append(t.texts, text)
		return nil
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return fmt.Errorf("decode content: %w", err)
	}
	for _, part := range parts {
		own := t.side == sideAssistant
		switch {
		case part.Type == "output_text" && own, part.Type == "input_text" && !own:
			t.texts = append(t.texts, part.Text)
		case part.Type == "input_image" && !own:
			if err := t.showURL(part.ImageURL); err != nil {
				return err
			}
		default:
			return fmt.Errorf("invalid value %q of a part of %s", part.Type, t.side)
		}
	}
	return nil
}

func (f responses) failure(status int, message string) any {
	switch {
	case f == codex && status < http.StatusInternalServerError:
		return object{"detail": message}
	case f == azure:
		return object{"error": object{"code": fmt.Sprint(status), "message": message}}
	}
	return completions{}.failure(status, message)
}

func (responses) whole(p *prompt, a *answer) any {
	v := &responsesVoice{w: &sender{begun: true, gone: true}, p: p} // nobody hears it
	if a.thoughts != "" {
		v.reasoning(a.thoughts)
	}
	if a.content != "" {
		v.text(a.content)
	}
	for _, c := range a.calls {
		v.call(c.id, c.name, c.args)
	}
	v.close(phaseFinal)
	return v.response(a.finish, &a.usage)
}

func (responses) stream(w *sender, p *prompt) voice { return &responsesVoice{w: w, p: p} }

// Phases of messages.
const (
	phaseComment = "commentary"
	phaseFinal   = "final_answer"
)

// responsesVoice streams one response, one open item at a time.
type responsesVoice struct {
	w *sender
	p *prompt
	// kind is the type of the open item, empty for none; said is its text.
	kind, said string
	// output has the items that are done.
	output []object
	events int
}

func (v *responsesVoice) event(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, v.events
	v.events++
	v.w.event(kind, fields)
}

// at is an event of the open item.
func (v *responsesVoice) at(kind string, fields object) {
	fields["output_index"] = len(v.output)
	v.event(kind, fields)
}

func (v *responsesVoice) begin() {
	if v.events == 0 {
		v.event("response.created", object{"response": v.response("", nil)})
		v.event("response.in_progress", object{"response": v.response("", nil)})
	}
}

// response is all of it, as far as it is done; it goes on without a reason to stop.
func (v *responsesVoice) response(finish string, u *usage) object {
	r := object{"id": v.p.id(), "object": "response", "created_at": 0, "model": v.p.model, "status": "completed", "output": append([]object{}, v.output...)}
	switch finish {
	case "":
		r["status"] = "in_progress"
	case finishLength:
		r["status"], r["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case finishFilter:
		r["status"], r["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	if u != nil {
		r["usage"] = object{
			"input_tokens": u.input, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": u.output,
			"output_tokens_details": object{"reasoning_tokens": u.reasoning}, "total_tokens": u.input + u.output,
		}
	}
	return r
}

// pieces names the events of the text in an item.
var pieces = map[string]struct{ index, part, text, kind string }{
	itemMessage:   {"content_index", "response.content_part", "response.output_text", "output_text"},
	itemReasoning: {"summary_index", "response.reasoning_summary_part", "response.reasoning_summary_text", "summary_text"},
}

// item is the open one, with so many parts and what is special of its type.
func (v *responsesVoice) item(parts []object) object {
	id := fmt.Sprintf("%s_%d", v.p.id(), len(v.output))
	if v.kind == itemReasoning { // what is encrypted at first is not all of it
		return object{"type": v.kind, "id": "rs_" + id, "summary": parts, "encrypted_content": v.p.encrypt(v.said)}
	}
	return object{"type": v.kind, "id": "msg_" + id, "role": sideAssistant, "content": parts}
}

func (v *responsesVoice) part() object {
	if v.kind == itemMessage {
		return object{"type": pieces[v.kind].kind, "text": v.said, "annotations": []any{}}
	}
	return object{"type": pieces[v.kind].kind, "text": v.said}
}

// say adds to the item of a type, and opens one unless one is open.
func (v *responsesVoice) say(kind, s string) {
	v.begin()
	names := pieces[kind]
	if v.kind != kind {
		v.close(phaseComment)
		v.kind = kind
		v.at("response.output_item.added", object{"item": v.item([]object{})})
		v.at(names.part+".added", object{names.index: 0, "part": v.part()})
	}
	v.said += s
	v.at(names.text+".delta", object{names.index: 0, "delta": s})
}

func (v *responsesVoice) close(phase string) {
	if v.kind == "" {
		return
	}
	names := pieces[v.kind]
	v.at(names.text+".done", object{names.index: 0, "text": v.said})
	v.at(names.part+".done", object{names.index: 0, "part": v.part()})
	item := v.item([]object{v.part()})
	if v.kind == itemMessage && strings.HasSuffix(v.p.model, "-codex") {
		item["phase"] = phase
	}
	v.done(item)
	v.kind, v.said = "", ""
}

func (v *responsesVoice) done(item object) {
	v.at("response.output_item.done", object{"item": item})
	v.output = append(v.output, item)
}

func (v *responsesVoice) text(s string)      { v.say(itemMessage, s) }
func (v *responsesVoice) reasoning(s string) { v.say(itemReasoning, s) }

func (v *responsesVoice) call(id, name, arguments string) {
	v.begin()
	v.close(phaseComment)
	item := func(arguments string) object {
		return object{"type": itemCall, "id": "fc_" + id, "call_id": id, "name": name, "arguments": arguments}
	}
	v.at("response.output_item.added", object{"item": item("")})
	for _, piece := range halves(arguments) {
		v.at("response.function_call_arguments.delta", object{"delta": piece})
	}
	v.at("response.function_call_arguments.done", object{"arguments": arguments})
	v.done(item(arguments))
}

func (v *responsesVoice) fail(message string) {
	v.begin()
	v.event("error", object{"error": object{"type": "server_error", "code": "server_error", "message": message, "param": nil}})
}

func (v *responsesVoice) end(finish string, u usage) {
	v.begin()
	v.close(phaseFinal)
	r := v.response(finish, &u)
	v.event("response."+r["status"].(string), object{"response": r})
}
