package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Reducer is the version of the fold. It is incremented whenever the same records fold to a different
// state, so that this version never loads a state of another fold.
const Reducer = 20

// Oldest fold versions that understand a state with the named feature. A version that knows no newer
// feature can load the state.
//
// - wholeReducer: every delivery is inline.
// - leftReducer: a delivery is in the log only.
// - signedReducer: a part is signed.
// - retryReducer: a model call is scheduled for a retry.
// - refusedReducer: an image was refused.
// - storedReducer: an output is stored outside the log.
// - spentReducer: an unsettled submission has recorded cost.
// - waitReducer: there are waits or signals.
// - overtookReducer: a submission has overtaken earlier ones.
// - replyReducer: a reply is pending.
// - keyReducer: an idempotency key has a longer retention.
// - postReducer: there are posts, or a submission that ends with one.
// - runReducer: the log belongs to a run.
// - channelReducer: a channel has delivered.
// - treeReducer: there is a dispatch tree, or a submission of one.
// - the newest: there is a reply address.
const (
	wholeReducer    = 5
	leftReducer     = 6
	signedReducer   = 7
	retryReducer    = 8
	refusedReducer  = 9
	storedReducer   = 10
	spentReducer    = 11
	waitReducer     = 12
	overtookReducer = 13
	replyReducer    = 14
	keyReducer      = 15
	postReducer     = 16
	runReducer      = 17
	channelReducer  = 18
	treeReducer     = 19
)

// ErrReducer means that a checkpoint was written by another version of the fold. The checkpoint is not
// corrupt; fold the log instead.
var ErrReducer = errors.New("state of another reducer version")

// The encoded forms of a checkpoint.
type (
	stateForm struct {
		Reducer        int                        `json:"reducer"`
		Head           Offset                     `json:"head"`
		Start          Offset                     `json:"born"`
		Created        *ConversationCreated       `json:"created"`
		History        HistoryCounts              `json:"history"`
		Messages       []messageForm              `json:"messages"`
		Submissions    []submissionForm           `json:"submissions"`
		Keys           []SubmissionID             `json:"keys"`             // keys kept in addition to the lines that follow
		Kept           int                        `json:"kept,omitempty"`   // lines of keys that follow
		Longer         int                        `json:"longer,omitempty"` // number of lines after those: keys with a longer retention
		Settlements    []Settlement               `json:"settlements"`
		Author         map[string]json.RawMessage `json:"author,omitempty"`
		Recorded       map[CallID][]StepRecorded  `json:"recorded,omitempty"`
		Compacted      *Compacted                 `json:"compacted,omitempty"`
		Refused        []AttachmentID             `json:"refused,omitempty"`
		Waits          []*Wait                    `json:"waits,omitempty"`
		Signals        []*KeptSignal              `json:"signals,omitempty"`
		Decided        []DecidedName              `json:"decided,omitempty"`
		PendingReplies []*PendingReply            `json:"owed,omitempty"`
		Posts          []*Post                    `json:"posts,omitempty"`
		PostsAt        Offset                     `json:"postsAt,omitempty"`
		Run            *Run                       `json:"run,omitempty"`
		Paths          []ReplyPath                `json:"paths,omitempty"`
		Trees          []*Tree                    `json:"trees,omitempty"`
		Children       []childForm                `json:"children,omitempty"`
	}
	// childForm is a subagent's work and its response, if that has begun.
	childForm struct {
		submissionForm
		Response  *messageForm `json:"response,omitempty"`
		Compacted *Compacted   `json:"compacted,omitempty"`
	}
	messageForm struct {
		View     Message         `json:"view"`
		Left     *Left           `json:"left,omitempty"`
		Parts    []partForm      `json:"parts,omitempty"`
		Meta     json.RawMessage `json:"meta,omitempty"`
		Response bool            `json:"response,omitempty"` // for the submission it names
	}
	partForm struct {
		Kind         string          `json:"kind"`
		Turn         int             `json:"step,omitempty"` // of the submission, from 1
		Text         string          `json:"text,omitempty"`
		Streaming    bool            `json:"streaming,omitempty"`
		Signature    string          `json:"signature,omitempty"`
		Sealed       bool            `json:"sealed,omitempty"`
		More         bool            `json:"more,omitempty"`
		Name         string          `json:"name,omitempty"`
		Data         json.RawMessage `json:"data,omitempty"`
		Call         CallID          `json:"call,omitempty"`
		ProviderCall string          `json:"providerCall,omitempty"`
		Durable      bool            `json:"durable,omitempty"`
		Settled      bool            `json:"settled,omitempty"`
		Failed       bool            `json:"failed,omitempty"`
		Output       json.RawMessage `json:"output,omitempty"`
		Stored       *StoredOutput   `json:"stored,omitempty"`
		Images       []Attachment    `json:"images,omitempty"`
		Terminate    bool            `json:"terminate,omitempty"`
		ErrorText    string          `json:"errorText,omitempty"`
		DurationMs   *int64          `json:"durationMs,omitempty"`
		Lost         int             `json:"lost,omitempty"` // an older reader counts fewer
		File         *Attachment     `json:"file,omitempty"`
	}
	submissionForm struct {
		Submission
		Delivered MessageID `json:"delivered"`
		Turns     []Turn    `json:"steps,omitempty"` // without their parts, which are in messages
		Elapsed   [2]int64  `json:"elapsed"`
	}
)

