package transfer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Conversation is the published form of a conversation on another server.
type Conversation struct {
	ID          conversation.ConversationID
	Messages    []conversation.Message
	Settlements []conversation.Settlement
}

// Incarnation is the incarnation to which a conversation is transferred.
type Incarnation struct {
	Address conversation.Address
	UID     conversation.UID
	// At is the time of all records, because the source has none.
	At conversation.Time
	// Files are the stored attachments of the conversation, by id.
	Files map[conversation.AttachmentID]conversation.Attachment
}

// AtWorkError means that a submission is not settled yet.
type AtWorkError struct{ Submission conversation.SubmissionID }

// Error implements error.
func (e *AtWorkError) Error() string {
	return fmt.Sprintf("submission %s is not settled: wait for its end or abort it, then transfer the conversation", e.Submission)
}

// ErrEmpty means that there is no message.
var ErrEmpty = errors.New("the conversation has no message")

// ParseSnapshot decodes a snapshot of the current protocol.
func ParseSnapshot(b []byte) (*Conversation, error) {
	var s conversation.Snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if s.V != conversation.SnapshotVersion {
		return nil, fmt.Errorf("read snapshot: version %d, want %d", s.V, conversation.SnapshotVersion)
	}
	return &Conversation{ID: s.ConversationID, Messages: s.Messages, Settlements: s.Settlements}, nil
}

// Attachments returns the file parts, in order.
func (c *Conversation) Attachments() (out []conversation.Part) {
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			if p.Type == conversation.PartTypeFile {
				out = append(out, p)
			}
		}
	}
	return out
}

// groupBytes is the text size from which a group may end.
const groupBytes = 256 << 10

// Records returns the groups of a conversation. The error is an [*AtWorkError], [ErrEmpty], or
// describes a part without an exact conversion.
func (c *Conversation) Records(of Incarnation) ([][]conversation.Record, error) {
	if len(c.Messages) == 0 {
		return nil, ErrEmpty
	}
	c = c.withOneData()
	w := &writing{of: of, from: c, last: map[conversation.SubmissionID]int{}, pending: map[conversation.SubmissionID]*pending{}}
	for i, m := range c.Messages {
		w.last[m.SubmissionID] = i
	}
	w.add(&conversation.ConversationCreated{
		Agent: of.Address.Agent, ID: of.Address.ID, UID: of.UID, ConversationID: c.ID, At: of.At,
	})
	for i, m := range c.Messages {
		if err := w.message(i, m); err != nil {
			return nil, fmt.Errorf("message %d (%s): %w", i, m.ID, err)
		}
		if err := w.settle(); err != nil {
			return nil, err
		}
	}
	for _, m := range c.Messages {
		if w.pending[m.SubmissionID] != nil {
			return nil, &AtWorkError{m.SubmissionID}
		}
	}
	if w.settled < len(c.Settlements) {
		return nil, fmt.Errorf("settlement of %s has no message", c.Settlements[w.settled].SubmissionID)
	}
	w.cut(true)
	return w.groups, c.compare(w.groups)
}

// withOneData returns the conversation with one data part per name in each message, as clients keep
// it. A server may send one part per write: the last value replaces the first part.
func (c *Conversation) withOneData() *Conversation {
	out := *c
	out.Messages = slices.Clone(c.Messages)
	for i := range out.Messages {
		m := &out.Messages[i]
		at := map[string]int{}
		parts := make([]conversation.Part, 0, len(m.Parts))
		for _, p := range m.Parts {
			first, again := at[p.Type]
			switch {
			case !strings.HasPrefix(p.Type, conversation.DataPrefix):
			case again:
				parts[first] = p
				continue
			default:
				at[p.Type] = len(parts)
			}
			parts = append(parts, p)
		}
		m.Parts = parts
	}
	return &out
}

// pending is an unsettled submission.
type pending struct {
	began bool // there is an attempt
	ready bool // its last message is written
}

// writing builds the groups.
type writing struct {
	of      Incarnation
	from    *Conversation
	last    map[conversation.SubmissionID]int // index of its last message
	pending map[conversation.SubmissionID]*pending
	settled int // count of from.Settlements
	turns   int
	groups  [][]conversation.Record
	group   []conversation.Record
	bytes   int
}

