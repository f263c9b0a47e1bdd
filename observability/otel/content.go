package otel

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

const (
	// contentBudget bounds the content of one span, in bytes of JSON.
	contentBudget = 57_344
	// outputShare is the part of it reserved for output.
	outputShare = 16_384
	// messageFrame is an upper bound of the JSON around the text of one message.
	messageFrame = 256
	// maxHeld bounds the exchanges held until the end of their span.
	maxHeld = 256
)

// excerpt is content, possibly truncated; cut reports truncation.
type excerpt struct {
	text string
	cut  bool
}

// exchange is the content of one span: input and output.
type exchange struct{ in, out excerpt }

// contents holds the content of earlier events until the one that ends the span. Invariant: each
// exchange is within contentBudget.
type contents struct {
	held *recent[string, exchange]
}

func newContents() *contents { return &contents{newRecent[string, exchange](maxHeld, nil)} }

func excerptOf(c *observability.Content) excerpt {
	if c == nil {
		return excerpt{}
	}
	return excerpt{c.Text, c.Truncated}
}

// hold stores the content of an event for its span.
func (c *contents) hold(e *observability.Event) {
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		c.add("work/"+workOf(e), exchange{in: excerptOf(p.Body)})
	case *observability.TurnRequest:
		c.add("turn/"+string(e.Turn), exchange{in: excerpt{string(p.Request.Input), p.Request.InputTruncated}})
	case *observability.MessageEnd:
		c.answer(e, &p.Message)
	case *observability.TurnMessages:
		c.answer(e, &p.Message)
	case *observability.ToolStart:
		c.add("call/"+string(p.ToolCallID), exchange{in: excerptOf(p.Args)})
	case *observability.TaskStart:
		c.add("task/"+e.Task, exchange{in: excerptOf(p.Prompt)})
	}
}

// answer stores the output of the model, for its turn and for the parent of the turn: the last answer
// is the output of the operation or task.
func (c *contents) answer(e *observability.Event, m *observability.Message) {
	if m.Role != "assistant" {
		return
	}
	out := exchange{out: excerpt{m.Text, m.Truncated}}
	c.add("turn/"+string(e.Turn), out)
	if e.Task != "" {
		c.add("task/"+e.Task, out)
		return
	}
	c.add("work/"+workOf(e), out)
}

// add replaces the held exchange by the new parts.
func (c *contents) add(key string, x exchange) {
	if x.in.text == "" && x.out.text == "" {
		return
	}
	old := c.held.at(key)
	if x.in.text == "" {
		x.in = old.in
	}
	if x.out.text == "" {
		x.out = old.out
	}
	c.held.put(key, x.within())
}

// within truncates both sides to the budget of a span.
func (x exchange) within() exchange {
	const budget = contentBudget - 2*messageFrame
	_, in := fit(x.in.text, budget-outputShare)
	out, used := x.out.fit(budget - in)
	in2, _ := x.in.fit(budget - used)
	return exchange{in2, out}
}

func (s excerpt) fit(limit int) (excerpt, int) {
	text, size := fit(s.text, limit)
	return excerpt{text, s.cut || len(text) < len(s.text)}, size
}

// fit returns the longest prefix of s whose JSON string has at most limit bytes without quotes, and
// that size.
func fit(s string, limit int) (string, int) {
	size := 0
	for i, r := range s {
		n := utf8.RuneLen(r)
		switch {
		case r == '"', r == '\\':
			n = 2
		case r < ' ', r == 0x7f, r == utf8.RuneError, r == 0x2028, r == 0x2029:
			n = 6
		}
		if size+n > limit {
			return s[:i], size
		}
		size += n
	}
	return s, size
}

// attributes returns the content of the span that an event ends.
func (c *contents) attributes(e *observability.Event) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	var x exchange
	switch p := e.Payload.(type) {
	case *observability.Operation:
		if p.Kind == observability.OperationCompact {
			return nil
		}
		x = c.held.at("work/" + workOf(e))
		attrs = append(attrs, message(keyInput, "user", x.in, ""), message(keyOutput, "assistant", x.out, ""))
	case *observability.Task:
		x = c.held.at("task/" + e.Task)
		attrs = append(attrs, message(keyInput, "user", x.in, ""), message(keyOutput, "assistant", x.out, ""))
	case *observability.Turn:
		x = c.held.at("turn/" + string(e.Turn))
		attrs = append(attrs, plain(keyRequestInput, x.in), message(keyOutput, "assistant", x.out, finishReason(p.Response.FinishReason)))
	case *observability.Tool:
		x = c.held.at("call/" + string(p.ToolCallID))
		x.out = excerptOf(p.Result)
		x = x.within()
		attrs = append(attrs, object(keyToolArguments, keyPlainArguments, x.in), object(keyToolResult, keyPlainResult, x.out))
	}
	if x.in.cut || x.out.cut {
		attrs = append(attrs, attribute.Bool(keyTruncated, true))
	}
	return slices.DeleteFunc(attrs, func(a attribute.KeyValue) bool { return !a.Valid() })
}

// message returns text as a list of one message, in the form of the conventions. Without text the key
// is empty.
func message(key, role string, s excerpt, finish string) attribute.KeyValue {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type one struct {
		Role   string `json:"role"`
		Parts  []part `json:"parts"`
		Finish string `json:"finish_reason,omitempty"`
	}
	if s.text == "" {
		return attribute.KeyValue{}
	}
	b, err := conversation.EncodeJSON([]one{{role, []part{{"text", s.text}}, short(finish, 64)}})
	if err != nil {
		return attribute.KeyValue{} // strings always encode
	}
	return attribute.String(key, string(b))
}

func plain(key string, s excerpt) attribute.KeyValue {
	if s.text == "" {
		return attribute.KeyValue{}
	}
	return attribute.String(key, strings.ToValidUTF8(s.text, "\ufffd"))
}

// object returns a JSON object under the key of the conventions, any other value under our own.
func object(key, other string, s excerpt) attribute.KeyValue {
	if !strings.HasPrefix(strings.TrimLeft(s.text, " \t\r\n"), "{") || !json.Valid([]byte(s.text)) {
		key = other
	}
	return plain(key, s)
}
