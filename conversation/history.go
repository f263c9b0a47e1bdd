package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// HistoryCounts counts the pieces of history.
type HistoryCounts struct {
	Messages    int `json:"messages"`
	Settlements int `json:"settlements"`
	Exchanges   int `json:"exchanges"`
	Left        int `json:"left,omitempty"` // messages that are in the log only
}

func (c *HistoryCounts) add(d HistoryCounts) {
	c.Messages += d.Messages
	c.Settlements += d.Settlements
	c.Exchanges += d.Exchanges
	c.Left += d.Left
}

// Exchange is one submission as later model calls see it.
type Exchange struct {
	Submission SubmissionID `json:"submission"`
	Delivery   Delivery     `json:"delivery"`
	// Left locates the delivery in the log if Delivery has only its kind and attachments.
	Left  *Left  `json:"left,omitempty"`
	Turns []Turn `json:"steps,omitempty"`
}

// HistoryPage is a run of closed history: messages, settlements and exchanges that no later record can
// change, in encoded form. [State.Cut] removes it from a state and [State.Attach] adds it back. Its
// bytes are shared and must not be changed.
type HistoryPage struct {
	Counts HistoryCounts
	// Messages and Settlements are public JSON forms, joined by commas. A message that is in the log
	// only is replaced by a reference; see [HistoryPage.Pieces].
	Messages    []byte
	Settlements []byte

	attachments []byte // a JSON array of the messages' Attachment values
	exchanges   []byte // a JSON array of Exchange
	stub        bool   // without messages and exchanges
}

// Exchanges decodes the page's exchanges, oldest first.
func (p *HistoryPage) Exchanges() ([]Exchange, error) {
	var out []Exchange
	if err := json.Unmarshal(p.exchanges, &out); err != nil {
		return nil, fmt.Errorf("decode exchanges: %w", err)
	}
	if len(out) != p.Counts.Exchanges {
		return nil, fmt.Errorf("decode exchanges: found %d, want %d", len(out), p.Counts.Exchanges)
	}
	return out, nil
}

// Attachments decodes the attachments of the page's messages.
func (p *HistoryPage) Attachments() ([]Attachment, error) {
	var out []Attachment
	if err := json.Unmarshal(p.attachments, &out); err != nil {
		return nil, fmt.Errorf("decode attachments: %w", err)
	}
	return out, nil
}

// Size returns the size of the public forms, in bytes.
func (p *HistoryPage) Size() int { return len(p.Messages) + len(p.Settlements) }

// Bytes returns the memory of the page, in bytes.
func (p *HistoryPage) Bytes() int { return p.Size() + len(p.attachments) + len(p.exchanges) }

// Join returns a page with the content of p followed by that of next.
func (p *HistoryPage) Join(next *HistoryPage) *HistoryPage {
	counts := p.Counts
	counts.add(next.Counts)
	return &HistoryPage{
		Counts:      counts,
		Messages:    appendList(nil, [][]byte{p.Messages, next.Messages}),
		Settlements: appendList(nil, [][]byte{p.Settlements, next.Settlements}),
		attachments: joinArrays(p.attachments, next.attachments),
		exchanges:   joinArrays(p.exchanges, next.exchanges),
	}
}

func joinArrays(a, b []byte) []byte {
	out := appendList([]byte{'['}, [][]byte{a[1 : len(a)-1], b[1 : len(b)-1]})
	return append(out, ']')
}

// EncodeHistory returns the page as five lines of JSON: its counts, and one array each of messages,
// settlements, attachments and exchanges.
func EncodeHistory(p *HistoryPage) ([]byte, error) {
	head, err := EncodeJSON(p.Counts)
	if err != nil {
		return nil, fmt.Errorf("encode history: %w", err)
	}
	out := make([]byte, 0, len(head)+len(p.Messages)+len(p.Settlements)+len(p.attachments)+len(p.exchanges)+9)
	out = append(append(out, head...), "\n["...)
	out = append(append(out, p.Messages...), "]\n["...)
	out = append(append(out, p.Settlements...), "]\n"...)
	out = append(append(out, p.attachments...), '\n')
	return append(append(out, p.exchanges...), '\n'), nil
}

