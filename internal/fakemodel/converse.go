package fakemodel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
)

// converse is the Converse call of Amazon Bedrock, which names the model and whether the
// answer is streamed in its path.
type converse struct {
	model    string
	streamed bool
}

// key is a bearer token, or the id of the key that has signed the call. The signature is
// not checked.
func (converse) key(h http.Header) string {
	if _, signer, ok := strings.Cut(h.Get("Authorization"), "Credential="); ok {
		id, _, _ := strings.Cut(signer, "/")
		return id
	}
	return bearer(h)
}

// converseCall has all members that the vendor takes of ours: it refuses others.
type converseCall struct {
	System    []converseBlock `json:"system"`
	Inference struct {
		MaxTokens   int      `json:"maxTokens"`
		Temperature float64  `json:"temperature"`
		Stop        []string `json:"stopSequences"`
	} `json:"inferenceConfig"`
	Tools struct {
		Tools []struct {
			Spec struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Schema      struct {
					JSON json.RawMessage `json:"json"`
				} `json:"inputSchema"`
			} `json:"toolSpec"`
		} `json:"tools"`
		Choice json.RawMessage `json:"toolChoice"`
	} `json:"toolConfig"`
	Fields struct {
		Thinking struct {
			Type         string          `json:"type"`
			BudgetTokens int             `json:"budget_tokens"`
			Display      string          `json:"display"`
			BlockBinding json.RawMessage `json:"block_binding"`
		} `json:"thinking"`
		Output struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
		Reasoning struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		ReasoningEffort string   `json:"reasoning_effort"`
		Betas           []string `json:"anthropic_beta"`
	} `json:"additionalModelRequestFields"`
	Messages []struct {
		Role    string          `json:"role"`
		Content []converseBlock `json:"content"`
	} `json:"messages"`
}

type converseBlock struct {
	Text  *string `json:"text"`
	Image *struct {
		Format string `json:"format"`
		Source struct {
			Bytes string `json:"bytes"`
		} `json:"source"`
	} `json:"image"`
	Reasoning *struct {
		Text *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		Redacted []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
	ToolUse *struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
	ToolResult *struct {
		ID      string          `json:"toolUseId"`
		Content []converseBlock `json:"content"`
		Status  string          `json:"status"`
	} `json:"toolResult"`
	CachePoint *struct {
		Type string `json:"type"`
		TTL  string `json:"ttl"`
	} `json:"cachePoint"`
}

func (f converse) decode(body []byte) (*prompt, error) {
	var c converseCall
	if err := strictly(body, &c); err != nil {
		return nil, err
	}
	p := &prompt{model: f.model, stream: f.streamed, maxTokens: c.Inference.MaxTokens}
	p.effort = c.Fields.Output.Effort + c.Fields.Reasoning.Effort + c.Fields.ReasoningEffort
	if n := c.Fields.Thinking.BudgetTokens; n > 0 {
		p.effort = strconv.Itoa(n)
	}
	for _, t := range c.Tools.Tools {
		p.tools = append(p.tools, t.Spec.Name)
	}
	for _, b := range c.System {
		if b.Text != nil {
			p.system += *b.Text
		}
	}
	role := sideAssistant
	for i, m := range c.Messages {
		if m.Role == role || m.Role != sideUser && m.Role != sideAssistant {
			return nil, fmt.Errorf("message %d: role %q where the sides must alternate", i, m.Role)
		}
		role = m.Role
		if err := p.addConverse(role, m.Content); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	for _, t := range p.turns {
		if len(t.calls) > 0 && len(p.tools) == 0 {
			return nil, errors.New("toolConfig must be defined where there are calls")
		}
	}
	return p, nil
}

// addConverse makes turns of a message: the results in it, then the rest.
func (p *prompt) addConverse(role string, content []converseBlock) error {
	if len(content) == 0 {
		return errors.New("content is empty")
	}
	if content[len(content)-1].Reasoning != nil {
		return errThinking
	}
	t := turn{side: role}
	for _, b := range content {
		if b.ToolResult == nil {
			if err := t.addConverse(b); err != nil {
				return err
			}
			continue
		}
		switch r := b.ToolResult; {
		case t.texts != nil || t.images != nil || role != sideUser:
			return errors.New("results must come first in a user's message")
		case len(r.Content) == 0:
			return fmt.Errorf("result of %q is empty", r.ID)
		}
		result := turn{side: sideTool, result: b.ToolResult.ID}
		for _, inner := range b.ToolResult.Content {
			if inner.Image != nil && b.ToolResult.Status == "error" {
				return fmt.Errorf("result of %q is an error with an image", result.result)
			}
			if err := result.addConverse(inner); err != nil {
				return err
			}
		}
		p.turns = append(p.turns, result)
	}
	if t.texts != nil || t.images != nil || t.calls != nil || role == sideAssistant {
		p.turns = append(p.turns, t)
	}
	return nil
}

func (t *turn) addConverse(b converseBlock) error {
	switch {
	case b.CachePoint != nil:
	case b.Text != nil:
		if blank(*b.Text) {
			return errors.New("text is blank")
		}
		t.texts = append(t.texts, *b.Text)
	case b.Image != nil:
		return t.show("image/"+b.Image.Format, b.Image.Source.Bytes)
	case b.Reasoning != nil:
		if r := b.Reasoning.Text; r == nil || r.Signature != sign(r.Text) {
			return errors.New("signature of reasoning does not match")
		}
	case b.ToolUse != nil:
		if !strings.HasPrefix(string(b.ToolUse.Input), "{") || !plainID.MatchString(b.ToolUse.ID) {
			return fmt.Errorf("input of call %q is no object, or its id not plain", b.ToolUse.ID)
		}
		t.calls = append(t.calls, call{b.ToolUse.ID, b.ToolUse.Name, string(b.ToolUse.Input)})
	default:
		return errors.New("a block has no known member")
	}
	return nil
}

func (converse) failure(status int, message string) any {
	return object{"__type": "fakemodel#" + converseException(status), "message": message}
}

// converseException names an error by its status.
func converseException(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	case http.StatusNotFound:
		return "ResourceNotFoundException"
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableException"
	}
	if status >= 500 {
		return "InternalServerException"
	}
	return "ValidationException"
}

func converseFinish(finish string) string {
	switch finish {
	case finishLength:
		return "max_tokens"
	case finishTool:
		return "tool_use"
	case finishFilter:
		return "content_filtered"
	}
	return "end_turn"
}

func converseUsage(u usage) object {
	return object{"inputTokens": u.input, "outputTokens": u.output, "totalTokens": u.input + u.output}
}

func (converse) whole(_ *prompt, a *answer) any {
	content := []object{}
	if a.thoughts != "" {
		content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": a.thoughts, "signature": sign(a.thoughts)}}})
	}
	if a.content != "" {
		content = append(content, object{"text": a.content})
	}
	for _, c := range a.calls {
		content = append(content, object{"toolUse": object{"toolUseId": c.id, "name": c.name, "input": json.RawMessage(c.args)}})
	}
	return object{
		"output":     object{"message": object{"role": sideAssistant, "content": content}},
		"stopReason": converseFinish(a.finish), "usage": converseUsage(a.usage), "metrics": object{"latencyMs": 0},
	}
}

func (converse) stream(w *sender, _ *prompt) voice { return &converseVoice{w: w} }

// converseVoice streams one response, one open block at a time.
type converseVoice struct {
	w *sender
	// kind is the member of the open block's deltas, empty for none; index its number.
	kind  string
	index int
	// thoughts is the open block of reasoning, to sign it.
	thoughts string
}

// send adds a message of the binary framing of the vendor's streams.
func (v *converseVoice) send(message, kind string, payload any) {
	if !v.w.begin("application/vnd.amazon.eventstream") {
		return
	}
	named := ":event-type"
	if message == "exception" {
		named = ":exception-type"
	}
	var headers []byte
	for _, h := range [][2]string{{named, kind}, {":content-type", "application/json"}, {":message-type", message}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	body := encode(payload)
	frame := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(headers)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
	frame = append(append(frame, headers...), body...)
	v.w.pending = append(v.w.pending, binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))...)
	v.w.bound()
}

