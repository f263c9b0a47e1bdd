package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// What a model reads in place of something it cannot be shown.
const (
	userImagePlaceholder = "(An image was left out here: this model reads text only.)"
	toolImagePlaceholder = "(The tool returned an image, left out here: this model reads text only.)"
	noResultText         = "There is no result: the call was interrupted, and whether it took effect is unknown."
)

// Transform returns the request and options in the form every Protocol encodes
// from; every Protocol calls it first. Neither argument is changed, but the
// results share memory with them. History stays as it is: TransformBlock gives its
// messages the form.
//
//  1. Images become a placeholder text for a model without InputImage, one for
//     each run of images. For others, an image with Facts has the media type that
//     they name, and becomes a text that says why it is left out if it is no picture,
//     or larger than the model's vendor takes.
//  2. ThinkingLevel becomes empty for a model that does not reason, and one that the
//     model does not have becomes the one that stands for it. ThinkingOff stays what
//     it is: a model that always thinks is for the protocol. MaxTokens becomes the
//     effective limit, 0 if there is none.
//  3. An assistant message with calls is followed by exactly one tool message,
//     with one result for each call in the order of the calls. Results are
//     looked for up to the next assistant message; a call without one gets an
//     error result, and a result without call is dropped.
//  4. Within such a pair, call ids are not empty and differ. Arguments are an
//     object: anything else is wrapped into one.
//  5. Reasoning and signatures stay only in messages of this very model, in their
//     order, unless NoReplay is set. Texts that are empty and unsigned, and messages left without parts, are
//     dropped.
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
	images := shownTo(m).images
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

// renamedCall is a call under its id in the request, and the id its result has.
type renamedCall struct {
	call       ToolCall
	originalID string
}

func assistantParts(msg Message, m Model) (parts []Part, calls []renamedCall) {
	var used map[string]bool // made for the first call
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

// objectArguments exists because vendors refuse a history in which arguments
// are anything but an object, whoever wrote them.
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
		panic("providers: valid JSON has no JSON form: " + err.Error())
	}
	return object
}

// answers returns one result for each call. Calls that share an id take their
// results in order.
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

// visible keeps texts, and of images those that the model takes. If it takes none, each
// run of them becomes placeholder.
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
