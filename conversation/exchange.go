package conversation

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Turn is one model round trip of a submission. If Note is set, it is a note of the runtime to the
// model between two turns.
type Turn struct {
	ID         TurnID     `json:"turn,omitempty"`
	Model      string     `json:"model,omitempty"`
	Completed  bool       `json:"completed,omitempty"`
	StopReason string     `json:"stopReason,omitempty"`
	Usage      Usage      `json:"usage,omitzero"`
	Dollars    float64    `json:"dollars,omitempty"` // cost of the turn
	Note       string     `json:"note,omitempty"`
	Parts      []TurnPart `json:"parts,omitempty"`
}

// TurnPart is one part of a turn as the model sees it. Exactly one of Text and Tool is meaningful:
// Tool is nil for text and reasoning.
//
// Signature is opaque data that the vendor requires back with the part. A part may consist of its
// signature only.
type TurnPart struct {
	Kind      PartKind  `json:"kind,omitempty"`
	Text      string    `json:"text,omitempty"`
	Signature string    `json:"signature,omitempty"`
	Tool      *ToolCall `json:"tool,omitempty"`
}

// ToolCall is a call with its outcome so far.
type ToolCall struct {
	Call         CallID          `json:"call"`
	ProviderCall string          `json:"providerCall,omitempty"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input,omitempty"`
	Durable      bool            `json:"durable,omitempty"`
	Settled      bool            `json:"settled,omitempty"`
	Failed       bool            `json:"failed,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Stored       *StoredOutput   `json:"stored,omitempty"` // the whole output, if Output is a part of it
	Images       []Attachment    `json:"images,omitempty"`
	Terminate    bool            `json:"terminate,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
	// Lost counts the attempts that were lost while the call had no outcome and no wait, and that
	// another attempt followed.
	Lost int `json:"-"`
}

// Turns returns the turns of the submission as the model sees them, oldest first. The values are
// copies, but share JSON bytes and stored outputs with the state.
func (s *Submission) Turns() []Turn {
	out := make([]Turn, 0, len(s.turns))
	for _, t := range s.turns {
		out = append(out, t.view())
	}
	return out
}

// LastTurn returns the newest turn or note, as Turns does, and whether there is one.
func (s *Submission) LastTurn() (Turn, bool) {
	if len(s.turns) == 0 {
		return Turn{}, false
	}
	return s.turns[len(s.turns)-1].view(), true
}

// Output returns the newest output given by [FinishTool], nil if there is none.
func (s *Submission) Output() json.RawMessage {
	for _, t := range slices.Backward(s.turns) {
		for _, p := range slices.Backward(t.parts) {
			if p.kind == PartTypeTool && p.name == FinishTool && p.settled && !p.failed {
				return p.output
			}
		}
	}
	return nil
}

// Usage returns the tokens used by all turns.
func (s *Submission) Usage() Usage {
	var sum Usage
	for _, t := range s.turns {
		sum.Add(t.usage)
	}
	return sum
}

func (t *turn) view() Turn {
	v := t.facts()
	for _, p := range t.parts {
		v.Parts = append(v.Parts, p.turnPart())
	}
	return v
}

// facts returns a turn without its parts.
func (t *turn) facts() Turn {
	return Turn{ID: t.id, Model: t.model, Completed: t.completed, StopReason: t.stop, Usage: t.usage, Dollars: t.dollars, Note: t.note}
}

func (p *part) turnPart() TurnPart {
	switch p.kind {
	case PartTypeReasoning:
		return TurnPart{Kind: PartReasoning, Text: p.text.String(), Signature: p.signature}
	case PartTypeTool:
		return TurnPart{Signature: p.signature, Tool: &ToolCall{
			Call: p.call, ProviderCall: p.providerCall, Name: p.name, Input: p.data, Durable: p.durable,
			Settled: p.settled, Failed: p.failed, Output: p.output, Stored: p.stored, Images: p.images, Terminate: p.terminate, ErrorText: p.errorText, Lost: p.lost,
		}}
	}
	return TurnPart{Kind: PartText, Text: p.text.String(), Signature: p.signature}
}

// WroteData reports whether the response to sub has data parts.
func (s *State) WroteData(sub *Submission) bool {
	m := s.byID[sub.Message]
	return m != nil && slices.ContainsFunc(m.parts, func(p *part) bool { return p.kind == DataPrefix })
}

// HasText reports whether a turn has text other than white space. Reasoning does not count.
func (t Turn) HasText() bool {
	return slices.ContainsFunc(t.Parts, func(p TurnPart) bool {
		return p.Tool == nil && p.Kind == PartText && strings.TrimSpace(p.Text) != ""
	})
}