func (w *writing) add(records ...conversation.Record) { w.group = append(w.group, records...) }

// cut ends a group that is long enough or must end, unless a submission is unsettled.
func (w *writing) cut(must bool) {
	if len(w.pending) > 0 || len(w.group) == 0 || !must && w.bytes < groupBytes {
		return
	}
	w.groups, w.group, w.bytes = append(w.groups, w.group), nil, 0
}

func (w *writing) message(i int, m conversation.Message) (err error) {
	switch {
	case m.Purpose == conversation.PurposeAdvisory:
		err = w.advisory(m)
	case m.SubmissionID == "":
		err = errors.New("no submission id")
	case m.Role == conversation.RoleAssistant:
		err = w.response(m)
	default:
		err = w.admission(m)
	}
	if o := w.pending[m.SubmissionID]; o != nil && w.last[m.SubmissionID] == i {
		o.ready = true
	}
	return err
}

func (w *writing) admission(m conversation.Message) error {
	d := conversation.Delivery{Kind: conversation.KindUser}
	if m.Purpose == conversation.PurposeDispatch {
		d.Kind, d.Type = conversation.KindSignal, "imported"
		if m.Signal != nil {
			d.TagName, d.Attributes = m.Signal.TagName, m.Signal.Attributes
			d.Type = cmp.Or(m.Signal.Attributes["type"], d.Type)
		}
	}
	for n, p := range m.Parts {
		switch {
		case p.Type == conversation.PartTypeText && n == 0 && p.Text != nil:
			d.Body = *p.Text
		case p.Type == conversation.PartTypeFile:
			file, ok := w.of.Files[p.ID]
			if !ok {
				return fmt.Errorf("missing attachment %s", p.ID)
			}
			d.Attachments = append(d.Attachments, file)
		default:
			return fmt.Errorf("unexpected part %d of type %q in a user's message", n, p.Type)
		}
	}
	a := conversation.Admission{Address: w.of.Address, Delivery: d}
	hash, err := a.PayloadHash()
	if err != nil {
		return err
	}
	w.bytes += len(d.Body)
	w.pending[m.SubmissionID] = &pending{}
	w.add(&conversation.SubmissionAdmitted{
		Submission: m.SubmissionID, Message: m.ID, Key: "import:" + string(m.SubmissionID), PayloadHash: hash, Delivery: d, At: w.of.At,
	})
	return nil
}

func (w *writing) advisory(m conversation.Message) error {
	if len(m.Parts) != 1 || m.Parts[0].Type != conversation.PartTypeText || m.Parts[0].Text == nil {
		return errors.New("not a text")
	}
	w.add(&conversation.Advisory{Message: m.ID, Submission: m.SubmissionID, Text: *m.Parts[0].Text, Display: m.Display})
	return nil
}

// response writes an agent's message. A turn ends after tools have run, and between two adjacent
// texts.
func (w *writing) response(m conversation.Message) error {
	o := w.pending[m.SubmissionID]
	if o == nil {
		return fmt.Errorf("submission %s is not open", m.SubmissionID)
	}
	if !o.began {
		o.began = true
		w.add(&conversation.AttemptStarted{Submission: m.SubmissionID, Attempt: 1, Writer: "import", At: w.of.At})
	}
	r := &responding{writing: w, of: m}
	r.begin()
	for n, p := range m.Parts {
		if err := r.part(p); err != nil {
			return fmt.Errorf("part %d: %w", n, err)
		}
	}
	r.end()
	return nil
}

// responding builds a response.
type responding struct {
	*writing
	of    conversation.Message
	turn  conversation.TurnID
	kind  string                      // kind of the previous part in the turn
	calls []*conversation.ToolSettled // settlements of the turn's calls
	names []conversation.CallName
	begun bool
}

func (r *responding) begin() {
	r.turns++
	r.turn, r.kind, r.calls, r.names = conversation.TurnID(fmt.Sprintf("turn_import_%d", r.turns)), "", nil, nil
	start := &conversation.ResponseStarted{Message: r.of.ID, Submission: r.of.SubmissionID, Turn: r.turn, At: r.writing.of.At}
	if !r.begun {
		start.Metadata, r.begun = r.of.Metadata, true
	}
	r.add(start)
}

