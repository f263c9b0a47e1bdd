package feed

import (
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Version is the version of the projection for a conversation whose creation has none.
const Version = 1

// ErrVersion means that a conversation has another version of the projection.
var ErrVersion = errors.New("event stream of another version")

// Event is one event. Number is its position in the stream, from 0.
type Event struct {
	Number int64
	JSON   []byte // one line
}

// Projector projects batches into events. The zero value starts with the log; see [Mark.Resume] for
// later positions.
type Projector struct {
	s       state
	emit    func(Event) // nil while events are only counted
	failed  error
	loose   int64 // eventIndex of events without a submission
	aborted bool  // later endings in the batch are aborted
}

// state is the projector's state between batches.
type state struct {
	Next       int64                                 `json:"next"`            // number of the next event
	FirstEvent int64                                 `json:"born,omitempty"`  // number of the first event of the current incarnation
	At         conversation.Time                     `json:"at,omitzero"`     // time of the previous record
	Unsettled  map[conversation.SubmissionID]*prompt `json:"owed,omitempty"`  // not settled
	Tasks      map[conversation.ConversationID]*lane `json:"tasks,omitempty"` // active subagents
	Run        *run                                  `json:"run,omitempty"`   // of a run's log

	incarnation *conversation.ConversationCreated // began the current incarnation; nil while events are only counted
}

// prompt is an unsettled submission.
type prompt struct {
	lane
	Index      int64  `json:"index,omitempty"` // eventIndex of its next event
	Dispatched bool   `json:"dispatched,omitempty"`
	Model      string `json:"model,omitempty"`
	Usage      usage  `json:"usage,omitzero"`
}

// lane is sequential work: that of a submission, or of a subagent.
type lane struct {
	Root    conversation.SubmissionID   `json:"root,omitempty"`
	Child   conversation.ConversationID `json:"child,omitempty"`
	Parent  conversation.ConversationID `json:"parent,omitempty"` // the delegating subagent, for a nested one
	Asked   *message                    `json:"asked,omitempty"`  // until the first turn has it
	Message conversation.MessageID      `json:"message,omitempty"`
	Turn    *turn                       `json:"turn,omitempty"`
	Text    string                      `json:"text,omitempty"` // text of the last complete turn
}

// turn is an active model call, or one whose tools run.
type turn struct {
	ID      conversation.TurnID   `json:"id"`
	Open    conversation.PartKind `json:"open,omitempty"` // the open part
	Content []block               `json:"content,omitempty"`
	Waiting []conversation.CallID `json:"waiting,omitempty"` // calls without an outcome
	Results []message             `json:"results,omitempty"`
	Done    *turnDone             `json:"done,omitempty"` // set when the model has finished
}

// Next returns the number of the next event.
func (p *Projector) Next() int64 { return p.s.Next }

// FirstEvent returns the number of the first event of the current incarnation.
func (p *Projector) FirstEvent() int64 { return p.s.FirstEvent }

// Apply passes the events of the next batch to emit, which may be nil. After an error the projector
// must not be used. The error is [ErrVersion] or an encoding failure.
func (p *Projector) Apply(records []conversation.Record, emit func(Event)) error {
	p.emit, p.aborted = emit, false
	for _, r := range records {
		p.loose = 0
		if p.record(r); p.failed != nil {
			return fmt.Errorf("project events: %w", p.failed)
		}
	}
	p.emit = nil
	return nil
}

func (p *Projector) record(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.ConversationCreated:
		p.created(r)
	case *conversation.ConversationDeleted:
		p.s = state{Next: p.s.Next, FirstEvent: p.s.Next, At: r.At}
	default:
		switch u := p.s.Run; {
		case u == nil:
			p.common(r)
		case !u.Ended:
			p.ofRun(r)
		}
	}
}

// common handles the records of conversation logs.
func (p *Projector) common(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.SubmissionAdmitted:
		p.at(r.At)
		p.admitted(r)
	case *conversation.AttemptStarted:
		p.at(r.At)
		p.attempt(r)
	case *conversation.AttemptReleased:
		p.at(r.At)
		p.pause(r.Submission)
	case *conversation.Suspended:
		p.at(r.At)
		p.pause(r.Submission)
	case *conversation.AbortRequested:
		p.aborted = true
	case *conversation.ResponseStarted:
		p.at(r.At)
		p.started(r)
	case *conversation.Delta:
		p.delta(p.lane(r.Child, "", r.Message), r)
	case *conversation.PartSigned:
		if l := p.lane(r.Child, "", r.Message); l.Turn != nil && l.Turn.Open == r.Kind && r.Call == "" {
			p.closePart(l)
		}
	case *conversation.ToolCalled:
		p.at(r.At)
		p.called(p.lane(r.Child, r.Root, r.Message), r)
	case *conversation.ToolSettled:
		p.at(r.At)
		p.toolSettled(r)
	case *conversation.StepCompleted:
		p.at(r.At)
		p.completed(p.lane(r.Child, r.Root, r.Message), r)
	case *conversation.StepDropped:
		p.at(r.At)
		p.dropped(p.lane(r.Child, r.Root, r.Message), r)
	default:
		p.rare(r)
	}
}

