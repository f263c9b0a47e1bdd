package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// An idempotency key is kept while it is one of the last keptKeys, and for at least keptFor.
const (
	keptKeys = 1000
	keptFor  = Time(24 * time.Hour / time.Millisecond)
	// longerBytes bounds the JSON lines of keys with a longer retention: about five thousand keys.
	longerBytes = 1 << 20
)

// MaxKeepKey is the longest retention that an admission may request for its idempotency key.
const MaxKeepKey = 30 * 24 * time.Hour

// MaxResponseText bounds the bytes of text and reasoning of one response in a State. Updates contain
// the rest, batch by batch. Every limit on a response must be lower, because this bound only keeps the
// memory for any log bounded.
const MaxResponseText = 20 << 20

// truncationNote is appended to the text of a response that exceeds MaxResponseText.
const truncationNote = "\n\n[This response is too long to be shown as a whole.]"

// InvariantError reports that a record cannot follow the state: the log is corrupt or was written by a
// faulty version. The conversation is unusable.
type InvariantError struct {
	Offset Offset
	Type   RecordType
	Reason string
}

// Error implements error.
func (e *InvariantError) Error() string {
	if e.Type == "" { // The batch as a whole is invalid.
		return fmt.Sprintf("fold batch %d: %s", int64(e.Offset), e.Reason)
	}
	return fmt.Sprintf("fold batch %d: %s: %s", int64(e.Offset), e.Type, e.Reason)
}

// State is the fold of a log from its start through the batch Head. The zero value is not usable; see
// [NewState]. A State belongs to one goroutine.
//
// Invariants: at most one submission has begun and is neither settled nor suspended, and all earlier
// ones are settled or suspended. Every id of a message, submission or call is unique.
type State struct {
	head           Offset
	created        *ConversationCreated
	messages       []*message
	byID           map[MessageID]*message
	settlements    []Settlement
	submissions    []*Submission
	unsettled      []*Submission   // admission order
	pendingReplies []*PendingReply // oldest first; copied on write
	posts          []*Post         // in order of their last enqueueing; copied on write
	postsAt        Offset          // offset of the batch that last changed the due times of posts
	paths          []ReplyPath     // oldest first; copied on write
	pathsBefore    []ReplyPath     // paths before the newest admission
	waiting        waiting         // bytes of all unsettled submissions but the first
	bySub          map[SubmissionID]*Submission
	byKey          map[string]*Submission
	kept           keptLines     // keys of submissions that were moved to pages
	longer         keptLines     // keys older than those in kept, with a longer retention
	keys           []*Submission // submissions in memory whose keys are kept, newer than those in kept, oldest first
	history        HistoryCounts // counts of the history that was moved to pages, of this incarnation
	pages          []*HistoryPage
	born           Offset // offset of the batch that created this incarnation
	calls          map[CallID]*part
	author         map[string]json.RawMessage
	inline         int // bound in bytes, by default InlineBytes
	recorded       map[CallID][]StepRecorded
	compacted      *Compacted
	refused        []AttachmentID // images that models no longer get, see [State.Refused]
	waits          []*Wait        // waits for a time or a signal of calls without an outcome, oldest first
	signals        []*KeptSignal  // oldest first
	trees          []*Tree        // dispatch trees, in order of their last change; copied on write
	run            *Run           // workflow run of this log, nil in a conversation; copied on write
	decided        []DecidedName  // copied on write
	// children are the subagent conversations of unsettled submissions, oldest first. They are also in
	// bySub, and their responses in byID, but not in submissions or messages.
	children []*Submission
}

// NewState returns the state before the first batch.
func NewState() *State {
	return newStateAt(Start)
}

// NewStateHolding returns the state before the first batch, with the bound inline, in bytes, instead
// of [InlineBytes].
func NewStateHolding(inline int) *State {
	s := NewState()
	s.inline = inline
	return s
}

func newStateAt(head Offset) *State {
	return &State{
		head:     head,
		inline:   InlineBytes,
		byID:     map[MessageID]*message{},
		bySub:    map[SubmissionID]*Submission{},
		byKey:    map[string]*Submission{},
		calls:    map[CallID]*part{},
		author:   map[string]json.RawMessage{},
		recorded: map[CallID][]StepRecorded{},
	}
}

// message is one message of the transcript.
type message struct {
	view      Message // Parts and Metadata are unused: parts and meta hold them.
	left      *Left   // location of the message in the log if it is not in memory; its files are
	parts     []*part
	meta      map[string]any
	textBytes int         // bytes of text in the parts, for responses only
	sub       *Submission // submission that a response answers, nil for other messages
}

