package work

import (
	"encoding/json"
	"strings"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// progressBytes is the growth of call arguments, in bytes, that one event reports.
const progressBytes = 1 << 10

type progress struct {
	live  *events.Live
	calls map[int]*observability.ToolcallDelta
}

func newProgress(live *events.Live) *progress { return &progress{live: live} }

func (p *progress) show(e providers.Event) {
	switch e := e.(type) {
	case providers.ToolCallStart:
		if p.calls == nil {
			p.calls = map[int]*observability.ToolcallDelta{}
		}
		p.calls[e.Index] = &observability.ToolcallDelta{ToolCallID: e.ID, ToolName: e.Name}
	case providers.ToolCallDelta:
		if c := p.calls[e.Index]; c != nil {
			c.Bytes += len(e.Arguments)
			if p.live.Content.Content {
				c.Delta += e.Arguments
			}
			p.flush(e.Index, progressBytes)
		}
	case providers.ToolCallEnd:
		p.flush(e.Index, 1)
	}
}

// flush emits an event for a call that has grown by at least so many bytes.
func (p *progress) flush(index, least int) {
	c := p.calls[index]
	if c == nil || c.Bytes < least {
		return
	}
	p.calls[index] = &observability.ToolcallDelta{ToolCallID: c.ToolCallID, ToolName: c.ToolName}
	c.Delta = p.live.Content.Cut(c.Delta) // Some providers send arguments in one piece.
	p.live.Emit(c)
}

// request emits turn_request before the model is called.
func (c *modelCall) request(req providers.Request) {
	if !c.live.Wanted() {
		return
	}
	facts := c.facts()
	out := observability.RequestOf(c.model, facts)
	out.Compacted, out.Tools = c.shown.After != nil, len(req.Tools)
	out.Messages = len(c.exchanges)
	out.InputBytes, out.Input, out.InputTruncated = inputOf(req, c.live.Prompts)
	c.live.Emit(&observability.TurnRequest{Purpose: observability.PurposeAgent, Request: out})
	c.requested.Store(&request{c.model, facts})
}

// inputJSON is the text of the newest messages in turn_request.
type inputJSON struct {
	System   string        `json:"systemPrompt,omitempty"`
	Messages []messageJSON `json:"messages"`
}

type messageJSON struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// inputOf counts the bytes of a request's messages outside closed history. With content switched on it
// also returns them: the instructions and the newest message up to the bound, and earlier messages as
// far as they fit. cut reports omissions.
func inputOf(req providers.Request, o observability.ProjectOptions) (total int, shown json.RawMessage, cut bool) {
	total = len(req.System)
	list := []messageJSON{}
	for _, m := range req.Messages {
		text := textOfParts(m.Parts)
		total += len(text)
		list = append(list, messageJSON{string(m.Role), text})
	}
	if !o.Content {
		return total, nil, false
	}
	in := inputJSON{System: o.Cut(req.System)}
	const around = len(`{"role":"assistant","text":""},`)
	first, left, kept := len(list), o.Limit(), len(in.System)
	if first > 0 {
		list[first-1].Text = o.Cut(list[first-1].Text)
	}
	for first > 0 && (first == len(list) || len(list[first-1].Text)+around <= left) {
		first--
		kept += len(list[first].Text)
		left -= len(list[first].Text) + around
	}
	in.Messages = list[first:]
	raw, err := conversation.EncodeJSON(in)
	if err != nil {
		return total, nil, false
	}
	return total, raw, kept < total
}

func textOfParts(parts []providers.Part) string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, p.Text)
		case providers.ToolCall:
			out = append(out, p.Name+" "+string(p.Arguments))
		case providers.ToolResult:
			out = append(out, textOfParts(p.Content))
		}
	}
	return strings.Join(out, "\n")
}

// factsOf returns the facts of a model call except for its outcome.
func factsOf(m providers.Model, thinking providers.ThinkingLevel, d providers.Done) conversation.CallFacts {
	f := conversation.CallFacts{
		API: m.API, Server: m.Telemetry.ServerAddress, Port: m.Telemetry.ServerPort, ResponseID: d.ResponseID, ResponseModel: d.ResponseModel,
	}
	if m.Telemetry.ProviderName != m.Provider {
		f.Provider = m.Telemetry.ProviderName
	}
	if m.Reasoning {
		f.Thinking = string(thinking)
	}
	if price := m.Cost.PriceOf(d); price.Total > 0 {
		f.Price = new(conversation.Price(price))
	}
	return f
}
