package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// printer shows chunks to a person. It writes whole lines except while text
// streams in.
type printer struct {
	out  io.Writer
	open bool                  // the last line is not ended
	kind conversation.PartKind // of the text under way
}

func (p *printer) line(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end ends a line of streamed text.
func (p *printer) end() {
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
	p.kind = ""
}

// chunk shows one chunk.
func (p *printer) chunk(c conversation.Chunk) {
	switch c.Type {
	case conversation.ChunkReset:
		for _, m := range c.Snapshot.Messages {
			p.message(m)
		}
		for _, s := range c.Snapshot.Settlements {
			p.settled(s.Outcome, s.Error)
		}
	case conversation.ChunkAppended:
		p.message(*c.Message)
	case conversation.ChunkDelta:
		if p.kind != c.Kind {
			p.end()
			fmt.Fprint(p.out, map[conversation.PartKind]string{conversation.PartText: "assistant: ", conversation.PartReasoning: "thinking: "}[c.Kind])
			p.kind, p.open = c.Kind, true
		}
		fmt.Fprint(p.out, c.Delta)
	case conversation.ChunkToolInput:
		p.line("tool %s called with %s", c.ToolName, c.Input)
	case conversation.ChunkToolOutput:
		p.line("tool answered %s", c.Output)
	case conversation.ChunkToolOutputError:
		p.line("tool failed: %s", *c.ErrorText)
	case conversation.ChunkDataPart:
		p.line("data %s: %s", c.Name, c.Data)
	case conversation.ChunkCompleted:
		p.end()
	case conversation.ChunkSettled:
		p.settled(c.Outcome, c.Error)
	}
}

func (p *printer) settled(outcome conversation.Outcome, err *conversation.SettlementError) {
	if err != nil {
		text := err.Message
		if reason, ok := err.Meta["reason"]; ok {
			text += fmt.Sprintf(" Reason: %v; the server's log tells more.", reason)
		}
		p.line("[%s: %s]", outcome, text)
		return
	}
	p.line("[%s]", outcome)
}

func (p *printer) message(m conversation.Message) {
	if m.Display == conversation.DisplayHidden {
		return
	}
	for _, part := range m.Parts {
		switch {
		case part.Type == conversation.PartTypeReasoning:
			p.line("thinking: %s", *part.Text)
		case strings.HasPrefix(part.Type, conversation.DataPrefix):
			p.line("data %s: %s", strings.TrimPrefix(part.Type, conversation.DataPrefix), part.Data)
		case part.Text != nil:
			p.line("%s: %s", m.Role, strings.TrimRight(*part.Text, "\n"))
		case part.Type == conversation.PartTypeFile:
			p.line("%s: (file %s, %d bytes)", m.Role, part.MediaType, *part.Size)
		case part.Type == conversation.PartTypeTool:
			p.line("tool %s called with %s", part.ToolName, part.Input)
			switch part.State {
			case conversation.StateOutputAvailable:
				p.line("tool answered %s", part.Output)
			case conversation.StateOutputError:
				p.line("tool failed: %s", *part.ErrorText)
			}
		}
	}
}

// SettlementOf finds the outcome of a submission in a chunk; a reset may carry it.
func SettlementOf(c conversation.Chunk, id conversation.SubmissionID) (conversation.Outcome, bool) {
	if c.Type == conversation.ChunkSettled && c.SubmissionID == id {
		return c.Outcome, true
	}
	if c.Type == conversation.ChunkReset {
		for _, s := range c.Snapshot.Settlements {
			if s.SubmissionID == id {
				return s.Outcome, true
			}
		}
	}
	return "", false
}

// ShowChunks prints chunks for a person or for a program. After the last one, end ends
// the line of a text that was cut off.
func ShowChunks(out io.Writer, asJSON bool) (show func(conversation.Chunk), end func()) {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(c conversation.Chunk) { _ = enc.Encode(c) }, func() {}
	}
	p := &printer{out: out}
	return p.chunk, p.end
}