// part is one part of a message. Clients and the model see it differently; it holds the data of both
// views.
type part struct {
	kind      string // a PartType, or DataPrefix for data
	turn      *turn  // nil outside a response
	text      textBuffer
	streaming bool // text grows: the clients' view has no later part yet
	signature string
	// sealed is set when the part has ended for the model, which is independent of the clients' view.
	// more is set if clients see its text as a continuation of the previous part. Clients do not see a
	// sealed part without text.
	sealed, more bool

	name         string // name of the data or the tool
	data         json.RawMessage
	call         CallID
	sub          *Submission // submission of a tool call
	providerCall string
	settled      bool
	failed       bool
	output       json.RawMessage
	stored       *StoredOutput // location of the whole output if output is only a part of it
	images       []Attachment
	terminate    bool
	errorText    string
	durationMs   *int64
	durable      bool
	lost         int // number of attempts that were lost while the call ran or was about to run

	file Attachment
}

// end ends streaming of the text when the model begins another part.
func (p *part) end() {
	p.streaming = false
	p.text.end()
}

// turn is one model call of a response with its tool calls. A turn with a note is text from the
// runtime to the model instead.
type turn struct {
	id        TurnID
	model     string
	completed bool
	stop      string
	usage     Usage
	dollars   float64 // cost in US dollars
	note      string
	parts     []*part
}

// Submission is one admitted delivery and its state. Values returned by [State] methods are read-only
// and valid until the next Apply.
type Submission struct {
	ID          SubmissionID `json:"id"`
	Key         string       `json:"key"`
	PayloadHash string       `json:"payloadHash"`
	Delivery    Delivery     `json:"delivery"`
	// Left is the number of bytes of Delivery that are only in the log, 0 if it is complete. If set,
	// Delivery has only its kind and attachments; see [Submission.LeftOf].
	Left       int    `json:"left,omitempty"`
	Trace      Trace  `json:"trace,omitzero"`
	Offset     Offset `json:"offset"` // Offset of the batch that admitted it.
	AdmittedAt Time   `json:"admittedAt"`
	// KeyUntil is an extended retention of the key; 0 if no record sets one.
	KeyUntil Time `json:"keyUntil,omitempty"`

	// Attempts is the number of attempts that were started and not released.
	Attempts int `json:"attempts,omitempty"`
	// Running is set while an attempt is started and the submission is neither settled nor released.
	// Writer is that attempt's writer.
	Running bool   `json:"running,omitempty"`
	Writer  string `json:"writer,omitempty"`
	// Began is set when the first attempt starts, and never reset.
	Began bool `json:"began,omitempty"`
	// Dispatched is set if code in the process sent the delivery: a channel, a tool or a hook.
	Dispatched bool `json:"dispatched,omitempty"`
	// DispatchDepth and Sender are those of the [Admission].
	DispatchDepth int     `json:"dispatchDepth,omitempty"`
	Sender        *Sender `json:"sender,omitempty"`
	// Channel is the webhook channel that delivered it; empty for none.
	Channel string `json:"channel,omitempty"`
	// ReplyAddress is the address for the reply; zero if the conversation's id determines it.
	ReplyAddress ReplyAddress `json:"replyAddress,omitzero"`
	// Tree is the dispatch tree to which the submission belongs; nil if a dispatch of its work would
	// begin a tree.
	Tree *TreeRef `json:"tree,omitempty"`
	// Message is the id of the response, empty before its first turn.
	Message MessageID `json:"message,omitempty"`
	Aborted bool      `json:"aborted,omitempty"` // An abort covers it.
	// Suspended is the suspension of the submission, nil if it is not suspended. SuspendedAt is the
	// offset of the batch that suspended it.
	Suspended   *Suspended `json:"parked,omitempty"`
	SuspendedAt Offset     `json:"suspendedAt,omitempty"`
	// WorkedBefore is the part of Elapsed, in milliseconds, before the last suspension of a workflow
	// run. An older node ignores it, so it counts more time until the next suspension.
	WorkedBefore int64 `json:"workedBefore,omitempty"`
	// Ahead permits it to run while earlier submissions are suspended.
	Ahead bool `json:"ahead,omitempty"`
	// Due is set if a wait has ended since the suspension, so it may resume before its time.
	Due bool `json:"due,omitempty"`
	// Retry is the scheduled retry of its model call, nil if none is scheduled. Only a long delay is
	// recorded.
	Retry   *RetryScheduled `json:"retry,omitempty"`
	Settled bool            `json:"settled,omitempty"`
	Outcome Outcome         `json:"outcome,omitempty"`
	// Notify are the targets that get a notice of the settlement.
	Notify []string `json:"notify,omitempty"`
	// DeliveryStarted is set once the author's hook at the start of the delivery has ended. Continued
	// is the number of times that a hook continued the response instead of ending it.
	DeliveryStarted bool `json:"prepared,omitempty"`
	Continued       int  `json:"continued,omitempty"`

	// Fields of a subagent's hidden submission: its conversation, the agent's name, the call that
	// delegated the task, and the submission of that call.
	Child  ConversationID `json:"child,omitempty"`
	Agent  string         `json:"agent,omitempty"`
	Call   CallID         `json:"call,omitempty"`
	Parent SubmissionID   `json:"parent,omitempty"`

	delivered MessageID // its own message in the transcript
	turns     []*turn
	callBytes int        // bytes, see [State.CallBytes]
	elapsed   [2]int64   // milliseconds of the earlier attempts, and of the current one
	compacted *Compacted // newest compaction, of a subagent only
}

