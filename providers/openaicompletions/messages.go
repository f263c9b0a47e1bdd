package openaicompletions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// Roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// bridge is an assistant message between tool results and a user message, for servers that require
// one.
const bridge = "I have seen the results of the tools."

// fragment is a run of encoded messages without the brackets of an array, nil if there are none.
type fragment struct {
	text *providers.Body
	in   shown
	// last is the role of the last message. asked is set if there is a user message, called if there
	// are calls.
	first, last   string
	asked, called bool
}

// encodeMessages returns the pieces of the messages array, and whether they contain calls. If the
// prompt cache needs a marker, it goes on the last user message. A history block with that message is
// then encoded together with the following messages.
func encodeMessages(m providers.Model, req providers.Request, d dialect) (out []*providers.Body, called bool, err error) {
	tail := req.Messages
	for n := len(req.History); ; n-- {
		fragments, err := encodeHistory(m, req, d, n)
		if err != nil {
			return nil, false, err
		}
		f, err := newFragment(nil, tail, d.shown, d.mark)
		if err != nil {
			return nil, false, err
		}
		if d.mark == nil || f.asked || n == 0 {
			out, called, err := join(append(fragments, f), d.shown)
			return out, called, err
		}
		tail = slices.Concat(providers.TransformBlock(m, req.History[n-1]), tail)
	}
}

// encodeHistory returns the system prompt and the first n blocks.
func encodeHistory(m providers.Model, req providers.Request, d dialect, n int) ([]fragment, error) {
	fragments := make([]fragment, 0, n+2)
	if req.System != "" {
		system := message{Role: "system", Content: req.System}
		if d.developer {
			system.Role = "developer"
		}
		if d.mark != nil {
			system.Content = []contentPart{{Type: "text", Text: req.System, CacheControl: d.mark}}
		}
		f, err := newFragment([]message{system}, nil, d.shown, nil)
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	for _, b := range req.History[:n] {
		f, err := providers.EncodeBlock(b, m, func(f fragment) bool { return f.in == d.shown },
			func(messages []providers.Message) (fragment, int64, error) { return encodeBlock(messages, d.shown) })
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	return fragments, nil
}

func encodeBlock(messages []providers.Message, in shown) (fragment, int64, error) {
	f, err := newFragment(nil, messages, in, nil)
	if err != nil || f.text == nil {
		return f, 0, err
	}
	return f, f.text.TextBytes(), nil
}

// newFragment encodes messages and appends them to out. The last user message gets the mark unless it
// is nil.
func newFragment(out []message, in []providers.Message, as shown, mark *cacheControl) (fragment, error) {
	var e providers.BodyEncoder
	add := func(more ...message) {
		for _, msg := range more {
			if n := len(out); as.assistantAfterTool && n > 0 && msg.Role == roleUser && out[n-1].Role == roleTool {
				out = append(out, as.bridge())
			}
			out = append(out, msg)
		}
	}
	for _, msg := range in {
		switch msg.Role {
		case providers.RoleUser:
			add(message{Role: roleUser, Content: encodeContent(msg.Parts, &e)})
		case providers.RoleAssistant:
			add(as.assistant(msg))
		case providers.RoleTool:
			add(as.results(msg.Parts, &e)...)
		}
	}
	f := fragment{in: as}
	if len(out) == 0 {
		return f, nil
	}
	f.first, f.last = out[0].Role, out[len(out)-1].Role
	for i := range slices.Backward(out) {
		f.called = f.called || len(out[i].ToolCalls) > 0
		if out[i].Role == roleUser && !f.asked {
			f.asked = true
			if mark != nil {
				out[i].Content = marked(out[i].Content, mark)
			}
		}
	}
	text, err := e.Encode(out)
	if err != nil {
		return fragment{}, err
	}
	f.text = text.Inner(len("["), len("]\n"))
	return f, nil
}

// marked returns the content with a mark on its last text.
func marked(content any, mark *cacheControl) any {
	list, ok := content.([]contentPart)
	if !ok {
		text, _ := content.(string)
		list = []contentPart{{Type: "text", Text: text}}
	}
	for i := range slices.Backward(list) {
		if list[i].Type == "text" && list[i].Text != "" {
			list[i].CacheControl = mark
			break
		}
	}
	return list
}

// bridge returns the inserted assistant message.
func (s shown) bridge() message {
	msg := message{Role: roleAssistant, Content: bridge}
	if s.reasoningContent {
		msg.ReasoningContent = new("")
	}
	return msg
}

// join concatenates fragments to one array.
func join(fragments []fragment, as shown) (out []*providers.Body, called bool, err error) {
	out = make([]*providers.Body, 1, 2*len(fragments)+2)
	out[0] = providers.NewBody("[")
	comma := providers.NewBody(",")
	last := ""
	for _, f := range fragments {
		if f.text == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, comma)
		}
		if as.assistantAfterTool && last == roleTool && f.first == roleUser {
			between, err := newFragment([]message{as.bridge()}, nil, as, nil)
			if err != nil {
				return nil, false, err
			}
			out = append(out, between.text, comma)
		}
		out, last, called = append(out, f.text), f.last, called || f.called
	}
	return append(out, providers.NewBody("]")), called, nil
}