// DecodeHistory decodes the output of [EncodeHistory]. It splits the lines and decodes only the first;
// the others are decoded, or sent to clients, on demand. The page retains data.
func DecodeHistory(data []byte) (*HistoryPage, error) {
	lines := bytes.Split(data, []byte("\n"))
	if len(lines) != 6 || len(lines[5]) > 0 {
		return nil, fmt.Errorf("decode history: %d lines, want 5", len(lines)-1)
	}
	for _, l := range lines[1:5] {
		if len(l) < 2 || l[0] != '[' || l[len(l)-1] != ']' {
			return nil, errors.New("decode history: line is not an array")
		}
	}
	p := &HistoryPage{
		Messages: lines[1][1 : len(lines[1])-1], Settlements: lines[2][1 : len(lines[2])-1],
		attachments: lines[3], exchanges: lines[4],
	}
	if err := json.Unmarshal(lines[0], &p.Counts); err != nil {
		return nil, fmt.Errorf("decode history: %w", err)
	}
	c := p.Counts
	if c.Messages < 0 || c.Settlements < 0 || c.Exchanges < 0 || (c.Messages == 0) != (len(p.Messages) == 0) ||
		(c.Settlements == 0) != (len(p.Settlements) == 0) {
		return nil, errors.New("decode history: counts do not match the lines")
	}
	if err := p.checkLeft(); err != nil {
		return nil, fmt.Errorf("decode history: %w", err)
	}
	return p, nil
}

// cutBytes bounds the size of one cut page: no message begins beyond it.
const cutBytes = 1 << 20

// Cut removes the oldest closed history that nothing open precedes and returns it, or nil if there is
// none. A long history needs several calls. The removed part is missing from [State.Snapshot],
// [State.Exchanges] and [State.Attachment] until it is attached to a state. Idempotency keys stay.
func (s *State) Cut() (*HistoryPage, error) { return s.CutUpTo(math.MaxInt) }

// CutUpTo is Cut of at most the given number of messages. If two states of one log are cut after the
// same number of messages, their pages hold the same messages and exchanges. The number of cuts does
// not matter.
func (s *State) CutUpTo(messages int) (*HistoryPage, error) {
	page := &HistoryPage{}
	gone := map[MessageID]bool{}
	attachments := []Attachment{}
	n, left := 0, 0
	for ; n < min(len(s.messages), messages) && s.closed(s.messages[n]) && len(page.Messages) < cutBytes; n++ {
		m := s.messages[n]
		if err := page.addMessage(m); err != nil {
			return nil, fmt.Errorf("encode message %s: %w", m.view.ID, err)
		}
		if m.left != nil {
			left++
		}
		gone[m.view.ID] = true
		for _, p := range m.parts {
			if p.kind == PartTypeFile {
				attachments = append(attachments, p.file)
			}
			attachments = append(attachments, p.images...)
		}
	}
	if n == 0 {
		return nil, nil
	}
	over := s.over(gone)
	tried, going := 0, map[SubmissionID]bool{}
	for _, sub := range s.submissions[:over] {
		going[sub.ID] = true
		if sub.tried() {
			tried++
		}
	}
	settled := 0
	for ; settled < len(s.settlements) && s.cutOff(s.settlements[settled].SubmissionID, going); settled++ {
		b, err := EncodeJSON(s.settlements[settled])
		if err != nil {
			return nil, fmt.Errorf("encode settlement: %w", err)
		}
		page.Settlements = appendJoined(page.Settlements, b)
	}
	var err error
	if page.attachments, err = EncodeJSON(attachments); err != nil {
		return nil, fmt.Errorf("encode attachments: %w", err)
	}
	page.exchanges, err = appendSpliced(nil, func(long *splice) any {
		exchanges := make([]Exchange, 0, tried)
		for _, sub := range s.submissions[:over] {
			if !sub.tried() {
				continue
			}
			x := Exchange{Submission: sub.ID, Delivery: sub.Delivery, Left: sub.LeftOf(), Turns: long.markTurns(sub.Turns())}
			x.Delivery.Body = long.mark(x.Delivery.Body)
			exchanges = append(exchanges, x)
		}
		return exchanges
	})
	if err != nil {
		return nil, fmt.Errorf("encode exchanges: %w", err)
	}
	page.Counts = HistoryCounts{Messages: n, Settlements: settled, Exchanges: tried, Left: left}
	s.history.add(page.Counts)
	return page, s.drop(n, over, settled)
}