// EncodeState returns the state as lines of JSON, the last without its newline. The first line is the
// state without attached history. Each further line is one key of a submission that was cut.
func EncodeState(s *State) ([]byte, error) {
	b, err := appendSpliced(nil, func(long *splice) any { return s.form(long) })
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	if keys := slices.Concat(s.kept.lines, s.longer.lines); len(keys) > 0 {
		b = append(append(b, '\n'), bytes.TrimSuffix(keys, []byte{'\n'})...)
	}
	return b, nil
}

// form returns the first line of the state, with marks in place of long values.
func (s *State) form(long *splice) *stateForm {
	f := &stateForm{
		Reducer: s.reducer(), Head: s.head, Start: s.born, Created: s.created, History: s.history, Settlements: s.settlements,
		Kept: s.kept.count, Longer: s.longer.count,
		Author: s.author, Recorded: s.recorded, Compacted: s.compacted, Refused: s.refused,
		Waits: s.waits, Signals: s.signals, Decided: s.decided, PendingReplies: s.pendingReplies, Posts: s.posts, PostsAt: s.postsAt, Run: s.run, Paths: s.paths, Trees: s.trees,
	}
	for _, sub := range s.submissions {
		f.Submissions = append(f.Submissions, formOf(sub))
	}
	for _, k := range s.keys {
		f.Keys = append(f.Keys, k.ID)
	}
	for _, m := range s.messages {
		f.Messages = append(f.Messages, s.messageForm(m, long))
	}
	for _, c := range s.children {
		child := childForm{submissionForm: formOf(c), Compacted: c.compacted}
		if m := s.byID[c.Message]; m != nil {
			child.Response = new(s.messageForm(m, long))
		}
		f.Children = append(f.Children, child)
	}
	return f
}

// reducer returns the oldest fold version that understands the state.
func (s *State) reducer() int {
	version := wholeReducer
	if s.history.Left > 0 {
		version = leftReducer
	}
	if len(s.refused) > 0 {
		version = refusedReducer
	}
	for _, m := range s.byID { // includes those of subagents
		if m.left != nil || m.textBytes > MaxResponseText {
			version = max(version, leftReducer)
		}
		if slices.ContainsFunc(m.parts, (*part).signed) {
			version = max(version, signedReducer)
		}
		if slices.ContainsFunc(m.parts, func(p *part) bool { return p.stored != nil }) {
			version = max(version, storedReducer)
		}
	}
	for _, sub := range s.bySub {
		if sub.Retry != nil {
			version = max(version, retryReducer)
		}
		if !sub.Settled && slices.ContainsFunc(sub.turns, func(t *turn) bool { return t.dollars != 0 }) {
			version = max(version, spentReducer)
		}
		if sub.Ahead {
			version = max(version, overtookReducer)
		}
		if len(sub.Notify) > 0 {
			version = max(version, postReducer)
		}
		if sub.KeyUntil != 0 {
			version = max(version, keyReducer)
		}
	}
	if len(s.waits) > 0 || len(s.signals) > 0 || len(s.decided) > 0 {
		version = max(version, waitReducer)
	}
	if len(s.pendingReplies) > 0 {
		version = max(version, replyReducer)
	}
	if len(s.posts) > 0 {
		version = max(version, postReducer)
	}
	if s.run != nil {
		version = max(version, runReducer)
	}
	if len(s.paths) > 0 {
		version = max(version, channelReducer)
	}
	if len(s.trees) > 0 || slices.ContainsFunc(s.unsettled, func(sub *Submission) bool { return sub.Tree != nil }) {
		version = max(version, treeReducer)
	}
	if s.addressed() {
		version = Reducer
	}
	if s.longer.count > 0 || bytes.Contains(s.kept.lines, []byte(`,"until":`)) {
		version = max(version, keyReducer)
	}
	return version
}

func (s *State) addressed() bool {
	for _, sub := range s.bySub {
		if sub.ReplyAddress != (ReplyAddress{}) {
			return true
		}
	}
	return slices.ContainsFunc(s.paths, func(p ReplyPath) bool { return p.Address != "" || p.Several }) ||
		slices.ContainsFunc(s.posts, func(p *Post) bool { return p.ReplyAddress != "" })
}