// rare handles the less frequent records.
func (p *Projector) rare(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.DataWritten:
		p.add(p.lane("", "", r.Message), "data", &data{Name: r.Name, Data: orNull(r.Data)})
	case *conversation.Advisory:
		p.advisory(r)
	case *conversation.ChildStarted:
		p.at(r.At)
		p.taskStarted(r)
	case *conversation.ChildSettled:
		p.at(r.At)
		p.taskSettled(r)
	case *conversation.Compacted:
		p.at(r.At)
		p.compacted(r)
	case *conversation.SubmissionSettled:
		p.at(r.At)
		p.settled(r)
	}
}

// at sets the time of a record; older versions omitted some.
func (p *Projector) at(t conversation.Time) {
	if t != 0 {
		p.s.At = t
	}
}

func (p *Projector) created(r *conversation.ConversationCreated) {
	if r.Stream != 0 && r.Stream != Version {
		p.failed = fmt.Errorf("%w: %d, this one is %d", ErrVersion, r.Stream, Version)
		return
	}
	p.s = state{Next: p.s.Next, FirstEvent: p.s.Next, At: r.At, incarnation: r}
	if _, ok := conversation.WorkflowOf(r.Agent); ok {
		p.s.Run = &run{}
	}
}

// pendingReply returns an unsettled submission, even if its admission is unknown.
func (p *Projector) pendingReply(id conversation.SubmissionID) *prompt {
	if p.s.Unsettled == nil {
		p.s.Unsettled = map[conversation.SubmissionID]*prompt{}
	}
	if p.s.Unsettled[id] == nil {
		p.s.Unsettled[id] = &prompt{lane: lane{Root: id}}
	}
	return p.s.Unsettled[id]
}

// lane returns the work that a record belongs to: of a subagent, a response, or a submission. It is
// nil if unknown.
func (p *Projector) lane(child conversation.ConversationID, root conversation.SubmissionID, response conversation.MessageID) *lane {
	if child != "" {
		if l := p.s.Tasks[child]; l != nil {
			return l
		}
		return &lane{Child: child, Root: root}
	}
	if response != "" {
		for _, s := range p.s.Unsettled {
			if s.Message == response {
				return &s.lane
			}
		}
	}
	if s := p.s.Unsettled[root]; s != nil {
		return &s.lane
	}
	return &lane{Root: root}
}

func (p *Projector) add(l *lane, kind string, payload any) { p.emitOf(l, kind, p.envelope(l), payload) }

// outer emits an event about a subagent in the lane that started it.
func (p *Projector) outer(l *lane, kind string, payload any) {
	env := p.envelope(l)
	env.Operation = operationOf(l.Root, l.Parent)
	p.emitOf(l, kind, env, payload)
}

// whole emits an event about a whole submission.
func (p *Projector) whole(l *lane, kind string, payload any) {
	env := p.envelope(l)
	env.Session, env.Harness, env.Operation, env.Turn = "", "", "", ""
	p.emitOf(l, kind, env, payload)
}

func (p *Projector) emitOf(l *lane, kind string, env envelope, payload any) {
	index := &p.loose
	if s := p.s.Unsettled[l.Root]; s != nil {
		index = &s.Index
	}
	env.Type, env.Index = kind, *index
	p.s.Next++
	*index++
	p.send(env, payload)
}

// send emits the event and advances the number.
func (p *Projector) send(env envelope, payload any) {
	if p.emit == nil || p.failed != nil {
		return
	}
	env.Version = EventVersion
	line, err := encode(&env, payload)
	if err != nil {
		p.failed = err
		return
	}
	p.emit(Event{Number: p.s.Next - 1, JSON: line})
}

// envelope returns the envelope of a lane's events, without type and index.
func (p *Projector) envelope(l *lane) envelope {
	env := envelope{
		At: p.s.At, Submission: l.Root,
		Session: "default", Harness: "default", Operation: operationOf(l.Root, l.Child),
	}
	if incarnation := p.s.incarnation; incarnation != nil {
		env.Agent, env.Instance, env.Conversation = incarnation.Agent, incarnation.ID, incarnation.ConversationID
	}
	if s := p.s.Unsettled[l.Root]; s != nil && s.Dispatched {
		env.Dispatch = l.Root
	}
	if l.Turn != nil {
		env.Turn = l.Turn.ID
	}
	if l.Child != "" {
		env.Conversation, env.Task, env.Session, env.Parent = l.Child, taskOf(l.Child), sessionOf(l.Child), sessionOf(l.Parent)
	}
	return env
}

// Names derived from ids of the log are the same as in observability events.

func operationOf(root conversation.SubmissionID, child conversation.ConversationID) string {
	switch {
	case child != "":
		return "op_" + strings.TrimPrefix(string(child), "conv_")
	case root != "":
		return "op_" + strings.TrimPrefix(string(root), "sub_")
	}
	return ""
}

func taskOf(child conversation.ConversationID) string {
	return "task_" + strings.TrimPrefix(string(child), "conv_")
}

func sessionOf(child conversation.ConversationID) string {
	if child == "" {
		return "default"
	}
	return "task:" + taskOf(child)
}
