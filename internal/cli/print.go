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

// PrintOptions change how chunks are printed. Nil and every zero field work.
type PrintOptions struct {
	// Only is the submission whose answer is printed, and nothing else; "" prints all.
	Only conversation.SubmissionID
	// JSON prints chunks as lines of JSON.
	JSON bool
	// Bare leaves out who speaks, and the outcome where it is completed: there is one
	// speaker, and somebody sees the end.
	Bare bool
	// Width is that of the terminal in characters, to which what tools are told and say is
	// cut; 0 cuts nothing.
	Width int
	// Dim begins and ends what is less important; "" for both changes nothing. They go to
	// Raw, which is out below what neutralizes escapes.
	Dim, Plain string
	Raw        io.Writer
}

// Printer shows chunks to a person, or to a program. It writes whole lines except while text
// streams in. One goroutine owns it.
type Printer struct {
	out  io.Writer
	opts PrintOptions
	enc  *json.Encoder

	open bool                  // the last line is not ended
	kind conversation.PartKind // of the text under way
	call conversation.CallID   // whose line is not ended
	used int                   // characters of that line
	// shown are the messages that have been printed, calls the tools of those under way.
	shown map[conversation.MessageID]*shownMessage
	calls map[conversation.CallID]*shownItem
	ended map[conversation.SubmissionID]bool
	said  string // by the runtime itself, last
}

// shownMessage is what was printed of a message. Once its submission is settled it does not
// change, and its items are forgotten.
type shownMessage struct {
	of    conversation.SubmissionID
	items []*shownItem
	done  bool
}

// shownItem is a piece of text, or a tool with what it was told and has said.
type shownItem struct {
	kind, name string
	text       []byte
	call       conversation.CallID
	result     *string
	failed     bool
	took       *int64 // in milliseconds
}