// signed reports whether a [PartSigned] has changed the part.
func (p *part) signed() bool {
	return p.sealed || p.more || p.signature != "" && p.kind != PartTypeReasoning
}

func formOf(s *Submission) submissionForm {
	f := submissionForm{Submission: *s, Delivered: s.delivered, Elapsed: s.elapsed}
	for _, t := range s.turns {
		f.Turns = append(f.Turns, t.facts())
	}
	return f
}

func (s *State) messageForm(m *message, long *splice) messageForm {
	f := messageForm{View: m.view, Left: m.left, Response: m.sub != nil}
	if m.meta != nil {
		f.Meta, _ = EncodeJSON(m.meta) // it was decoded from JSON
	}
	var turns []*turn
	if m.sub != nil {
		turns = m.sub.turns
	}
	for _, p := range m.parts {
		pf := partForm{
			Kind: p.kind, Turn: slices.Index(turns, p.turn) + 1, Text: long.mark(p.text.String()), Streaming: p.streaming,
			Signature: p.signature, Sealed: p.sealed, More: p.more, Name: p.name, Data: long.markJSON(p.data), Call: p.call, ProviderCall: p.providerCall, Durable: p.durable,
			Settled: p.settled, Failed: p.failed, Output: long.markJSON(p.output), Stored: p.stored, Images: p.images, Terminate: p.terminate,
			ErrorText: p.errorText, DurationMs: p.durationMs, Lost: p.lost,
		}
		if p.kind == PartTypeFile {
			pf.File = &p.file
		}
		f.Parts = append(f.Parts, pf)
	}
	return f
}

