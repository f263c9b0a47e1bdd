package observability

import (
	"github.com/parleyrun/parley/conversation"
)

// Place locates a live event within a conversation.
type Place struct {
	// Submission is the client's submission, also within a subagent's work.
	Submission conversation.SubmissionID
	// Child is the subagent's conversation. Parent is its caller's, if that is a subagent too.
	Child, Parent conversation.ConversationID
	Turn          conversation.TurnID
	// Whole is set for an event about the submission itself, or the conversation.
	Whole bool
}

// Live returns a live event without ID and Index, which the emitting node assigns.
func (s Source) Live(at conversation.Time, in Place, payload Payload) Event {
	env := Envelope{
		Version: Version, Seq: LiveSeq, At: at, Type: payload.EventType(), Agent: s.Agent, Instance: s.ID, Submission: in.Submission,
	}
	if !in.Whole {
		p := projection{}
		p.work(conversation.Origin{Root: in.Submission, Parent: in.Parent}, in.Child, in.Turn).fill(&env, s.Conversation)
	}
	return Event{Envelope: env, Payload: payload}
}

// Stream derives the live events of the batches of one conversation: messages as they appear, text as
// it becomes durable. It needs the batches in order, from the beginning of a turn on, and skips turns
// whose beginning it has not seen. The zero value with its fields set is ready. It belongs to one
// goroutine.
type Stream struct {
	Source  Source
	Options ProjectOptions

	turns map[conversation.ConversationID]*liveTurn
	// Of the current batch:
	out     []Event
	records int
	at      conversation.Time
}

// turnPieces bounds the tool results in turn_messages, because a turn may have many.
const turnPieces = 8

// liveTurn is a running turn, of the conversation or of a subagent.
type liveTurn struct {
	place       Place
	message     Message
	thinking    bool
	contents    int // parts so far
	bytes       int // bytes of the current part
	part        string
	cut         bool // the part is longer than the kept text
	resultBytes int  // bytes of results
	calls       map[conversation.CallID]bool
	complete    bool
	results     []Message
}

// Batch returns the live events of the next batch, which became durable at a time.
func (s *Stream) Batch(b conversation.Batch, at conversation.Time) []Event {
	s.Source, s.at, s.out, s.records = s.Source.After(b), at, nil, len(b.Records)
	for _, r := range b.Records {
		s.record(r)
	}
	return s.out
}

func (s *Stream) record(r conversation.Record) {
	switch r := r.(type) {
	case *conversation.ResponseStarted:
		s.started(r)
	case *conversation.Delta:
		if t := s.turns[r.Child]; t != nil {
			s.delta(t, r)
		}
	case *conversation.ToolCalled:
		if t := s.turns[r.Child]; t != nil {
			s.endThinking(t)
			t.calls[r.Call] = true
		}
	case *conversation.ToolSettled:
		s.toolSettled(r)
	case *conversation.StepCompleted:
		s.completed(r.Child, r.StopReason == finishError || r.StopReason == conversation.ReasonInterrupted)
	case *conversation.StepDropped:
		if t := s.turns[r.Child]; t != nil {
			t.calls = nil
			s.completed(r.Child, true)
		}
	case *conversation.ChildSettled:
		delete(s.turns, r.Child)
	case *conversation.SubmissionSettled:
		delete(s.turns, "")
	}
}

func (s *Stream) add(in Place, payload Payload) {
	if s.out == nil { // Most batches give none, or one per record and another.
		s.out = make([]Event, 0, s.records+1)
	}
	s.out = append(s.out, s.Source.Live(s.at, in, payload))
}

func (s *Stream) started(r *conversation.ResponseStarted) {
	root := r.Root
	if r.Child == "" {
		root = r.Submission
	}
	t := &liveTurn{
		place:   Place{Submission: root, Child: r.Child, Parent: r.Parent, Turn: r.Turn},
		message: Message{ID: string(r.Message), Role: roleAssistant}, calls: map[conversation.CallID]bool{},
	}
	if s.turns == nil {
		s.turns = map[conversation.ConversationID]*liveTurn{}
	}
	s.turns[r.Child] = t
	s.add(t.place, &MessageStart{Message: t.message})
}

// Roles of messages in events.
const (
	roleAssistant  = "assistant"
	roleToolResult = "toolResult"
)

func (s *Stream) delta(t *liveTurn, r *conversation.Delta) {
	text := s.shown(r.Text)
	if r.Kind != conversation.PartReasoning {
		s.endThinking(t)
		t.message.Bytes += len(r.Text)
		if s.Options.Content && !t.message.Truncated {
			t.message.Text, t.message.Truncated = s.Options.cut(t.message.Text + r.Text)
		}
		s.add(t.place, &TextDelta{Bytes: len(r.Text), Text: text})
		return
	}
	if !t.thinking {
		t.thinking, t.bytes, t.part, t.cut = true, 0, "", false
		s.add(t.place, &ThinkingStart{ContentIndex: t.contents})
	}
	t.bytes += len(r.Text)
	if s.Options.Content && !t.cut {
		t.part, t.cut = s.Options.cut(t.part + r.Text)
	}
	s.add(t.place, &ThinkingDelta{ContentIndex: t.contents, Bytes: len(r.Text), Delta: text})
}

// shown returns text up to its limit, if content is enabled.
func (s *Stream) shown(text string) string {
	if !s.Options.Content {
		return ""
	}
	text, _ = s.Options.cut(text)
	return text
}

func (s *Stream) endThinking(t *liveTurn) {
	if t.thinking {
		s.add(t.place, &ThinkingEnd{ContentIndex: t.contents, Bytes: t.bytes, Content: t.part})
		t.thinking, t.part = false, ""
		t.contents++
	}
}

// completed ends the message of a turn. The turn continues until its calls have outcomes.
func (s *Stream) completed(child conversation.ConversationID, failed bool) {
	t := s.turns[child]
	if t == nil || t.complete {
		return
	}
	s.endThinking(t)
	t.complete, t.message.IsError = true, failed
	s.add(t.place, &MessageEnd{Message: t.message})
	s.settle(t)
}

func (s *Stream) toolSettled(r *conversation.ToolSettled) {
	t := s.turns[r.Child]
	if t == nil || !t.calls[r.Call] {
		return
	}
	delete(t.calls, r.Call)
	text := string(r.Output)
	if r.Failed {
		text = r.ErrorText
	}
	m := Message{Role: roleToolResult, ToolCallID: string(r.Call), ToolName: r.Name, IsError: r.Failed, Bytes: len(text), Images: len(r.Attachments)}
	if s.Options.Content {
		m.Text, m.Truncated = s.Options.cut(text)
	}
	start := m
	start.Text, start.Truncated = "", false
	s.add(t.place, &MessageStart{Message: start})
	s.add(t.place, &MessageEnd{Message: m})
	if t.resultBytes += len(m.Text); t.resultBytes > turnPieces*s.Options.Limit() {
		m.Text, m.Truncated = "", true
	}
	t.results = append(t.results, m)
	s.settle(t)
}

// settle emits the end of a turn and all its tools.
func (s *Stream) settle(t *liveTurn) {
	if !t.complete || len(t.calls) > 0 {
		return
	}
	s.add(t.place, &TurnMessages{Purpose: PurposeAgent, Message: t.message, ToolResults: t.results})
	delete(s.turns, t.place.Child)
}