// HasCalls reports whether a turn has tool calls.
func (t Turn) HasCalls() bool {
	return slices.ContainsFunc(t.Parts, func(p TurnPart) bool { return p.Tool != nil })
}

// PartBytes is the fixed size counted for each part of a response in [Submission.OutputBytes]. It
// approximates the overhead of keeping a part.
const PartBytes = 256

// OutputBytes returns the size of the response's model output: the bytes of text, reasoning and signatures,
// and [PartBytes] for each part of text or reasoning.
func (s *Submission) OutputBytes() int {
	sum := 0
	for _, t := range s.turns {
		for _, p := range t.parts {
			if p.kind != PartTypeTool {
				sum += PartBytes + p.text.len() + len(p.signature)
			}
		}
	}
	return sum
}

// Spent is the resource use of a client's submission so far, including its subagents.
type Spent struct {
	// Turns counts the model calls that have ended. ToolCalls counts the calls they requested,
	// including those that never ran.
	Turns, ToolCalls int
	// Usage counts the tokens of these model calls. Tokens is its Total, and Dollars is the price.
	Usage   Usage
	Tokens  int64
	Dollars float64
}

func (s *Spent) add(sub *Submission) {
	for _, t := range sub.turns {
		if t.completed {
			s.Turns++
		}
		s.Usage.Add(t.usage)
		s.Tokens += t.usage.Total
		s.Dollars += t.dollars
		for _, p := range t.parts {
			if p.kind == PartTypeTool {
				s.ToolCalls++
			}
		}
	}
}

// Spent returns the resource use of the client's submission to which a submission belongs.
func (s *State) Spent(id SubmissionID) Spent {
	var sum Spent
	s.eachOf(id, sum.add)
	return sum
}

// eachOf calls visit for the client's submission to which a submission belongs, and for those of its
// subagents.
func (s *State) eachOf(id SubmissionID, visit func(*Submission)) {
	sub := s.bySub[id]
	if sub == nil {
		return
	}
	root := s.root(sub)
	visit(root)
	for _, c := range s.children {
		if s.root(c) == root {
			visit(c)
		}
	}
}

// CallBytes returns the size of the calls of a response, including its subagents: the bytes of
// arguments, outputs, error texts and recorded steps, and [PartBytes] for each.
func (s *State) CallBytes(id SubmissionID) int {
	sum := 0
	s.eachOf(id, func(sub *Submission) { sum += sub.callBytes })
	return sum
}

// callBytes returns the counted size of a call's part.
func (p *part) callBytes() int {
	if p.kind != PartTypeTool {
		return 0
	}
	return PartBytes + len(p.data) + len(p.output) + len(p.errorText) + p.stored.Bytes()
}

// pieceBytes is the estimated size of a [StoredPiece].
const pieceBytes = 128

// Bytes returns the estimated memory of the output, 0 for nil.
func (o *StoredOutput) Bytes() int {
	if o == nil {
		return 0
	}
	return len(o.Head) + len(o.Tail) + pieceBytes*len(o.Pieces)
}

func (r *StepRecorded) callBytes() int { return PartBytes + len(r.Output) }

// OpenTurn returns the id of the open turn, or "".
func (s *Submission) OpenTurn() TurnID {
	if t := s.lastTurn(); t != nil && !t.completed {
		return t.id
	}
	return ""
}

// OpenCalls returns the calls of the submission without an outcome, in call order.
func (s *Submission) OpenCalls() []ToolCall {
	var out []ToolCall
	for _, t := range s.turns {
		for _, p := range t.parts {
			if p.kind == PartTypeTool && !p.settled {
				out = append(out, *p.turnPart().Tool)
			}
		}
	}
	return out
}

// Exchanges returns the submissions that the model sees while it works on id: id itself, and all
// submissions admitted before it that had an attempt. A message admitted later is excluded, wherever
// it is in the log. Exchanges removed by [State.Cut] come before them.
func (s *State) Exchanges(id SubmissionID) []*Submission {
	if sub := s.bySub[id]; sub != nil && sub.Child != "" { // a subagent sees only its task
		return []*Submission{sub}
	}
	var out []*Submission
	for _, sub := range s.submissions {
		if sub.ID == id {
			return append(out, sub)
		}
		if sub.tried() {
			out = append(out, sub)
		}
	}
	return out
}

// tried reports whether there was an attempt. A released attempt leaves its turns.
func (s *Submission) tried() bool { return s.Attempts > 0 || len(s.turns) > 0 }

// ElapsedNow returns the part of [Submission.Elapsed] that belongs to the current attempt.
func (s *Submission) ElapsedNow() time.Duration {
	return time.Duration(s.elapsed[1]) * time.Millisecond
}
