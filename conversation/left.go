package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// InlineBytes bounds the waiting deliveries that a [State] holds in memory, in bytes as
// [Delivery.Size] counts them. Further deliveries stay in the log only. So a state grows with finished
// work, not with its queue.
const InlineBytes = 1 << 20

// Left locates a delivery that is in the log only, in the batch At.
type Left struct {
	At         Offset       `json:"at"`
	Submission SubmissionID `json:"submission"`
}

// Of returns the record of the delivery, nil if it is not among the records of the batch.
func (l *Left) Of(records []Record) *SubmissionAdmitted {
	for _, r := range records {
		if adm, ok := r.(*SubmissionAdmitted); ok && adm.Submission == l.Submission {
			return adm
		}
	}
	return nil
}

// EncodeMessage returns the public form of the admission's message.
func (r *SubmissionAdmitted) EncodeMessage() ([]byte, error) {
	return appendMessage(nil, deliveredMessage(r).snapshot())
}

// Size returns the estimated size of a delivery in bytes, without its attachments' content.
func (d *Delivery) Size() int {
	n := len(d.Body) + len(d.Type) + len(d.TagName)
	for k, v := range d.Attributes {
		n += len(k) + len(v)
	}
	for _, a := range d.Attachments {
		n += len(a.Filename) + len(a.MimeType)
	}
	return n
}

// leaves reports whether the next delivery stays in the log only. The delivery of the current
// submission never does.
func (s *State) leaves(d *Delivery) bool {
	return len(s.unsettled) > 0 && s.waiting.held+d.Size() > s.inline
}

// waiting counts the bytes of deliveries that wait for their turn: those in memory, and those in the
// log only.
type waiting struct{ held, left int }

func (w *waiting) add(sub *Submission, times int) {
	w.held += times * sub.Delivery.Size()
	w.left += times * sub.Left
}

// await appends a submission to the unsettled ones.
func (s *State) await(sub *Submission) {
	if len(s.unsettled) > 0 {
		s.waiting.add(sub, 1)
	}
	s.unsettled = append(s.unsettled, sub)
}

// WaitingBytes returns the size of the waiting deliveries, in memory or in the log only.
func (s *State) WaitingBytes() int { return s.waiting.held + s.waiting.left }

// leave removes the delivery from a submission and its message, except for the facts that locate its
// attachments.
func (s *State) leave(sub *Submission, m *message) {
	sub.Left = sub.Delivery.Size()
	sub.Delivery = Delivery{Kind: sub.Delivery.Kind, Attachments: sub.Delivery.Attachments}
	sub.Left -= sub.Delivery.Size()
	m.view = Message{ID: m.view.ID, SubmissionID: m.view.SubmissionID}
	m.left = &Left{At: sub.Offset, Submission: sub.ID}
	m.parts = slices.DeleteFunc(m.parts, func(p *part) bool { return p.kind != PartTypeFile })
}

// LeftOf returns the location of a submission's delivery in the log, nil if the submission has it in
// memory.
func (s *Submission) LeftOf() *Left {
	if s.Left == 0 {
		return nil
	}
	return &Left{At: s.Offset, Submission: s.ID}
}

// ErrLeft means that a part of the value to encode is not in memory. Encode its pieces instead.
var ErrLeft = errors.New("value is not completely in memory")

// Piece is a part of an encoded value. Exactly one member is set.
type Piece struct {
	// Bytes are shared and must not be changed.
	Bytes []byte
	// Left is a message whose public form is read from the log.
	Left *Left
	// Page is a page whose messages are not in memory; its own pieces belong here.
	Page *HistoryPage
}

// pieces concatenates encoded values.
type pieces struct {
	list []Piece
	open []byte // the last piece, being written
	err  error
}

func (p *pieces) text(s string) { p.open = append(p.open, s...) }

func (p *pieces) value(v any) {
	b, err := appendJSON(p.open, v)
	p.took(b, err)
}

// took replaces the last piece by the output of an encoder.
func (p *pieces) took(b []byte, err error) {
	p.open = b
	if p.err == nil {
		p.err = err
	}
}

// shared adds bytes without a copy.
func (p *pieces) shared(b []byte) {
	p.end()
	if len(b) > 0 {
		p.list = append(p.list, Piece{Bytes: b})
	}
}

func (p *pieces) other(x Piece) {
	p.end()
	p.list = append(p.list, x)
}

// end closes the open piece.
func (p *pieces) end() {
	if len(p.open) > 0 {
		p.list = append(p.list, Piece{Bytes: p.open})
		p.open = nil
	}
}