func (s shown) assistant(msg providers.Message) message {
	out := message{Role: roleAssistant}
	var text, thoughts strings.Builder
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case providers.Text:
			text.WriteString(p.Text)
		case providers.Reasoning:
			s.think(&out, &thoughts, p)
		case providers.ToolCall:
			out.ToolCalls = append(out.ToolCalls, toolCall{
				ID: s.callID(p.ID), Type: "function", Function: calledByName{Name: p.Name, Arguments: string(p.Arguments)}, attached: attachedBy(p.Signature),
			})
		}
	}
	content := text.String()
	switch {
	case s.thinkingAsText && thoughts.Len() > 0 && content != "":
		content = thoughts.String() + "\n\n" + content
	case s.thinkingAsText && thoughts.Len() > 0:
		content = thoughts.String()
	case s.reasoningContent:
		out.ReasoningContent = new(thoughts.String())
	}
	if content != "" || len(out.ToolCalls) == 0 || s.nonNull {
		out.Content = content
	}
	return out
}

// maxCallID is the maximum length in bytes of a call id that the format's own vendor accepts.
const maxCallID = 40

// callID returns the id of a call in the request, the same for call and result.
func (s shown) callID(id string) string {
	if !s.shortIDs || len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// think shows reasoning to its model again: as its server wants that of all, else under
// the name that it came by.
func (s shown) think(out *message, thoughts *strings.Builder, p providers.Reasoning) {
	switch {
	case s.thinkingAsText || s.reasoningContent:
		thoughts.WriteString(p.Text)
	case p.Signature == fieldReasoningContent:
		if out.ReasoningContent == nil {
			out.ReasoningContent = new("")
		}
		*out.ReasoningContent += p.Text
	case p.Signature == fieldReasoning:
		out.Reasoning += p.Text
	case p.Signature == fieldReasoningText:
		out.ReasoningText += p.Text
	default:
		out.ReasoningDetails = append(out.ReasoningDetails, detailsOf(p)...)
	}
}

// results moves images of results into a user message after them, because a tool message is text only.
// The user message must not come between the results.
func (s shown) results(parts []providers.Part, e *providers.BodyEncoder) []message {
	var out []message
	var images []contentPart
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		var text strings.Builder
		if r.IsError {
			text.WriteString("Error: ")
		}
		for _, c := range r.Content {
			switch c := c.(type) {
			case providers.Text:
				text.WriteString(c.Text)
			case providers.Image:
				images = append(images, encodeImage(c, e))
				fmt.Fprintf(&text, "(Image %d below.)", len(images))
			}
		}
		result := message{Role: roleTool, ToolCallID: s.callID(r.CallID), Content: text.String()}
		if s.toolName {
			result.Name = r.Name
		}
		out = append(out, result)
	}
	if len(images) > 0 {
		intro := contentPart{Type: "text", Text: "Images the tools returned:"}
		out = append(out, message{Role: roleUser, Content: append([]contentPart{intro}, images...)})
	}
	return out
}