func (r *responding) end() {
	stop := "stop"
	if len(r.calls) > 0 {
		stop = "tool_use"
	}
	r.add(&conversation.StepCompleted{Message: r.of.ID, Turn: r.turn, StopReason: stop, Calls: r.names, At: r.writing.of.At})
	for _, c := range r.calls {
		r.add(c)
	}
}

func (r *responding) part(p conversation.Part) error {
	text := p.Type == conversation.PartTypeText || p.Type == conversation.PartTypeReasoning
	if text && (len(r.calls) > 0 || r.kind == p.Type) {
		r.end()
		r.begin()
	}
	r.kind = p.Type
	switch {
	case text:
		if p.Text == nil || *p.Text == "" {
			return errors.New("empty text")
		}
		kind := conversation.PartText
		if p.Type == conversation.PartTypeReasoning {
			kind = conversation.PartReasoning
		}
		r.bytes += len(*p.Text)
		r.add(&conversation.Delta{Message: r.of.ID, Kind: kind, Text: *p.Text})
	case p.Type == conversation.PartTypeTool:
		r.call(p)
	case len(p.Type) > len(conversation.DataPrefix) && strings.HasPrefix(p.Type, conversation.DataPrefix):
		r.bytes += len(p.Data)
		r.add(&conversation.DataWritten{Message: r.of.ID, Name: p.Type[len(conversation.DataPrefix):], Data: p.Data})
	default:
		return fmt.Errorf("unexpected part type %q of an agent", p.Type)
	}
	return nil
}

func (r *responding) call(p conversation.Part) {
	r.bytes += len(p.Input) + len(p.Output)
	r.add(&conversation.ToolCalled{Message: r.of.ID, Call: p.ToolCallID, Name: p.ToolName, Input: p.Input, Turn: r.turn, At: r.writing.of.At})
	r.names = append(r.names, conversation.CallName{Call: p.ToolCallID, Name: p.ToolName})
	done := &conversation.ToolSettled{Call: p.ToolCallID, Name: p.ToolName, Turn: r.turn, Output: p.Output, DurationMs: p.DurationMs, At: r.writing.of.At}
	if p.State == conversation.StateOutputError {
		done.Failed, done.Output = true, nil
		if p.ErrorText != nil {
			done.ErrorText = *p.ErrorText
		}
	}
	r.calls = append(r.calls, done)
}

// settle writes the settlements that are due, in order.
func (w *writing) settle() error {
	for w.settled < len(w.from.Settlements) {
		s := w.from.Settlements[w.settled]
		o := w.pending[s.SubmissionID]
		if o == nil || !o.ready {
			break
		}
		w.add(&conversation.SubmissionSettled{
			Submission: s.SubmissionID, Outcome: s.Outcome, Error: s.Error, Attempts: 1, Began: o.began, Open: o.began, At: w.of.At,
		})
		delete(w.pending, s.SubmissionID)
		w.settled++
	}
	w.cut(false)
	return nil
}

// compare folds groups and compares the snapshot with the source.
func (c *Conversation) compare(groups [][]conversation.Record) error {
	state := conversation.NewStateHolding(math.MaxInt)
	for n, g := range groups {
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(n), Records: g}); err != nil {
			return fmt.Errorf("messages are out of order: %w", err)
		}
	}
	got := state.Snapshot()
	if len(got.Messages) != len(c.Messages) {
		return fmt.Errorf("converted to %d messages, want %d", len(got.Messages), len(c.Messages))
	}
	for i := range c.Messages {
		want, have := plain(c.Messages[i]), plain(got.Messages[i])
		if !bytes.Equal(want, have) {
			return fmt.Errorf("message %d (%s) converted to %.300s, want %.300s", i, c.Messages[i].ID, have, want)
		}
	}
	for i := range c.Settlements {
		if !reflect.DeepEqual(c.Settlements[i], got.Settlements[i]) {
			return fmt.Errorf("settlement %d differs after conversion", i)
		}
	}
	return nil
}

// plain returns a message without differences between servers: turn ids and JSON formatting.
func plain(m conversation.Message) []byte {
	m.TurnID = ""
	b, err := conversation.EncodeJSON(m)
	var v any
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err == nil {
		b, err = conversation.EncodeJSON(v)
	}
	if err != nil {
		return []byte(err.Error())
	}
	return b
}
