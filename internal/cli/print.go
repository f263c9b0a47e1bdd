package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

// PrintOptions configure a [Printer]. Nil and zero fields are valid.
type PrintOptions struct {
	// Only limits the output to the answer to one submission; "" prints everything.
	Only conversation.SubmissionID
	// JSON prints chunks as lines of JSON.
	JSON bool
	// Bare omits roles and the outcome "completed": there is one speaker, and the user sees the end.
	Bare bool
	// Width is the width of the terminal in characters. Tool input and output are truncated to it; 0
	// truncates nothing.
	Width int
	// Dim and Plain are the escape sequences around less important text; both may be "". They are
	// written to Raw, which is the output without the filter for escape sequences.
	Dim, Plain string
	Raw        io.Writer
}

// Printer prints chunks for a person or a program. It writes whole lines, except while text streams.
// It is not safe for concurrent use.
type Printer struct {
	out  io.Writer
	opts PrintOptions
	enc  *json.Encoder

	open bool                  // the last line has no line end yet
	kind conversation.PartKind // kind of the text that streams
	call conversation.CallID   // tool call whose line is open
	used int                   // characters of that line
	// shown holds the printed messages, and calls the tools of open messages.
	shown  map[conversation.MessageID]*printedMessage
	calls  map[conversation.CallID]*printedItem
	ended  map[conversation.SubmissionID]bool
	advice string // last advisory of the runtime
}

// printedMessage is the printed part of a message. A settled message never changes, so its items are
// dropped.
type printedMessage struct {
	of    conversation.SubmissionID
	items []*printedItem
	done  bool
}

// printedItem is a piece of text, or a tool call with its input and output.
type printedItem struct {
	kind, name string
	text       []byte
	call       conversation.CallID
	result     *string
	failed     bool
	took       *int64 // in milliseconds
}

// NewPrinter returns a printer that writes to out.
func NewPrinter(out io.Writer, o *PrintOptions) *Printer {
	p := &Printer{
		out: out, shown: map[conversation.MessageID]*printedMessage{}, calls: map[conversation.CallID]*printedItem{},
		ended: map[conversation.SubmissionID]bool{},
	}
	if o != nil {
		p.opts = *o
	}
	if p.opts.JSON {
		p.enc = json.NewEncoder(out)
		p.enc.SetEscapeHTML(false)
	}
	return p
}

