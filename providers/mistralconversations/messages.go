package mistralconversations

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// Roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// Types of chunks.
const (
	chunkText     = "text"
	chunkThinking = "thinking"
	chunkImage    = "image_url"
)

const (
	// bridge is inserted between tool results and a user message, since the vendor rejects the
	// sequence.
	bridge = "I have seen the results of the tools."
	// noOutput replaces an empty tool result.
	noOutput = "(no output)"
)

type message struct {
	Role string `json:"role"`
	// Content is a string or a []chunk, or nil for none.
	Content    any        `json:"content,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Name       string     `json:"name,omitempty"`
}

type chunk struct {
	Type     string  `json:"type"`
	Text     string  `json:"text,omitempty"`
	Thinking []chunk `json:"thinking,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// fragment is a run of encoded messages without the brackets of an array, nil if there are none.
type fragment struct {
	text        *providers.Body
	first, last string
}

// encodeMessages returns the pieces of the messages array.
func encodeMessages(m providers.Model, req providers.Request) ([]*providers.Body, error) {
	fragments := make([]fragment, 0, len(req.History)+2)
	add := func(f fragment, err error) error {
		fragments = append(fragments, f)
		return err
	}
	if req.System != "" {
		if err := add(newFragment([]message{{Role: roleSystem, Content: req.System}}, nil)); err != nil {
			return nil, err
		}
	}
	for _, b := range req.History {
		if err := add(providers.EncodeBlock(b, m, func(fragment) bool { return true }, encodeBlock)); err != nil {
			return nil, err
		}
	}
	if err := add(newFragment(nil, req.Messages)); err != nil {
		return nil, err
	}
	return join(fragments)
}

func encodeBlock(messages []providers.Message) (fragment, int64, error) {
	f, err := newFragment(nil, messages)
	if err != nil || f.text == nil {
		return f, 0, err
	}
	return f, f.text.TextBytes(), nil
}

// newFragment encodes messages and appends them to out.
func newFragment(out []message, in []providers.Message) (fragment, error) {
	var e providers.BodyEncoder
	var ids callIDs
	for _, msg := range in {
		switch msg.Role {
		case providers.RoleUser:
			if n := len(out); n > 0 && out[n-1].Role == roleTool {
				out = append(out, bridgeMessage())
			}
			out = append(out, message{Role: roleUser, Content: encodeContent(msg.Parts, &e)})
		case providers.RoleAssistant:
			ids = callIDs{}
			if content := encodeAssistant(msg.Parts, ids); content.Content != nil || content.ToolCalls != nil {
				out = append(out, content)
			}
		case providers.RoleTool:
			out = append(out, encodeResults(msg.Parts, ids, &e)...)
		}
	}
	if len(out) == 0 {
		return fragment{}, nil
	}
	text, err := e.Encode(out)
	if err != nil {
		return fragment{}, err
	}
	return fragment{text: text.Inner(len("["), len("]\n")), first: out[0].Role, last: out[len(out)-1].Role}, nil
}

// bridgeMessage returns the inserted assistant message.
func bridgeMessage() message { return message{Role: roleAssistant, Content: bridge} }

// join concatenates fragments to one array.
func join(fragments []fragment) ([]*providers.Body, error) {
	out := make([]*providers.Body, 1, 2*len(fragments)+2)
	out[0] = providers.NewBody("[")
	comma, last := providers.NewBody(","), ""
	for _, f := range fragments {
		if f.text == nil {
			continue
		}
		if last != "" {
			out = append(out, comma)
		}
		if last == roleTool && f.first == roleUser {
			between, err := newFragment([]message{bridgeMessage()}, nil)
			if err != nil {
				return nil, err
			}
			out = append(out, between.text, comma)
		}
		out, last = append(out, f.text), f.last
	}
	return append(out, providers.NewBody("]")), nil
}

// encodeContent returns texts as one string, or a list if there are images.
func encodeContent(parts []providers.Part, e *providers.BodyEncoder) any {
	var texts []string
	var list []chunk
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			texts = append(texts, p.Text)
			list = append(list, chunk{Type: chunkText, Text: p.Text})
		case providers.Image:
			list = append(list, chunk{Type: chunkImage, ImageURL: "data:" + p.MimeType + ";base64," + e.Base64(p)})
		}
	}
	if len(texts) == len(list) {
		return strings.Join(texts, "\n")
	}
	return list
}

// encodeAssistant returns an assistant message with a text, or a list if there is thinking. Empty
// content is omitted. ids gets those of the calls.
func encodeAssistant(parts []providers.Part, ids callIDs) message {
	out := message{Role: roleAssistant}
	var text strings.Builder
	var list []chunk
	thought := false
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if p.Text != "" {
				text.WriteString(p.Text)
				list = append(list, chunk{Type: chunkText, Text: p.Text})
			}
		case providers.Reasoning:
			if p.Text != "" {
				thought = true
				list = append(list, chunk{Type: chunkThinking, Thinking: []chunk{{Type: chunkText, Text: p.Text}}})
			}
		case providers.ToolCall:
			called := calledByName{Name: providers.PlainName(p.Name, maxCallName), Arguments: string(p.Arguments)}
			out.ToolCalls = append(out.ToolCalls, toolCall{ID: ids.add(p.ID), Type: "function", Function: called})
		}
	}
	switch {
	case thought:
		out.Content = list
	case text.Len() > 0:
		out.Content = text.String()
	}
	return out
}

func encodeResults(parts []providers.Part, ids callIDs, e *providers.BodyEncoder) []message {
	var out []message
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		content := r.Content
		if len(content) == 0 {
			content = []providers.Part{providers.Text{Text: noOutput}}
		}
		if r.IsError {
			content = append([]providers.Part{providers.Text{Text: "Error:"}}, content...)
		}
		out = append(out, message{
			Role: roleTool, ToolCallID: ids[r.CallID], Name: providers.PlainName(r.Name, maxCallName), Content: encodeContent(content, e),
		})
	}
	return out
}

// Limits of names and ids, in bytes.
const (
	maxCallName = 64
	callIDBytes = 9
)

// callIDs maps the ids of the latest calls to those in the request.
type callIDs map[string]string

func (ids callIDs) add(id string) string {
	sent := id
	for n := 0; !fits(sent) || ids.taken(sent); n++ {
		sent = shortID(fmt.Sprintf("%s %d", id, n))
	}
	ids[id] = sent
	return sent
}

func (ids callIDs) taken(sent string) bool {
	for _, other := range ids {
		if other == sent {
			return true
		}
	}
	return false
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func fits(id string) bool { return len(id) == callIDBytes && strings.Trim(id, letters) == "" }

// shortID returns a valid id, made of the hash of s.
func shortID(s string) string {
	sum := sha256.Sum256([]byte(s))
	rest, id := binary.BigEndian.Uint64(sum[:]), make([]byte, callIDBytes)
	for i := range id {
		id[i], rest = letters[rest%uint64(len(letters))], rest/uint64(len(letters))
	}
	return string(id)
}
