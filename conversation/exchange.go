package conversation

import (
	"encoding/json"
	"time"
)

// Step is one model round trip of a submission, or, when Note is set, a note of
// the runtime to the model between two of them.
type Step struct {
	Turn       TurnID     `json:"turn,omitempty"`
	Model      string     `json:"model,omitempty"`
	Completed  bool       `json:"completed,omitempty"`
	StopReason string     `json:"stopReason,omitempty"`
	Usage      Usage      `json:"usage,omitzero"`
	Note       string     `json:"note,omitempty"`
	Parts      []StepPart `json:"parts,omitempty"`
}

// StepPart is one part of a step as the model sees it. Exactly one of Text and
// Tool is meaningful: Tool is nil for text and reasoning.
//
// Signature is what the vendor wants back with the part, which may be all there is of it.
type StepPart struct {
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
	Stored       *StoredOutput   `json:"stored,omitempty"` // all of Output, if that is a part of it
	Images       []Attachment    `json:"images,omitempty"`
	Terminate    bool            `json:"terminate,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
}

// Steps returns the model's view of what was done for the submission, oldest
// first. The values are copies, but share JSON bytes and stored outputs with the state.
func (s *Submission) Steps() []Step {
	out := make([]Step, 0, len(s.steps))
	for _, st := range s.steps {
		out = append(out, st.view())
	}
	return out
}

// LastStep returns the newest step, or note, as Steps does, and whether there is one.
func (s *Submission) LastStep() (Step, bool) {
	if len(s.steps) == 0 {
		return Step{}, false
	}
	return s.steps[len(s.steps)-1].view(), true
}

// Usage is what all steps have used.
func (s *Submission) Usage() Usage {
	var sum Usage
	for _, st := range s.steps {
		sum.Add(st.usage)
	}
	return sum
}

func (st *step) view() Step {
	v := st.facts()
	for _, p := range st.parts {
		v.Parts = append(v.Parts, p.stepPart())
	}
	return v
}

// facts is a step without its parts.
func (st *step) facts() Step {
	return Step{Turn: st.turn, Model: st.model, Completed: st.completed, StopReason: st.stop, Usage: st.usage, Note: st.note}
}

func (p *part) stepPart() StepPart {
	switch p.kind {
	case PartTypeReasoning:
		return StepPart{Kind: PartReasoning, Text: p.text.String(), Signature: p.signature}
	case PartTypeTool:
		return StepPart{Signature: p.signature, Tool: &ToolCall{
			Call: p.call, ProviderCall: p.providerCall, Name: p.name, Input: p.data, Durable: p.durable,
			Settled: p.settled, Failed: p.failed, Output: p.output, Stored: p.stored, Images: p.images, Terminate: p.terminate, ErrorText: p.errorText,
		}}
	}
	return StepPart{Kind: PartText, Text: p.text.String(), Signature: p.signature}
}

// PartBytes is what a part of a response counts beside its text, in [Submission.Said]:
// that is about what it takes to keep it, however short it is.
const PartBytes = 256

// Said is how much models have said in the response: the bytes of text, reasoning and
// signatures, and [PartBytes] for each part that is text or reasoning.
func (s *Submission) Said() int {
	sum := 0
	for _, st := range s.steps {
		for _, p := range st.parts {
			if p.kind != PartTypeTool {
				sum += PartBytes + p.text.len() + len(p.signature)
			}
		}
	}
	return sum
}

// Brought is how much the calls of a response have brought, those of its subagents
// included: the bytes of arguments, outputs, error texts and recorded steps, and
// [PartBytes] for each.
func (s *State) Brought(id SubmissionID) int {
	sub := s.bySub[id]
	if sub == nil {
		return 0
	}
	root := s.root(sub)
	sum := root.brought
	for _, c := range s.children {
		if s.root(c) == root {
			sum += c.brought
		}
	}
	return sum
}

// brought is what the part of a call counts.
func (p *part) brought() int {
	if p.kind != PartTypeTool {
		return 0
	}
	return PartBytes + len(p.data) + len(p.output) + len(p.errorText) + p.stored.bytes()
}

// pieceBytes is about what a [StoredPiece] takes.
const pieceBytes = 128

// bytes is about what is kept of the output.
func (o *StoredOutput) bytes() int {
	if o == nil {
		return 0
	}
	return len(o.Head) + len(o.Tail) + pieceBytes*len(o.Pieces)
}

func (r *StepRecorded) brought() int { return PartBytes + len(r.Output) }

// OpenStep returns the turn of the step under way, or "".
func (s *Submission) OpenStep() TurnID {
	if st := s.lastStep(); st != nil && !st.completed {
		return st.turn
	}
	return ""
}

// OpenCalls returns the calls of the submission that have no outcome, in call
// order.
func (s *Submission) OpenCalls() []ToolCall {
	var out []ToolCall
	for _, st := range s.steps {
		for _, p := range st.parts {
			if p.kind == PartTypeTool && !p.settled {
				out = append(out, *p.stepPart().Tool)
			}
		}
	}
	return out
}

// Exchanges returns the submissions the model sees while it works on id: all
// that were admitted before it and did not stay without an attempt, and id
// itself. A message admitted later is not part of it, wherever it stands in the
// log. What [State.Cut] took out comes before them.
func (s *State) Exchanges(id SubmissionID) []*Submission {
	if sub := s.bySub[id]; sub != nil && sub.Child != "" { // a subagent knows its task alone
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

// tried reports whether there was an attempt; a released one leaves its steps.
func (s *Submission) tried() bool { return s.Attempts > 0 || len(s.steps) > 0 }

// ElapsedNow is the part of [Submission.Elapsed] that belongs to the attempt
// under way.
func (s *Submission) ElapsedNow() time.Duration {
	return time.Duration(s.elapsed[1]) * time.Millisecond
}