// DecodeState decodes the output of [EncodeState]. Any error other than [ErrReducer] means that the
// bytes are corrupt. In both cases the caller has to fold the log.
func DecodeState(b []byte) (*State, error) {
	version, err := ReducerOf(b)
	if err == nil && (version < wholeReducer || version > Reducer) {
		err = fmt.Errorf("%w: %d, this one is %d", ErrReducer, version, Reducer)
	}
	var f stateForm
	line, kept, more := bytes.Cut(b, []byte{'\n'})
	if more {
		kept = append(slices.Clip(kept), '\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &f)
	}
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	s := newStateAt(f.Head)
	s.born, s.created, s.history, s.compacted, s.refused = f.Start, f.Created, f.History, f.Compacted, f.Refused
	s.settlements, s.waits, s.signals, s.decided, s.pendingReplies = f.Settlements, f.Waits, f.Signals, f.Decided, f.PendingReplies
	s.posts, s.postsAt, s.run, s.paths, s.trees = f.Posts, f.PostsAt, f.Run, f.Paths, f.Trees
	for k, v := range f.Author {
		s.author[k] = v
	}
	for k, v := range f.Recorded {
		s.recorded[k] = v
	}
	for i := range f.Submissions {
		s.restoreSubmission(&f.Submissions[i])
	}
	if s.kept, kept, err = restoreKept(kept, f.Kept); err == nil {
		s.longer, kept, err = restoreKept(kept, f.Longer)
	}
	if err == nil && len(kept) > 0 {
		err = errors.New("the counts exceed the keys")
	}
	if err == nil {
		err = s.restoreKeys(f.Keys)
	}
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	for i := range f.Messages {
		if err := s.restoreMessage(&f.Messages[i]); err != nil {
			return nil, fmt.Errorf("decode state: message %s: %w", f.Messages[i].View.ID, err)
		}
	}
	for i := range f.Children {
		if err := s.restoreChild(&f.Children[i]); err != nil {
			return nil, fmt.Errorf("decode state: subagent %s: %w", f.Children[i].Child, err)
		}
	}
	return s, s.checkRestored()
}

// ReducerOf returns the fold version that an encoded state needs. It reads only the first member; the
// rest may have any shape.
func ReducerOf(b []byte) (version int, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"reducer":`))
	if !ok {
		return 0, errors.New("no leading reducer version")
	}
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return 0, errors.New("truncated")
	}
	return strconv.Atoi(string(rest[:end]))
}

func (s *State) restoreSubmission(f *submissionForm) {
	sub := f.submission()
	s.submissions = append(s.submissions, sub)
	s.bySub[sub.ID] = sub
	if !sub.Settled {
		s.await(sub)
	}
}

// restoreChild requires that its parent is restored already.
func (s *State) restoreChild(f *childForm) error {
	sub := f.submission()
	sub.compacted = f.Compacted
	if sub.Child == "" || s.bySub[sub.ID] != nil || s.calls[sub.Call] == nil || s.bySub[sub.Parent] == nil {
		return errors.New("no open parent or call")
	}
	s.children = append(s.children, sub)
	s.bySub[sub.ID] = sub
	if f.Response == nil {
		return nil
	}
	if err := s.restoreMessage(f.Response); err != nil {
		return err
	}
	s.messages = s.messages[:len(s.messages)-1]
	return nil
}

func (f *submissionForm) submission() *Submission {
	sub := new(Submission) // a copy: a pointer into f would retain all of f
	*sub = f.Submission
	sub.delivered, sub.elapsed = f.Delivered, f.Elapsed
	for _, t := range f.Turns {
		sub.turns = append(sub.turns, &turn{
			id: t.ID, model: t.Model, completed: t.Completed, stop: t.StopReason, usage: t.Usage, dollars: t.Dollars, note: t.Note,
		})
	}
	return sub
}

func (s *State) restoreKeys(ids []SubmissionID) error {
	for _, id := range ids {
		sub := s.bySub[id]
		if sub == nil {
			return fmt.Errorf("key of the unknown submission %s", id)
		}
		s.keys = append(s.keys, sub)
		s.byKey[sub.Key] = sub
	}
	return nil
}

func (s *State) restoreMessage(f *messageForm) error {
	m := &message{view: f.View, left: f.Left}
	if f.Meta != nil {
		if err := decodeNumbers(f.Meta, &m.meta); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
	}
	m.view.Parts, m.view.Metadata = nil, nil
	if s.byID[m.view.ID] != nil {
		return errors.New("is a duplicate")
	}
	if f.Response {
		if m.sub = s.bySub[m.view.SubmissionID]; m.sub == nil || m.sub.Message != m.view.ID {
			return fmt.Errorf("is not the response of %s", m.view.SubmissionID)
		}
	}
	for _, pf := range f.Parts {
		p := &part{
			kind: pf.Kind, text: textBuffer{whole: pf.Text}, streaming: pf.Streaming, signature: pf.Signature, sealed: pf.Sealed, more: pf.More,
			name: pf.Name, data: pf.Data, call: pf.Call, providerCall: pf.ProviderCall, durable: pf.Durable, settled: pf.Settled, failed: pf.Failed, output: pf.Output,
			stored: pf.Stored, images: pf.Images, terminate: pf.Terminate, errorText: pf.ErrorText, durationMs: pf.DurationMs, lost: pf.Lost,
		}
		if (p.sealed || p.more) && p.kind != PartTypeText && p.kind != PartTypeReasoning {
			return fmt.Errorf("part %s ends as text does", p.kind)
		}
		if f.Response {
			m.textBytes += p.text.len()
		}
		if pf.File != nil {
			p.file = *pf.File
		}
		var t *turn
		if pf.Turn != 0 {
			if m.sub == nil || pf.Turn < 0 || pf.Turn > len(m.sub.turns) {
				return fmt.Errorf("part of turn %d", pf.Turn)
			}
			t = m.sub.turns[pf.Turn-1]
		}
		if p.call != "" {
			if s.calls[p.call] != nil || m.sub == nil {
				return fmt.Errorf("call %s", p.call)
			}
			p.sub, s.calls[p.call] = m.sub, p
			m.sub.callBytes += p.callBytes()
			for i := range s.recorded[p.call] {
				m.sub.callBytes += s.recorded[p.call][i].callBytes()
			}
			for _, w := range s.waits {
				if w.Call == p.call {
					m.sub.callBytes += w.callBytes()
				}
			}
		}
		if p.kind == DataPrefix { // earlier fold versions kept one part per write
			m.write(p.name, p.data)
			continue
		}
		m.add(t, p)
	}
	s.byID[m.view.ID] = m
	s.messages = append(s.messages, m)
	return nil
}

// checkRestored checks the invariants of a restored state that the fold relies on.
func (s *State) checkRestored() error {
	if s.created == nil && (len(s.messages) > 0 || len(s.submissions) > 0) {
		return errors.New("decode state: messages without a conversation")
	}
	for _, w := range s.waits {
		if p := s.calls[w.Call]; p == nil || p.settled {
			return fmt.Errorf("decode state: no open call for the wait %q", w.Name)
		}
	}
	for i, sub := range s.submissions {
		if sub.Running && (sub != s.UnderWay() || sub != s.unsettled[0] && !sub.Ahead) {
			return fmt.Errorf("decode state: submission %s runs out of turn", sub.ID)
		}
		if i > 0 && s.submissions[i-1].Offset > sub.Offset || sub.Offset > s.head {
			return fmt.Errorf("decode state: submission %s is out of order", sub.ID)
		}
		if sub.Message != "" && s.byID[sub.Message] == nil && !sub.Settled {
			return fmt.Errorf("decode state: submission %s has no response", sub.ID)
		}
	}
	return nil
}

// decodeNumbers decodes one value and preserves the spelling of numbers.
func decodeNumbers(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the value")
	}
	return nil
}