// Elapsed returns the sum of the durations of all attempts, by the monotonic clock, as far as they are
// recorded.
func (s *Submission) Elapsed() time.Duration {
	return time.Duration(s.elapsed[0]+s.elapsed[1]) * time.Millisecond
}

// Worked returns the time that counts against the submission's timeout. That is Elapsed, or for a
// workflow run the part since its last suspension, because a run may last a year in small steps.
func (s *Submission) Worked() time.Duration {
	return s.Elapsed() - time.Duration(s.WorkedBefore)*time.Millisecond
}

// Head returns the offset of the last folded batch.
func (s *State) Head() Offset { return s.head }

// Exists reports whether the conversation was created and has not been deleted since.
func (s *State) Exists() bool { return s.created != nil }

// Created returns the record that created this incarnation, nil if there is none. It is read-only.
func (s *State) Created() *ConversationCreated { return s.created }

// Lookup returns the submission admitted under an idempotency key, nil if the key is unknown or no
// longer kept.
func (s *State) Lookup(key string) *Submission {
	if sub := s.byKey[key]; sub != nil {
		return sub
	}
	if sub := s.kept.find(key); sub != nil {
		return sub
	}
	sub := s.longer.find(key)
	if sub == nil || s.bySub[sub.ID] == nil {
		return sub
	}
	return s.bySub[sub.ID] // it may be unsettled, so return the current one
}

// Submission returns a submission by id, or nil.
func (s *State) Submission(id SubmissionID) *Submission { return s.bySub[id] }

// Attachment returns an attachment of a message by its id, and whether it exists. It searches the
// pages too.
func (s *State) Attachment(id AttachmentID) (Attachment, bool) {
	for _, m := range s.messages {
		for _, p := range m.parts {
			if p.kind == PartTypeFile && p.file.ID == id {
				return p.file, true
			}
			if i := slices.IndexFunc(p.images, func(a Attachment) bool { return a.ID == id }); i >= 0 {
				return p.images[i], true
			}
		}
	}
	s.whole()
	for _, page := range s.pages {
		// A page that does not decode has no attachments.
		all, _ := page.Attachments()
		if i := slices.IndexFunc(all, func(a Attachment) bool { return a.ID == id }); i >= 0 {
			return all[i], true
		}
	}
	return Attachment{}, false
}

// MaxRefused bounds [State.Refused]. It exceeds the number of images that any vendor accepts in a
// request.
const MaxRefused = 4096

// Refused returns the attachments that models no longer get: the newest [MaxRefused], in order of
// rejection. The slice is shared and read-only.
func (s *State) Refused() []AttachmentID { return s.refused }

// foldRefused copies the slice before it removes an attachment, because Refused has returned it.
func (s *State) foldRefused(r *ImagesRefused) {
	for _, id := range r.Attachments {
		if !slices.Contains(s.refused, id) {
			s.refused = append(s.refused, id)
		}
	}
	s.refused = s.refused[max(0, len(s.refused)-MaxRefused):]
}

// Start returns the offset of the batch that created this incarnation.
func (s *State) Start() Offset { return s.born }

// Unsettled returns the submissions without a settlement, in admission order. The slice is shared and
// read-only.
func (s *State) Unsettled() []*Submission { return s.unsettled }

// UnderWay returns the submission that has begun and is neither settled nor suspended, or nil. Its
// attempt may have been released, or lost with its writer.
func (s *State) UnderWay() *Submission {
	i := slices.IndexFunc(s.unsettled, func(sub *Submission) bool { return (sub.Began || sub.Running) && sub.Suspended == nil })
	if i < 0 {
		return nil
	}
	return s.unsettled[i]
}

// AuthorState returns the author's persistent state by key. The map is shared and read-only.
func (s *State) AuthorState() map[string]json.RawMessage { return s.author }

// Apply folds the next batch. After an error the State must not be used.
func (s *State) Apply(b Batch) error {
	if b.Offset != s.head+1 {
		return &InvariantError{Offset: b.Offset, Reason: fmt.Sprintf("batch does not follow head %d", int64(s.head))}
	}
	return s.Extend(b.Offset, b.Records...)
}