func (v *converseVoice) event(kind string, payload object) { v.send("event", kind, payload) }

func (v *converseVoice) begin() {
	if !v.w.begun {
		v.event("messageStart", object{"role": sideAssistant})
	}
}

// open opens a block, unless one of the kind is open.
func (v *converseVoice) open(kind string) {
	v.begin()
	if v.kind != kind || kind == "toolUse" {
		v.close()
		v.kind = kind
	}
}

func (v *converseVoice) close() {
	if v.kind == "" {
		return
	}
	if v.kind == "reasoningContent" {
		v.delta(object{"signature": sign(v.thoughts)})
		v.thoughts = ""
	}
	v.event("contentBlockStop", object{"contentBlockIndex": v.index})
	v.kind = ""
	v.index++
}

func (v *converseVoice) delta(d any) {
	v.event("contentBlockDelta", object{"contentBlockIndex": v.index, "delta": object{v.kind: d}})
}

func (v *converseVoice) text(s string) {
	v.open("text")
	v.delta(s)
}

func (v *converseVoice) reasoning(s string) {
	v.open("reasoningContent")
	v.thoughts += s
	v.delta(object{"text": s})
}

func (v *converseVoice) call(id, name, arguments string) {
	v.open("toolUse")
	v.event("contentBlockStart", object{"contentBlockIndex": v.index, "start": object{"toolUse": object{"toolUseId": id, "name": name}}})
	for _, piece := range halves(arguments) {
		v.delta(object{"input": piece})
	}
}

func (v *converseVoice) fail(message string) {
	v.begin()
	v.send("exception", "internalServerException", object{"message": message})
}

func (v *converseVoice) end(finish string, u usage) {
	v.begin()
	v.close()
	v.event("messageStop", object{"stopReason": converseFinish(finish)})
	v.event("metadata", object{"usage": converseUsage(u), "metrics": object{"latencyMs": 0}})
}
