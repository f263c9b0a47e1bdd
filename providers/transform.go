package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Texts that replace content that a model cannot receive.
const (
	userImagePlaceholder = "(An image was left out here: this model reads text only.)"
	toolImagePlaceholder = "(The tool returned an image, left out here: this model reads text only.)"
	noResultText         = "There is no result: the call was interrupted, and whether it took effect is unknown."
)

// Transform normalizes the request and options. Every Protocol calls it first and encodes its results.
// The arguments are not changed, but the results share memory with them. History is not changed;
// TransformBlock normalizes its messages.
//
//  1. Images become a placeholder text for a model without InputImage, one for each run of images. For
//     other models, an image with Facts gets their media type. It becomes an explanatory text if it
//     is no picture or exceeds the vendor's limits.
//  2. ThinkingLevel becomes empty for a model without reasoning, and is clamped to the levels of the
//     model. ThinkingOff stays: the protocol handles models that always think. MaxTokens becomes the
//     effective limit, 0 if there is none.
//  3. An assistant message with calls is followed by exactly one tool message, with one result for
//     each call in the order of the calls. Results up to the next assistant message are considered. A
//     call without one gets an error result; a result without a call is dropped.
//  4. Within such a pair, call ids are not empty and differ. Arguments that are not an object are
//     wrapped into one.
//  5. Reasoning and signatures stay only in messages of the same model, in their order, unless
//     NoReplay is set. Empty unsigned texts and messages without parts are dropped.
func Transform(m Model, req Request, o Options) (Request, Options) {
	req.Messages = transformMessages(m, req.Messages)
	switch {
	case !m.Reasoning:
		o.ThinkingLevel = ""
	case o.ThinkingLevel != ThinkingOff:
		o.ThinkingLevel = m.Thinking.Clamp(o.ThinkingLevel)
	}
	o.MaxTokens = limitOf(m, o)
	return req, o
}

func transformMessages(m Model, messages []Message) []Message {
	var out []Message
	for len(messages) > 0 {
		end := 1
		for end < len(messages) && messages[end].Role != RoleAssistant {
			end++
		}
		out = appendTurn(out, m, messages[:end])
		messages = messages[end:]
	}
	return out
}

// appendTurn appends one message and those up to the next assistant message.
func appendTurn(out []Message, m Model, turn []Message) []Message {
	images := viewFor(m).images
	if turn[0].Role == RoleAssistant {
		parts, calls := assistantParts(turn[0], m)
		if len(parts) > 0 {
			out = append(out, Message{Role: RoleAssistant, Parts: parts, Model: turn[0].Model})
		}
		if len(calls) > 0 {
			out = append(out, Message{Role: RoleTool, Parts: answers(calls, turn[1:], images)})
		}
	}
	for _, msg := range turn {
		if msg.Role != RoleUser {
			continue
		}
		if parts := visible(msg.Parts, images, userImagePlaceholder); len(parts) > 0 {
			out = append(out, Message{Role: RoleUser, Parts: parts})
		}
	}
	return out
}

// renamedCall is a call with its id in the request and the id of its result.
type renamedCall struct {
	call       ToolCall
	originalID string
}

func assistantParts(msg Message, m Model) (parts []Part, calls []renamedCall) {
	var used map[string]bool // allocated at the first call
	own := msg.Model == m.Spec() && !m.NoReplay
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case Text:
			if !own {
				p.Signature = ""
			}
			if p != (Text{}) {
				parts = append(parts, p)
			}
		case Reasoning:
			if own {
				parts = append(parts, p)
			}
		case ToolCall:
			renamed := renamedCall{originalID: p.ID}
			if !own {
				p.Signature = ""
			}
			p.ID = freeID(p.ID, used)
			p.Arguments = objectArguments(p.Arguments)
			if used == nil {
				used = map[string]bool{}
			}
			used[p.ID] = true
			renamed.call = p
			calls = append(calls, renamed)
			parts = append(parts, p)
		}
	}
	return parts, calls
}

func freeID(id string, used map[string]bool) string {
	if id == "" {
		id = "call"
	}
	free := id
	for n := 2; used[free]; n++ {
		free = fmt.Sprintf("%s_%d", id, n)
	}
	return free
}

// objectArguments wraps arguments that are not an object, because vendors reject them in a history.
func objectArguments(raw json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0 || string(trimmed) == "null":
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed):
		return raw
	}
	var wrapped any = json.RawMessage(trimmed)
	if !json.Valid(trimmed) {
		wrapped = string(trimmed)
	}
	object, err := json.Marshal(map[string]any{"malformed_arguments": wrapped})
	if err != nil {
		panic("providers: encode JSON: " + err.Error())
	}
	return object
}

// answers returns one result for each call. Calls that share an id take their results in order.
func answers(calls []renamedCall, following []Message, images imageRules) []Part {
	results := map[string][]ToolResult{}
	for _, msg := range following {
		if msg.Role != RoleTool {
			continue
		}
		for _, p := range msg.Parts {
			if r, ok := p.(ToolResult); ok {
				results[r.CallID] = append(results[r.CallID], r)
			}
		}
	}
	parts := make([]Part, 0, len(calls))
	for _, c := range calls {
		result := ToolResult{Content: []Part{Text{Text: noResultText}}, IsError: true}
		if found := results[c.originalID]; len(found) > 0 {
			result, results[c.originalID] = found[0], found[1:]
			result.Content = visible(result.Content, images, toolImagePlaceholder)
		}
		result.CallID, result.Name = c.call.ID, c.call.Name
		parts = append(parts, result)
	}
	return parts
}

// visible returns texts and the images that the model accepts. If it accepts none, each run of images
// becomes placeholder.
func visible(in []Part, images imageRules, placeholder string) []Part {
	var out []Part
	inRun := false
	for _, p := range in {
		switch p := p.(type) {
		case Text:
			if p.Text != "" {
				out = append(out, p)
				inRun = false
			}
		case Image:
			switch {
			case images.taken():
				out = append(out, images.show(p))
			case !inRun:
				out = append(out, Text{Text: placeholder})
				inRun = true
			}
		}
	}
	return out
}
