package feed

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxMarks bounds the marks of a stream. When there are more, every other goes.
	maxMarks = 128
	// firstGap is how many events there are between two marks at first, about.
	firstGap = 64
	// maxMarkState bounds what a mark carries. While more is under way none is made.
	maxMarkState = 512
)

// Mark is a place in a stream that a projector can go on from.
type Mark struct {
	// Seq is the number of the batch after which it is.
	Seq int64 `json:"seq"`
	// Next is the number of the next event, Born that of the first of the life.
	Next int64 `json:"next"`
	Born int64 `json:"born,omitempty"`
	// State is what a projector carries there.
	State json.RawMessage `json:"state"`
}

// Marks are places in the present life of a stream, in order and about evenly far from each other, so that a
// reader of any event begins near it. They are a shortcut: without them a stream is made of
// the log from its start. The zero value has none.
//
// Invariant: there are at most maxMarks.
type Marks struct {
	// Version is that of the projection.
	Version int `json:"v"`
	// Gap is how many events are between two marks, at least.
	Gap  int64  `json:"gap"`
	List []Mark `json:"marks"`
}

// Mark returns where the projector is, after batch seq, however much that carries.
func (p *Projector) Mark(seq int64) (Mark, error) {
	state, err := conversation.EncodeJSON(&p.s)
	if err != nil {
		return Mark{}, fmt.Errorf("mark event stream: %w", err)
	}
	return Mark{Seq: seq, Next: p.s.Next, Born: p.s.Born, State: state}, nil
}

// Resume returns a projector that goes on from a mark in the life that created began, nil if
// its events are only counted.
func (m Mark) Resume(created *conversation.ConversationCreated) (*Projector, error) {
	p := &Projector{}
	if created != nil {
		if p.created(created); p.failed != nil {
			return nil, fmt.Errorf("resume event stream: %w", p.failed)
		}
	}
	if err := json.Unmarshal(m.State, &p.s); err != nil {
		return nil, fmt.Errorf("resume event stream: %w", err)
	}
	for id, s := range p.s.Owed {
		if s == nil {
			return nil, fmt.Errorf("resume event stream: nothing is known of %s", id)
		}
	}
	for id, l := range p.s.Tasks {
		if l == nil {
			return nil, fmt.Errorf("resume event stream: nothing is known of %s", id)
		}
	}
	if p.s.Next != m.Next || p.s.Born != m.Born {
		return nil, fmt.Errorf("resume event stream: mark of event %d is of %d", m.Next, p.s.Next)
	}
	return p, nil
}

// ParseMarks reads what [Marks.Encode] wrote. Marks of another version are none.
func ParseMarks(b []byte) (Marks, error) {
	var m Marks
	if len(b) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return Marks{}, fmt.Errorf("parse marks of events: %w", err)
	}
	if m.Version != Version {
		return Marks{}, nil
	}
	for i, k := range m.List {
		if k.Seq < 0 || k.Next < 0 || i > 0 && (k.Seq <= m.List[i-1].Seq || k.Next < m.List[i-1].Next) {
			return Marks{}, fmt.Errorf("parse marks of events: mark %d is out of order", i)
		}
	}
	if len(m.List) > maxMarks || m.Gap < 0 {
		return Marks{}, fmt.Errorf("parse marks of events: %d marks, a gap of %d", len(m.List), m.Gap)
	}
	return m, nil
}

// Encode returns one line, without its newline.
func (m Marks) Encode() ([]byte, error) {
	m.Version = Version
	return conversation.EncodeJSON(m)
}

// Last returns the newest mark; ok is false if there is none.
func (m *Marks) Last() (k Mark, ok bool) {
	if len(m.List) == 0 {
		return Mark{}, false
	}
	return m.List[len(m.List)-1], true
}

// Before returns the newest mark from which event n is reached; ok is false if the log has
// to be read from its start.
func (m *Marks) Before(n int64) (k Mark, ok bool) {
	i, _ := slices.BinarySearchFunc(m.List, n, func(k Mark, n int64) int {
		if k.Next <= n {
			return -1
		}
		return 1
	})
	if i == 0 {
		return Mark{}, false
	}
	return m.List[i-1], true
}

// Note marks where a projector is, after batch seq, if that is far enough from the mark
// before and there is little to carry.
func (m *Marks) Note(seq int64, p *Projector) {
	m.Gap = max(m.Gap, firstGap)
	if last, ok := m.Last(); ok && last.Born != p.s.Born { // of a life that was deleted
		m.List = nil
	}
	last, ok := m.Last()
	near := ok && p.s.Next-last.Next < m.Gap || !ok && p.s.Born == 0 && p.s.Next < m.Gap
	if near || ok && seq <= last.Seq || p.Weight() > 4*maxMarkState {
		return
	}
	mark, err := p.Mark(seq)
	if err != nil || len(mark.State) > maxMarkState {
		return
	}
	m.List = append(m.List, mark)
	if len(m.List) <= maxMarks {
		return
	}
	kept := m.List[:0]
	for i, k := range m.List {
		if i%2 == 1 {
			kept = append(kept, k)
		}
	}
	m.List, m.Gap = kept, 2*m.Gap
}

// Weight is about how many bytes the projector holds.
func (p *Projector) Weight() int64 {
	n := 256
	for _, s := range p.s.Owed {
		n += s.weight()
	}
	for _, l := range p.s.Tasks {
		n += l.weight()
	}
	if p.s.Run != nil {
		n += 64 + len(p.s.Run.Result)
	}
	return int64(n)
}

func (l *lane) weight() int {
	n := 128 + len(l.Text)
	if l.Asked != nil {
		n += weightOf(l.Asked.Content)
	}
	if l.Turn != nil {
		n += 64 + weightOf(l.Turn.Content)
		for _, m := range l.Turn.Results {
			n += weightOf(m.Content)
		}
	}
	return n
}

func weightOf(content []block) (n int) {
	for _, b := range content {
		n += 64 + len(b.Arguments)
		if b.Text != nil {
			n += len(*b.Text)
		}
		if b.Thinking != nil {
			n += len(*b.Thinking)
		}
	}
	return n
}

// Weight is about how many bytes the marks hold.
func (m *Marks) Weight() (n int64) {
	for _, k := range m.List {
		n += 48 + int64(len(k.State))
	}
	return n
}