// Extend folds records of a batch that is not complete or not durable yet, at the head or the next
// offset. A writer decides on the extended State, and discards it if the batch is lost.
func (s *State) Extend(at Offset, records ...Record) error {
	if at != s.head && at != s.head+1 {
		return &InvariantError{Offset: at, Reason: fmt.Sprintf("batch does not follow head %d", int64(s.head))}
	}
	s.head = at
	for _, r := range records {
		if err := s.fold(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) bad(r Record, format string, args ...any) error {
	return &InvariantError{Offset: s.head, Type: r.Type(), Reason: fmt.Sprintf(format, args...)}
}

// open returns an unsettled submission by id, or an [*InvariantError] for the record r.
func (s *State) open(r Record, id SubmissionID) (*Submission, error) {
	sub := s.bySub[id]
	if sub == nil {
		return nil, s.bad(r, "unknown submission %s", id)
	}
	if sub.Settled {
		return nil, s.bad(r, "submission %s is settled", id)
	}
	return sub, nil
}

func (s *State) response(r Record, id MessageID) (*message, error) {
	m := s.byID[id]
	if m == nil || m.sub == nil {
		return nil, s.bad(r, "unknown response %s", id)
	}
	return m, s.belongs(r, m.sub)
}

// openTurn returns a response and its open turn, or an [*InvariantError] for the record r.
func (s *State) openTurn(r Record, id MessageID) (*message, *turn, error) {
	m, err := s.response(r, id)
	if err != nil {
		return nil, nil, err
	}
	t := m.sub.lastTurn()
	if t == nil || t.completed {
		return nil, nil, s.bad(r, "response %s has no open turn", id)
	}
	return m, t, nil
}

// lastTurn returns the newest turn, skipping notes, or nil.
func (s *Submission) lastTurn() *turn {
	for i := len(s.turns) - 1; i >= 0; i-- {
		if s.turns[i].note == "" {
			return s.turns[i]
		}
	}
	return nil
}

func (s *State) addMessage(r Record, m *message) error {
	if s.byID[m.view.ID] != nil {
		return s.bad(r, "message %s exists", m.view.ID)
	}
	s.byID[m.view.ID] = m
	s.messages = append(s.messages, m)
	return nil
}

// expire removes the idempotency keys whose retention has ended.
func (s *State) expire(now Time) {
	for s.kept.count > 0 && s.kept.count+len(s.keys) > keptKeys && s.kept.oldest().AdmittedAt <= now-keptFor {
		s.keepLonger(s.kept.oldest().submission())
		s.kept.expire()
	}
	for s.kept.count == 0 && len(s.keys) > keptKeys && s.keys[0].AdmittedAt <= now-keptFor {
		if old := s.keys[0]; s.byKey[old.Key] == old {
			delete(s.byKey, old.Key)
		}
		s.keepLonger(s.keys[0])
		s.keys[0] = nil
		s.keys = s.keys[1:]
	}
	for s.longer.count > 0 && (s.longer.oldest().Until <= now || len(s.longer.lines) > longerBytes) {
		s.longer.expire()
	}
}

// keepLonger keeps the key of a submission that requested a longer retention.
func (s *State) keepLonger(sub *Submission) {
	if sub.KeyUntil == 0 {
		return
	}
	if err := s.longer.add(sub); err != nil {
		panic(fmt.Sprintf("conversation: %v", err)) // it was decoded from JSON
	}
}

func (s *State) foldKeyKept(r *KeyKept) error {
	sub := s.bySub[r.Submission]
	if sub == nil || sub.Offset != s.head {
		return s.bad(r, "submission %s was not admitted in this batch", r.Submission)
	}
	sub.KeyUntil = r.Until
	return nil
}

func (s *State) settle(r *SubmissionSettled) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	if t := sub.lastTurn(); t != nil && !t.completed {
		return s.bad(r, "submission %s has an open turn", r.Submission)
	}
	for _, c := range s.children {
		if s.root(c) == sub && !c.Settled {
			return s.bad(r, "subagent %s is running", c.Child)
		}
	}
	for _, w := range slices.Clone(s.waits) {
		if p := s.calls[w.Call]; p != nil && s.root(p.sub) == sub {
			s.endWaits(w.Call, r.At)
		}
	}
	s.dropChildren(sub)
	s.replied(sub, r)
	s.setOutcome(r)
	sub.Settled, sub.Running, sub.Outcome = true, false, r.Outcome
	sub.Suspended, sub.SuspendedAt, sub.Due, sub.Ahead, sub.Retry = nil, 0, false, false, nil
	i := slices.Index(s.unsettled, sub)
	if next := max(i, 1); next < len(s.unsettled) { // this submission is the first now and no longer waits
		s.waiting.add(s.unsettled[next], -1)
	}
	s.unsettled = slices.Delete(s.unsettled, i, i+1)
	s.settlements = append(s.settlements, Settlement{SubmissionID: r.Submission, Outcome: r.Outcome, Error: r.Error})
	return nil
}