// cutOff reports whether a settled submission is removed by this cut or an earlier one.
func (s *State) cutOff(id SubmissionID, going map[SubmissionID]bool) bool {
	return going[id] || s.bySub[id] == nil
}

// addMessage adds the public form of a message, or a reference to the log.
func (p *HistoryPage) addMessage(m *message) (err error) {
	if len(p.Messages) > 0 {
		p.Messages = append(p.Messages, ',')
	}
	if m.left != nil {
		p.Messages, err = appendLeft(p.Messages, m.left)
	} else {
		p.Messages, err = appendMessage(p.Messages, m.snapshot())
	}
	return err
}

func appendJoined(dst, b []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, b...)
}

func (s *State) closed(m *message) bool {
	if m.sub != nil {
		return m.sub.Settled
	}
	sub := s.bySub[m.view.SubmissionID]
	return sub == nil || sub.Settled
}

// over counts the oldest submissions that have no messages other than those being removed.
func (s *State) over(gone map[MessageID]bool) int {
	n := 0
	for n < len(s.submissions) {
		sub := s.submissions[n]
		if !sub.Settled || !gone[sub.delivered] && s.byID[sub.delivered] != nil ||
			sub.Message != "" && !gone[sub.Message] && s.byID[sub.Message] != nil {
			break
		}
		n++
	}
	return n
}

// drop removes the oldest messages, submissions and settlements. It reallocates slices so that dropped
// elements are freed.
func (s *State) drop(messages, submissions, settlements int) error {
	for _, m := range s.messages[:messages] {
		delete(s.byID, m.view.ID)
		for _, p := range m.parts {
			delete(s.calls, p.call)
			delete(s.recorded, p.call)
		}
	}
	for _, sub := range s.submissions[:submissions] {
		delete(s.bySub, sub.ID)
		if len(s.keys) == 0 || s.keys[0] != sub {
			continue // its key has expired
		}
		s.keys = s.keys[1:]
		if s.byKey[sub.Key] == sub {
			delete(s.byKey, sub.Key)
		}
		if err := s.kept.add(sub); err != nil {
			return err
		}
	}
	s.keys = slices.Clone(s.keys)
	s.messages = slices.Clone(s.messages[messages:])
	s.submissions = slices.Clone(s.submissions[submissions:])
	s.settlements = slices.Clone(s.settlements[settlements:])
	return nil
}

// History returns the counts of what was cut from this incarnation.
func (s *State) History() HistoryCounts { return s.history }

// Attach adds cut pages back. The caller passes all of them, oldest first.
func (s *State) Attach(pages []*HistoryPage) error {
	var have HistoryCounts
	for _, p := range pages {
		have.add(p.Counts)
	}
	if have != s.history {
		return fmt.Errorf("attach history: have %+v, want %+v", have, s.history)
	}
	s.pages = slices.Clone(pages)
	return nil
}

// whole panics if history was cut and not attached, because a result would be incomplete without any
// sign of it.
func (s *State) whole() {
	if len(s.pages) == 0 && s.history != (HistoryCounts{}) {
		panic("conversation: the state's history is not attached")
	}
}

// attachmentIDBytes is the estimated size of an id and its reference; an id has 30 bytes.
const attachmentIDBytes = 48

// Bytes returns the estimated memory of the state, without cut history. It visits every part.
func (s *State) Bytes() int {
	n := len(s.kept.lines) + len(s.longer.lines)
	for _, sub := range s.submissions {
		n += PartBytes + sub.Delivery.Size()
	}
	for _, m := range s.byID {
		n += PartBytes
		for _, p := range m.parts {
			n += PartBytes + p.text.len() + len(p.signature) + len(p.data) + len(p.output) + len(p.errorText) + p.stored.Bytes()
		}
	}
	for _, steps := range s.recorded {
		for i := range steps {
			n += PartBytes + len(steps[i].Output)
		}
	}
	for _, v := range s.author {
		n += len(v)
	}
	for _, w := range s.waits {
		n += w.callBytes()
	}
	for _, k := range s.signals {
		n += PartBytes + len(k.Body)
	}
	n += PartBytes * len(s.decided)
	for _, o := range s.pendingReplies {
		n += o.bytes()
	}
	for _, t := range s.trees {
		n += t.bytes()
	}
	n += s.PostBytes() + s.run.weight()
	return n + PartBytes*len(s.settlements) + attachmentIDBytes*len(s.refused)
}
