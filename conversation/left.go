package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// InlineBytes is how much of the deliveries that wait for their turn a [State] holds
// itself, in bytes as [Delivery.Size] counts them. What does not fit is left to the log:
// a state grows with what is done, not with what waits.
const InlineBytes = 1 << 20

// Left names a delivery that stands in the log alone, in the batch At.
type Left struct {
	At         Offset       `json:"at"`
	Submission SubmissionID `json:"submission"`
}

// Of returns the record of a delivery that was left to the log, nil if it is not among
// the records of the batch.
func (l *Left) Of(records []Record) *SubmissionAdmitted {
	for _, r := range records {
		if adm, ok := r.(*SubmissionAdmitted); ok && adm.Submission == l.Submission {
			return adm
		}
	}
	return nil
}

// EncodeMessage returns the public form of the message of an admission.
func (r *SubmissionAdmitted) EncodeMessage() ([]byte, error) {
	return appendMessage(nil, deliveredMessage(r).snapshot())
}

// Size is about what a delivery occupies, in bytes, without its attachments' content.
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

// leaves reports whether the next delivery is left to the log. That of the submission
// whose turn it is never is.
func (s *State) leaves(d *Delivery) bool {
	return len(s.unsettled) > 0 && s.waiting.held+d.Size() > s.inline
}

// waiting is how much deliveries have that wait for their turn, in bytes: those that the
// state holds, and what is left to the log of them.
type waiting struct{ held, left int }

func (w *waiting) add(sub *Submission, times int) {
	w.held += times * sub.Delivery.Size()
	w.left += times * sub.Left
}

// await puts a submission behind those that are owed a settlement.
func (s *State) await(sub *Submission) {
	if len(s.unsettled) > 0 {
		s.waiting.add(sub, 1)
	}
	s.unsettled = append(s.unsettled, sub)
}

// WaitingBytes is the size of the deliveries that wait for their turn, wherever they
// are.
func (s *State) WaitingBytes() int { return s.waiting.held + s.waiting.left }

// leave makes a submission and its message those of a delivery that is left to the log.
// What finds its attachments stays.
func (s *State) leave(sub *Submission, m *message) {
	sub.Left = sub.Delivery.Size()
	sub.Delivery = Delivery{Kind: sub.Delivery.Kind, Attachments: sub.Delivery.Attachments}
	sub.Left -= sub.Delivery.Size()
	m.view = Message{ID: m.view.ID, SubmissionID: m.view.SubmissionID}
	m.left = &Left{At: sub.Offset, Submission: sub.ID}
	m.parts = slices.DeleteFunc(m.parts, func(p *part) bool { return p.kind != PartTypeFile })
}

// LeftOf returns where the delivery of a submission stands, nil if the submission has it.
func (s *Submission) LeftOf() *Left {
	if s.Left == 0 {
		return nil
	}
	return &Left{At: s.Offset, Submission: s.ID}
}

// ErrLeft says that some of what is to be encoded is not in memory: its pieces are to be
// encoded instead.
var ErrLeft = errors.New("some of it is not in memory")

// Piece is a part of an encoded value. Exactly one member is set.
type Piece struct {
	// Bytes are shared and must not be changed.
	Bytes []byte
	// Left is the public form of a message that is made of the log.
	Left *Left
	// Page is a page whose messages are not in memory: its own pieces stand here.
	Page *HistoryPage
}

// pieces joins what is encoded one after the other.
type pieces struct {
	list []Piece
	open []byte // the last piece, being written
	err  error
}

func (p *pieces) text(s string) { p.open = append(p.open, s...) }

// value adds the JSON form of a value.
func (p *pieces) value(v any) {
	b, err := appendJSON(p.open, v)
	p.took(b, err)
}

// took goes on with what an encoder has made of the last piece.
func (p *pieces) took(b []byte, err error) {
	p.open = b
	if p.err == nil {
		p.err = err
	}
}

// shared adds bytes that are not copied.
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

// end closes the piece being written.
func (p *pieces) end() {
	if len(p.open) > 0 {
		p.list = append(p.list, Piece{Bytes: p.open})
		p.open = nil
	}
}

// message adds the public form of one.
func (p *pieces) message(m *Message) {
	if m.Left != nil {
		p.other(Piece{Left: m.Left})
		return
	}
	b, err := appendMessage(p.open, *m)
	p.took(b, err)
}

// Pieces returns the JSON form of a snapshot, of which some may have to be read first.
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

// ResetPieces returns an array with the one chunk that resets a reader to a snapshot, as
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

// leftMark begins what stands in a page for a message that was left to the log. It is
// white space that no encoder writes, so that it marks nothing else.
const leftMark = '\t'

// leftForm is what follows it.
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
			break // checked when it was decoded
		}
		out = append(out, Piece{Left: form.Left})
		rest = rest[i+int(dec.InputOffset()):]
	}
	if len(rest) > 0 {
		out = append(out, Piece{Bytes: rest})
	}
	return out
}

// appendLeft adds what stands for a message that was left to the log.
func appendLeft(dst []byte, l *Left) ([]byte, error) {
	return appendJSON(append(dst, leftMark), leftForm{l})
}

// checkLeft holds what stands for messages in a page against its counts.
func (p *HistoryPage) checkLeft() error {
	left, rest := 0, p.Messages
	for i := bytes.IndexByte(rest, leftMark); i >= 0; i = bytes.IndexByte(rest, leftMark) {
		var form leftForm
		dec := json.NewDecoder(bytes.NewReader(rest[i:]))
		if err := dec.Decode(&form); err != nil || form.Left == nil {
			return fmt.Errorf("message %d that was left to the log is named wrongly", left)
		}
		rest = rest[i+int(dec.InputOffset()):]
		left++
	}
	if left != p.Counts.Left {
		return fmt.Errorf("%d messages were left to the log, want %d", left, p.Counts.Left)
	}
	return nil
}

// Stub returns the page without its messages and exchanges: a state it is attached to
// answers everything, and its snapshot has pieces that are read when they are needed. It
// shares nothing with the page, of which any part would keep all in memory.
func (p *HistoryPage) Stub() *HistoryPage {
	return &HistoryPage{Counts: p.Counts, Settlements: bytes.Clone(p.Settlements), attachments: bytes.Clone(p.attachments), stub: true}
}