// line prints a line, after ending an open one.
func (p *Printer) line(format string, args ...any) {
	p.End()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// End ends an open line of streamed text.
func (p *Printer) End() {
	if p.open {
		p.dim(false)
		fmt.Fprintln(p.out)
		p.open = false
	}
	p.kind, p.call = "", ""
}

// Notice prints a line to errOut. If errOut and the output are one terminal, file or pipe, it first
// ends a line of streamed text.
func (p *Printer) Notice(errOut io.Writer, format string, args ...any) {
	if p.out == errOut || IsTerminal(p.out) && IsTerminal(errOut) || sameFile(p.out, errOut) {
		p.End()
	}
	fmt.Fprintf(errOut, "parley: "+format+"\n", args...)
}

func (p *Printer) dim(on bool) {
	code := p.opts.Plain
	if on {
		code = p.opts.Dim
	}
	if p.opts.Raw != nil && code != "" {
		_, _ = io.WriteString(p.opts.Raw, code)
	}
}

// Begun reports whether any part of the answer to Only has arrived.
func (p *Printer) Begun() bool { return len(p.shown) > 0 || len(p.ended) > 0 }

// Chunk prints one chunk.
func (p *Printer) Chunk(c conversation.Chunk) {
	if !p.wanted(c) {
		return
	}
	if p.enc != nil {
		_ = p.enc.Encode(c)
	}
	switch c.Type {
	case conversation.ChunkReset:
		p.reset(c.Snapshot)
	case conversation.ChunkStarted:
		p.message(c.MessageID, c.SubmissionID)
	case conversation.ChunkAppended:
		p.whole(*c.Message)
	case conversation.ChunkDelta:
		p.text(p.message(c.MessageID, ""), string(c.Kind), c.Delta)
	case conversation.ChunkToolInput:
		p.called(p.message(c.MessageID, ""), &printedItem{kind: conversation.PartTypeTool, call: c.ToolCallID, name: c.ToolName, text: c.Input})
	case conversation.ChunkToolOutput:
		p.answered(p.calls[c.ToolCallID], c.ToolCallID, string(c.Output), false, c.DurationMs)
	case conversation.ChunkToolOutputError:
		p.answered(p.calls[c.ToolCallID], c.ToolCallID, *c.ErrorText, true, c.DurationMs)
	case conversation.ChunkDataPart:
		p.data(p.message(c.MessageID, ""), c.Name, string(c.Data))
	case conversation.ChunkCompleted:
		if p.call == "" { // the output of a tool follows on its line
			p.End()
		}
		p.step(c.MessageID)
	case conversation.ChunkSettled:
		p.settled(c.SubmissionID, c.Outcome, c.Error)
	}
}

// wanted reports whether a chunk belongs to the submission in Only.
func (p *Printer) wanted(c conversation.Chunk) bool {
	switch {
	case p.opts.Only == "" || c.Type == conversation.ChunkReset || c.SubmissionID == p.opts.Only:
		return true
	case c.Message != nil:
		return c.Message.SubmissionID == p.opts.Only
	case c.ToolCallID != "" && p.calls[c.ToolCallID] != nil:
		return true
	}
	return p.shown[c.MessageID] != nil
}

func (p *Printer) message(id conversation.MessageID, of conversation.SubmissionID) *printedMessage {
	m := p.shown[id]
	if m == nil {
		m = &printedMessage{of: of}
		p.shown[id] = m
	}
	return m
}

// step ends a piece of text: the next text of the same kind is a new part.
func (p *Printer) step(id conversation.MessageID) {
	if m := p.shown[id]; m != nil && len(m.items) > 0 {
		m.items = append(m.items, &printedItem{})
	}
}

func (p *Printer) text(m *printedMessage, kind, text string) {
	if text == "" {
		return
	}
	if n := len(m.items); n == 0 || m.items[n-1].kind != kind {
		m.items = append(m.items, &printedItem{kind: kind})
	}
	last := m.items[len(m.items)-1]
	last.text = append(last.text, text...)
	if p.enc != nil {
		return
	}
	if p.kind != conversation.PartKind(kind) {
		p.End()
		p.kind, p.open = conversation.PartKind(kind), true
		thinking := p.kind == conversation.PartReasoning
		p.dim(thinking)
		switch {
		case thinking && p.opts.Dim == "":
			fmt.Fprint(p.out, "thinking: ")
		case !thinking && !p.opts.Bare:
			fmt.Fprint(p.out, "assistant: ")
		}
	}
	fmt.Fprint(p.out, text)
}

func (p *Printer) called(m *printedMessage, item *printedItem) {
	m.items = append(m.items, item)
	p.calls[item.call] = item
	if p.enc != nil {
		return
	}
	p.End()
	if p.opts.Width == 0 {
		p.line("tool %s called with %s", item.name, item.text)
		return
	}
	p.dim(true)
	text := OneLine(fmt.Sprintf("tool %s %s", item.name, item.text), max(p.opts.Width/2, 20))
	fmt.Fprint(p.out, text)
	p.open, p.call, p.used = true, item.call, utf8.RuneCountInString(text)
}

func (p *Printer) answered(item *printedItem, call conversation.CallID, result string, failed bool, took *int64) {
	if item != nil {
		item.result, item.failed, item.took = &result, failed, took
	}
	if p.enc != nil {
		return
	}
	if p.opts.Width == 0 {
		verb := map[bool]string{false: "tool answered %s", true: "tool failed: %s"}[failed]
		p.line(verb, result)
		return
	}
	prefix, tail := " → ", ""
	if failed {
		prefix = " failed: "
	}
	if took != nil && *took >= time.Second.Milliseconds() {
		tail = ", " + Took(*took)
	}
	if p.call != call || !p.open {
		p.End()
		p.dim(true)
		if p.used = 0; item != nil {
			prefix = "tool " + item.name + prefix
		}
	}
	p.used += utf8.RuneCountInString(prefix + tail)
	p.open = true
	fmt.Fprint(p.out, prefix+OneLine(result, max(p.opts.Width-p.used-1, 8))+tail)
	p.End()
}

// data prints a write of data. The message keeps one item per name, as the snapshot has one part per
// name.
func (p *Printer) data(m *printedMessage, name, value string) {
	item := &printedItem{kind: conversation.DataPrefix, name: name, text: []byte(value)}
	if i := slices.IndexFunc(m.items, func(old *printedItem) bool { return old.kind == item.kind && old.name == name }); i >= 0 {
		m.items[i] = item
	} else {
		m.items = append(m.items, item)
	}
	if p.enc == nil {
		p.line("data %s: %s", name, value)
	}
}

func (p *Printer) settled(id conversation.SubmissionID, outcome conversation.Outcome, err *conversation.SettlementError) {
	if p.ended[id] || p.opts.Only != "" && id != p.opts.Only {
		return
	}
	p.ended[id] = true
	for _, m := range p.shown {
		if m.of == id {
			m.done, m.items = true, nil
		}
	}
	switch {
	case p.enc != nil:
	case err != nil && err.Message == p.advice: // already printed above
		if p.End(); !p.opts.Bare {
			p.line("[%s]", outcome)
		}
	case err != nil:
		text := err.Message
		if err.Meta["reason"] == "internal" {
			text += " The server's log has the details."
		}
		p.line("[%s: %s]", outcome, text)
	case p.opts.Bare && outcome == conversation.OutcomeCompleted:
		p.End()
	default:
		p.line("[%s]", outcome)
	}
}

// whole prints a message that arrived in one chunk.
func (p *Printer) whole(m conversation.Message) {
	s := p.shown[m.ID]
	if s != nil && s.done || m.Display == conversation.DisplayHidden {
		return
	}
	if s == nil {
		s = p.message(m.ID, m.SubmissionID)
	}
	if m.Role == conversation.RoleAssistant {
		p.rest(s, m)
		return
	}
	if s.done = true; p.enc != nil {
		return
	}
	if m.Purpose == conversation.PurposeAdvisory {
		p.advisory(m)
		return
	}
	for _, part := range m.Parts {
		switch {
		case part.Text != nil:
			p.line("%s: %s", m.Role, strings.TrimRight(*part.Text, "\n"))
		case part.Type == conversation.PartTypeFile:
			p.line("%s: (file %s, %d bytes)", m.Role, part.MediaType, *part.Size)
		}
	}
}

// advisory prints a message of the runtime, for example why a reply waits.
func (p *Printer) advisory(m conversation.Message) {
	for _, part := range m.Parts {
		if part.Text != nil {
			p.End()
			p.dim(true)
			p.advice = strings.TrimSpace(*part.Text)
			fmt.Fprintf(p.out, "[%s]", p.advice)
			p.open = true
			p.End()
		}
	}
}

// reset replaces the printed state by a snapshot. Printed text that the snapshot still holds is not
// printed again; withdrawn text is reported.
func (p *Printer) reset(s *conversation.Snapshot) {
	for _, m := range s.Messages {
		if m.Left == nil && (p.opts.Only == "" || m.SubmissionID == p.opts.Only && m.Role != conversation.RoleUser) {
			p.whole(m)
		}
	}
	for _, e := range s.Settlements {
		p.settled(e.SubmissionID, e.Outcome, e.Error)
	}
}

// rest prints the part of an answer that is not printed yet.
func (p *Printer) rest(s *printedMessage, m conversation.Message) {
	was, is := joined(s.items), itemsOf(m)
	if !begins(is, was) {
		if p.enc == nil {
			p.line("[starting over]")
		}
		if begins(was, is) {
			s.items, p.kind = is, ""
			return
		}
		was = nil
	}
	s.items = nil
	for i, item := range is {
		var old *printedItem
		if i < len(was) {
			old = was[i]
		}
		p.item(s, old, item)
	}
}

// item prints the part of an item that is not printed yet.
func (p *Printer) item(s *printedMessage, old, item *printedItem) {
	switch item.kind {
	case conversation.PartTypeTool:
		if old != nil {
			s.items, p.calls[item.call] = append(s.items, old), old
		} else {
			p.called(s, &printedItem{kind: item.kind, call: item.call, name: item.name, text: item.text})
		}
		if item.result != nil && (old == nil || old.result == nil) {
			p.answered(p.calls[item.call], item.call, *item.result, item.failed, item.took)
		}
	case conversation.DataPrefix:
		if old != nil {
			s.items = append(s.items, old)
		}
		if old == nil || !bytes.Equal(old.text, item.text) {
			p.data(s, item.name, string(item.text))
		}
	default:
		if old != nil {
			s.items = append(s.items, old)
			p.text(s, item.kind, string(item.text[len(old.text):]))
		} else {
			p.text(s, item.kind, string(item.text))
		}
	}
}

// itemsOf converts a message to items.
func itemsOf(m conversation.Message) []*printedItem {
	var list []*printedItem
	for _, part := range m.Parts {
		switch {
		case part.Type == conversation.PartTypeTool:
			item := &printedItem{kind: part.Type, call: part.ToolCallID, name: part.ToolName, text: part.Input, took: part.DurationMs}
			switch part.State {
			case conversation.StateOutputAvailable:
				item.result = new(string(part.Output))
			case conversation.StateOutputError:
				item.result, item.failed = part.ErrorText, true
			}
			list = append(list, item)
		case strings.HasPrefix(part.Type, conversation.DataPrefix):
			list = append(list, &printedItem{kind: conversation.DataPrefix, name: strings.TrimPrefix(part.Type, conversation.DataPrefix), text: part.Data})
		case part.Text != nil && *part.Text != "":
			list = append(list, &printedItem{kind: part.Type, text: []byte(*part.Text)})
		}
	}
	return joined(list)
}

// joined merges adjacent texts of one kind, because chunks and snapshots split texts at different
// places.
func joined(list []*printedItem) []*printedItem {
	var out []*printedItem
	for _, item := range list {
		n := len(out)
		switch {
		case item.kind == "":
		case n > 0 && out[n-1].kind == item.kind && (item.kind == conversation.PartTypeText || item.kind == conversation.PartTypeReasoning):
			out[n-1] = &printedItem{kind: item.kind, text: slices.Concat(out[n-1].text, item.text)}
		default:
			out = append(out, item)
		}
	}
	return out
}

// begins reports whether with is a prefix of list. The last text of with may be incomplete.
func begins(list, with []*printedItem) bool {
	if len(with) > len(list) {
		return false
	}
	for i, w := range with {
		l := list[i]
		same := bytes.Equal(l.text, w.text) || i == len(with)-1 && bytes.HasPrefix(l.text, w.text) || w.kind == conversation.DataPrefix
		if l.kind != w.kind || l.call != w.call || l.name != w.name || !same {
			return false
		}
	}
	return true
}

// SettlementOf returns the settlement of a submission in a chunk, which may be a reset.
func SettlementOf(c conversation.Chunk, id conversation.SubmissionID) (conversation.Settlement, bool) {
	if c.Type == conversation.ChunkSettled && c.SubmissionID == id {
		return conversation.Settlement{SubmissionID: id, Outcome: c.Outcome, Error: c.Error}, true
	}
	if c.Type == conversation.ChunkReset {
		for _, s := range c.Snapshot.Settlements {
			if s.SubmissionID == id {
				return s, true
			}
		}
	}
	return conversation.Settlement{}, false
}
