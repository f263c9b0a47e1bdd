package feed

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxMarks bounds the marks of a stream. Above it, every second one is dropped.
	maxMarks = 128
	// firstGap is the initial distance between marks, in events.
	firstGap = 64
	// maxMarkState bounds the state in a mark. No mark is made while the state is larger.
	maxMarkState = 512
)

// Mark is a position in a stream from which a projector can resume.
type Mark struct {
	// Seq is the number of the batch before the position.
	Seq int64 `json:"seq"`
	// Next is the number of the next event, Born that of the incarnation's first event.
	Next       int64 `json:"next"`
	FirstEvent int64 `json:"born,omitempty"`
	// State is the encoded state of the projector.
	State json.RawMessage `json:"state"`
}

// Marks are positions in the current incarnation of a stream, in order and about evenly spaced. A
// reader of any event starts near it. They are an optimization: without them the log is read from its
// start. The zero value has none.
//
// Invariant: there are at most maxMarks.
type Marks struct {
	// Version is the version of the projection.
	Version int `json:"v"`
	// Gap is the minimum distance between marks, in events.
	Gap  int64  `json:"gap"`
	List []Mark `json:"marks"`
}

// Mark returns the projector's position after batch seq, whatever the size of its state.
func (p *Projector) Mark(seq int64) (Mark, error) {
	state, err := conversation.EncodeJSON(&p.s)
	if err != nil {
		return Mark{}, fmt.Errorf("mark event stream: %w", err)
	}
	return Mark{Seq: seq, Next: p.s.Next, FirstEvent: p.s.FirstEvent, State: state}, nil
}

// Resume returns a projector that continues from a mark. created is the record that began the
// incarnation; nil means that events are only counted.
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
	for id, s := range p.s.Unsettled {
		if s == nil {
			return nil, fmt.Errorf("resume event stream: missing state of %s", id)
		}
	}
	for id, l := range p.s.Tasks {
		if l == nil {
			return nil, fmt.Errorf("resume event stream: missing state of %s", id)
		}
	}
	if p.s.Next != m.Next || p.s.FirstEvent != m.FirstEvent {
		return nil, fmt.Errorf("resume event stream: mark of event %d is of %d", m.Next, p.s.Next)
	}
	return p, nil
}

// ParseMarks decodes the output of [Marks.Encode]. Marks of another version are discarded.
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

// Last returns the newest mark, not ok if there is none.
func (m *Marks) Last() (k Mark, ok bool) {
	if len(m.List) == 0 {
		return Mark{}, false
	}
	return m.List[len(m.List)-1], true
}

// Before returns the newest mark before event n. It is not ok if the log has to be read from its
// start.
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

// Note adds a mark after batch seq if the previous one is far enough away and the state is small.
func (m *Marks) Note(seq int64, p *Projector) {
	m.Gap = max(m.Gap, firstGap)
	if last, ok := m.Last(); ok && last.FirstEvent != p.s.FirstEvent { // of a deleted incarnation
		m.List = nil
	}
	last, ok := m.Last()
	near := ok && p.s.Next-last.Next < m.Gap || !ok && p.s.FirstEvent == 0 && p.s.Next < m.Gap
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

// Weight returns the estimated memory of the projector, in bytes.
func (p *Projector) Weight() int64 {
	n := 256
	for _, s := range p.s.Unsettled {
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

// Weight returns the estimated memory of the marks, in bytes.
func (m *Marks) Weight() (n int64) {
	for _, k := range m.List {
		n += 48 + int64(len(k.State))
	}
	return n
}