// NewPrinter returns a printer to out.
func NewPrinter(out io.Writer, o *PrintOptions) *Printer {
	p := &Printer{
		out: out, shown: map[conversation.MessageID]*shownMessage{}, calls: map[conversation.CallID]*shownItem{},
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

// line prints a line of its own.
func (p *Printer) line(format string, args ...any) {
	p.End()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// End ends a line of streamed text.
func (p *Printer) End() {
	if p.open {
		p.dim(false)
		fmt.Fprintln(p.out)
		p.open = false
	}
	p.kind, p.call = "", ""
}

// Notice tells errOut something on a line of its own, also in the middle of a text where both
// are one terminal, file or pipe.
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

// Begun reports whether anything of the answer to Only has come.
func (p *Printer) Begun() bool { return len(p.shown) > 0 || len(p.ended) > 0 }

// Chunk shows one chunk.
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
		p.called(p.message(c.MessageID, ""), &shownItem{kind: conversation.PartTypeTool, call: c.ToolCallID, name: c.ToolName, text: c.Input})
	case conversation.ChunkToolOutput:
		p.answered(p.calls[c.ToolCallID], c.ToolCallID, string(c.Output), false, c.DurationMs)
	case conversation.ChunkToolOutputError:
		p.answered(p.calls[c.ToolCallID], c.ToolCallID, *c.ErrorText, true, c.DurationMs)
	case conversation.ChunkDataPart:
		p.data(p.message(c.MessageID, ""), c.Name, string(c.Data))
	case conversation.ChunkCompleted:
		if p.call == "" { // what a tool says comes on its line
			p.End()
		}
		p.step(c.MessageID)
	case conversation.ChunkSettled:
		p.settled(c.SubmissionID, c.Outcome, c.Error)
	}
}

// wanted reports whether a chunk is about the submission that is followed.
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

func (p *Printer) message(id conversation.MessageID, of conversation.SubmissionID) *shownMessage {
	m := p.shown[id]
	if m == nil {
		m = &shownMessage{of: of}
		p.shown[id] = m
	}
	return m
}

// step ends a piece of text: the next one of its kind is another.
func (p *Printer) step(id conversation.MessageID) {
	if m := p.shown[id]; m != nil && len(m.items) > 0 {
		m.items = append(m.items, &shownItem{})
	}
}

func (p *Printer) text(m *shownMessage, kind, text string) {
	if text == "" {
		return
	}
	if n := len(m.items); n == 0 || m.items[n-1].kind != kind {
		m.items = append(m.items, &shownItem{kind: kind})
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

func (p *Printer) called(m *shownMessage, item *shownItem) {
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

func (p *Printer) answered(item *shownItem, call conversation.CallID, result string, failed bool, took *int64) {
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
	said, tail := " → ", ""
	if failed {
		said = " failed: "
	}
	if took != nil && *took >= time.Second.Milliseconds() {
		tail = ", " + Took(*took)
	}
	if p.call != call || !p.open {
		p.End()
		p.dim(true)
		if p.used = 0; item != nil {
			said = "tool " + item.name + said
		}
	}
	p.used += utf8.RuneCountInString(said + tail)
	p.open = true
	fmt.Fprint(p.out, said+OneLine(result, max(p.opts.Width-p.used-1, 8))+tail)
	p.End()
}

// data prints a write of data. The message keeps one item per name, as the snapshot has one part.
func (p *Printer) data(m *shownMessage, name, value string) {
	item := &shownItem{kind: conversation.DataPrefix, name: name, text: []byte(value)}
	if i := slices.IndexFunc(m.items, func(old *shownItem) bool { return old.kind == item.kind && old.name == name }); i >= 0 {
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
	case err != nil && err.Message == p.said: // it stands above
		if p.End(); !p.opts.Bare {
			p.line("[%s]", outcome)
		}
	case err != nil:
		text := err.Message
		if err.Meta["reason"] == "internal" {
			text += " The server's log tells more."
		}
		p.line("[%s: %s]", outcome, text)
	case p.opts.Bare && outcome == conversation.OutcomeCompleted:
		p.End()
	default:
		p.line("[%s]", outcome)
	}
}

// whole prints a message that came in one piece.
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

// advisory prints what the runtime itself says, such as what a reply waits for.
func (p *Printer) advisory(m conversation.Message) {
	for _, part := range m.Parts {
		if part.Text != nil {
			p.End()
			p.dim(true)
			p.said = strings.TrimSpace(*part.Text)
			fmt.Fprintf(p.out, "[%s]", p.said)
			p.open = true
			p.End()
		}
	}
}

// reset takes a snapshot in the place of what came before: what was shown and is there stays,
// and of what was withdrawn is said so.
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

// rest prints of an answer what has not been.
func (p *Printer) rest(s *shownMessage, m conversation.Message) {
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
		var old *shownItem
		if i < len(was) {
			old = was[i]
		}
		p.item(s, old, item)
	}
}

// item prints what an item has beyond what was shown of it.
func (p *Printer) item(s *shownMessage, old, item *shownItem) {
	switch item.kind {
	case conversation.PartTypeTool:
		if old != nil {
			s.items, p.calls[item.call] = append(s.items, old), old
		} else {
			p.called(s, &shownItem{kind: item.kind, call: item.call, name: item.name, text: item.text})
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

// itemsOf is a message as items.
func itemsOf(m conversation.Message) []*shownItem {
	var list []*shownItem
	for _, part := range m.Parts {
		switch {
		case part.Type == conversation.PartTypeTool:
			item := &shownItem{kind: part.Type, call: part.ToolCallID, name: part.ToolName, text: part.Input, took: part.DurationMs}
			switch part.State {
			case conversation.StateOutputAvailable:
				item.result = new(string(part.Output))
			case conversation.StateOutputError:
				item.result, item.failed = part.ErrorText, true
			}
			list = append(list, item)
		case strings.HasPrefix(part.Type, conversation.DataPrefix):
			list = append(list, &shownItem{kind: conversation.DataPrefix, name: strings.TrimPrefix(part.Type, conversation.DataPrefix), text: part.Data})
		case part.Text != nil && *part.Text != "":
			list = append(list, &shownItem{kind: part.Type, text: []byte(*part.Text)})
		}
	}
	return joined(list)
}

// joined is a list in which no two texts of a kind follow each other: where one ends is not
// the same in chunks and in snapshots.
func joined(list []*shownItem) []*shownItem {
	var out []*shownItem
	for _, item := range list {
		n := len(out)
		switch {
		case item.kind == "":
		case n > 0 && out[n-1].kind == item.kind && (item.kind == conversation.PartTypeText || item.kind == conversation.PartTypeReasoning):
			out[n-1] = &shownItem{kind: item.kind, text: slices.Concat(out[n-1].text, item.text)}
		default:
			out = append(out, item)
		}
	}
	return out
}

// begins reports whether a list begins with another one, whose last text may go on.
func begins(list, with []*shownItem) bool {
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

// SettlementOf finds the settlement of a submission in a chunk; a reset may carry it.
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