func (p *pieces) message(m *Message) {
	if m.Left != nil {
		p.other(Piece{Left: m.Left})
		return
	}
	b, err := appendMessage(p.open, *m)
	p.took(b, err)
}

// Pieces returns the JSON form of a snapshot. Some pieces may have to be read first.
func (s *Snapshot) Pieces() ([]Piece, error) {
	p := &pieces{}
	s.pieces(p)
	p.end()
	return p.list, p.err
}

func (s *Snapshot) pieces(p *pieces) {
	p.text(`{"v":`)
	p.value(s.V)
	p.text(`,"conversationId":`)
	p.value(s.ConversationID)
	p.text(`,"offset":`)
	p.value(s.Offset)
	p.text(`,"messages":[`)
	sep := ""
	for _, h := range s.History {
		if h.Counts.Messages == 0 {
			continue
		}
		p.text(sep)
		sep = ","
		if h.stub {
			p.other(Piece{Page: h})
			continue
		}
		for _, x := range h.Pieces() {
			p.other(x)
		}
	}
	for i := range s.Messages {
		p.text(sep)
		sep = ","
		p.message(&s.Messages[i])
	}
	p.text(`],"settlements":[`)
	sep = ""
	for _, h := range s.History {
		if h.Counts.Settlements > 0 {
			p.text(sep)
			sep = ","
			p.shared(h.Settlements)
		}
	}
	for i := range s.Settlements {
		p.text(sep)
		sep = ","
		p.value(&s.Settlements[i])
	}
	p.text(`]}`)
}

// ResetPieces returns an array with the single chunk that resets a reader to a snapshot, as
// [AppendProjection] would at its offset.
func ResetPieces(s *Snapshot) ([]Piece, error) {
	p := &pieces{}
	p.text(`[{"type":"` + string(ChunkReset) + `","conversationId":`)
	p.value(s.ConversationID)
	p.text(`,"snapshot":`)
	s.pieces(p)
	p.text(`,"position":`)
	p.value(Position{Batch: s.Offset})
	p.text(`}]`)
	p.end()
	return p.list, p.err
}

// leftMark begins the reference to a message that is in the log only. It is white space that no
// encoder writes, so it is unambiguous.
const leftMark = '\t'

// leftForm is the encoded reference after the mark.
type leftForm struct {
	Left *Left `json:"left"`
}

// Pieces returns the page's messages, joined by commas. A stub has none.
func (p *HistoryPage) Pieces() []Piece {
	var out []Piece
	rest := p.Messages
	for {
		i := bytes.IndexByte(rest, leftMark)
		if i < 0 {
			break
		}
		if i > 0 {
			out = append(out, Piece{Bytes: rest[:i]})
		}
		var form leftForm
		dec := json.NewDecoder(bytes.NewReader(rest[i:]))
		if dec.Decode(&form) != nil || form.Left == nil {
			break // checked when the page was decoded
		}
		out = append(out, Piece{Left: form.Left})
		rest = rest[i+int(dec.InputOffset()):]
	}
	if len(rest) > 0 {
		out = append(out, Piece{Bytes: rest})
	}
	return out
}

// appendLeft adds the reference to a message that is in the log only.
func appendLeft(dst []byte, l *Left) ([]byte, error) {
	return appendJSON(append(dst, leftMark), leftForm{l})
}

// checkLeft compares the references of a page with its counts.
func (p *HistoryPage) checkLeft() error {
	left, rest := 0, p.Messages
	for i := bytes.IndexByte(rest, leftMark); i >= 0; i = bytes.IndexByte(rest, leftMark) {
		var form leftForm
		dec := json.NewDecoder(bytes.NewReader(rest[i:]))
		if err := dec.Decode(&form); err != nil || form.Left == nil {
			return fmt.Errorf("invalid log reference of message %d", left)
		}
		rest = rest[i+int(dec.InputOffset()):]
		left++
	}
	if left != p.Counts.Left {
		return fmt.Errorf("got %d log references, want %d", left, p.Counts.Left)
	}
	return nil
}

// Stub returns the page without its messages and exchanges. A state to which it is attached answers
// everything; its snapshot has pieces that are read on demand. The stub shares no memory with the
// page, because any shared part would retain the whole.
func (p *HistoryPage) Stub() *HistoryPage {
	return &HistoryPage{Counts: p.Counts, Settlements: bytes.Clone(p.Settlements), attachments: bytes.Clone(p.attachments), stub: true}
}
