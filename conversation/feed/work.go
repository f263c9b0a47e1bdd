package feed

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Purposes of turns.
const (
	purposeAgent      = "agent"
	purposeCompaction = "compaction"
	kindPrompt        = "prompt"
	kindCompact       = "compact"
)

func (p *Projector) admitted(r *conversation.SubmissionAdmitted) {
	s := p.pendingReply(r.Submission)
	s.Dispatched = r.Dispatched
	s.Asked = &message{Role: "user", Content: append([]block{textBlock(r.Delivery.Body)}, images(r.Delivery.Attachments)...)}
}

func (p *Projector) attempt(r *conversation.AttemptStarted) {
	s := p.pendingReply(r.Submission)
	switch r.After {
	case conversation.AfterNothing:
		p.add(&s.lane, "operation_start", &operationStart{Kind: kindPrompt})
	case conversation.AfterLoss:
		p.agentEnd(&s.lane)
	}
	p.add(&s.lane, "agent_start", nil)
}

func (p *Projector) pause(id conversation.SubmissionID) { p.agentEnd(&p.pendingReply(id).lane) }

func (p *Projector) agentEnd(l *lane) {
	end := &agentEnd{Messages: []message{}}
	if l.Text != "" {
		end.Messages = append(end.Messages, message{Role: "assistant", Content: []block{textBlock(l.Text)}})
	}
	p.add(l, "agent_end", end)
}

// started begins a turn. The first one also emits the request.
func (p *Projector) started(r *conversation.ResponseStarted) {
	l := p.lane(r.Child, r.Submission, r.Message)
	p.closeTurn(l)
	l.Message, l.Turn = r.Message, &turn{ID: r.Turn}
	if r.Child == "" {
		p.pendingReply(r.Submission).Model = r.Model
	}
	p.add(l, "turn_start", &purposed{purposeAgent})
	p.showAsked(l)
	p.add(l, "message_start", &messageOf{message{Role: "assistant", Content: []block{}}})
}

func (p *Projector) showAsked(l *lane) {
	if l.Asked == nil {
		return
	}
	p.add(l, "message_start", &messageOf{*l.Asked})
	p.add(l, "message_end", &messageOf{*l.Asked})
	l.Asked = nil
}

func (p *Projector) delta(l *lane, r *conversation.Delta) {
	t := l.Turn
	if t == nil || r.Text == "" {
		return
	}
	if t.Open != r.Kind {
		p.closePart(l)
		t.Open = r.Kind
		t.Content = append(t.Content, newPart(r.Kind))
		if r.Kind == conversation.PartReasoning {
			p.add(l, "thinking_start", &thinkingStart{len(t.Content) - 1})
		}
	}
	b := &t.Content[len(t.Content)-1]
	if r.Kind == conversation.PartReasoning {
		*b.Thinking = append(*b.Thinking, r.Text...)
		p.add(l, "thinking_delta", &thinkingDelta{len(t.Content) - 1, r.Text})
		return
	}
	*b.Text = append(*b.Text, r.Text...)
	p.add(l, "text_delta", &text{r.Text})
}

func (p *Projector) closePart(l *lane) {
	t := l.Turn
	if t.Open == conversation.PartReasoning {
		n := len(t.Content) - 1
		p.add(l, "thinking_end", &thinkingEnd{n, string(*t.Content[n].Thinking)})
	}
	t.Open = ""
}

func (p *Projector) called(l *lane, r *conversation.ToolCalled) {
	if l.Turn == nil {
		return
	}
	p.closePart(l)
	l.Turn.Content = append(l.Turn.Content, block{Type: "toolCall", ID: r.Call, Name: r.Name, Arguments: orNull(r.Input)})
	l.Turn.Waiting = append(l.Turn.Waiting, r.Call)
}

// completed ends the model's output in a turn. Its tools run next.
func (p *Projector) completed(l *lane, r *conversation.StepCompleted) {
	spent := usageOf(r.Usage, r.Facts.Price)
	if s := p.s.Unsettled[l.Root]; s != nil {
		s.Usage.add(spent)
	}
	t := l.Turn
	if t == nil {
		return
	}
	p.closePart(l)
	content := message{Role: "assistant", Content: t.Content}
	p.add(l, "message_end", &messageOf{content})
	broken := p.failureOf(r.StopReason)
	t.Done = &turnDone{
		Purpose: purposeAgent, DurationMs: r.DurationMs, Request: requestOf(r.Model, r.Facts), IsError: broken != "",
		Response: modelResponse{ID: r.Facts.ResponseID, Model: r.Facts.ResponseModel, Usage: spent, Finish: p.finish(r.StopReason)},
	}
	if broken != "" {
		t.Done.Response.Error = &errorOf{Type: broken}
	} else {
		l.Text = textOf(t.Content)
	}
	for _, c := range r.Calls {
		p.add(l, "tool_start", &toolStart{Name: c.Name, Call: c.Call, Args: argsOf(t.Content, c.Call)})
	}
	if len(t.Waiting) == 0 {
		p.closeTurn(l)
	}
}

func textOf(content []block) string {
	var out strings.Builder
	for _, b := range content {
		if b.Type == "text" {
			out.Write(*b.Text)
		}
	}
	return out.String()
}

func argsOf(content []block, id conversation.CallID) json.RawMessage {
	for _, b := range content {
		if b.ID == id {
			return b.Arguments
		}
	}
	return nil
}

// finish maps a stop reason to the finish reason of events.
func (p *Projector) finish(stop string) string {
	switch {
	case stop == "tool_use":
		return "toolUse"
	case stop == conversation.ReasonInterrupted && p.aborted:
		return "aborted"
	}
	return stop
}

// failureOf maps a stop reason to a failure class, "" for a normal end.
func (p *Projector) failureOf(stop string) string {
	switch p.finish(stop) {
	case "error":
		return string(conversation.CodeModelFailed)
	case "aborted":
		return string(conversation.CodeAborted)
	case conversation.ReasonInterrupted:
		return conversation.ReasonInterrupted
	}
	return ""
}

func requestOf(spec string, f conversation.CallFacts) request {
	m := modelOf(spec)
	name := f.Provider
	if name == "" {
		name = m.Provider
	}
	return request{Provider: m.Provider, Name: name, Model: m.ID, API: f.API, Server: f.Server, Port: f.Port, Thinking: f.Thinking}
}

func modelOf(spec string) Model {
	provider, id, ok := strings.Cut(spec, "/")
	if !ok {
		provider, id = "", spec
	}
	return Model{Provider: provider, ID: id}
}

// closeTurn ends a turn whose tools have finished, or never will.
func (p *Projector) closeTurn(l *lane) {
	t := l.Turn
	if t == nil {
		return
	}
	if t.Done != nil {
		content := message{Role: "assistant", Content: t.Content}
		results := t.Results
		if results == nil {
			results = []message{}
		}
		p.add(l, "turn_messages", &turnMessages{Purpose: purposeAgent, Message: content, Results: results})
		t.Done.Response.Output = &content
		p.add(l, "turn", t.Done)
	}
	l.Turn = nil
}

// dropped withdraws a turn's output.
func (p *Projector) dropped(l *lane, r *conversation.StepDropped) {
	if l.Turn == nil {
		return
	}
	p.closePart(l)
	p.add(l, "message_end", &messageOf{message{Role: "assistant", Content: []block{}}})
	p.add(l, "turn", failedTurn(r.Model, r.Facts, r.DurationMs, &errorOf{Type: r.Reason}))
	l.Turn = nil
}

func failedTurn(model string, facts conversation.CallFacts, ms int64, err *errorOf) *turnDone {
	return &turnDone{
		Purpose: purposeAgent, DurationMs: ms, Request: requestOf(model, facts), IsError: true,
		Response: modelResponse{Finish: "error", Error: err},
	}
}

// failedCall emits the events of a model call without output.
func (p *Projector) failedCall(l *lane, c *conversation.FailedCall, err *errorOf) {
	if c == nil {
		return
	}
	l.Turn = &turn{ID: c.Turn}
	p.add(l, "turn_start", &purposed{purposeAgent})
	p.showAsked(l)
	p.add(l, "turn", failedTurn(c.Model, c.Facts, c.DurationMs, err))
	l.Turn = nil
}

func (p *Projector) toolSettled(r *conversation.ToolSettled) {
	l := p.laneOfCall(r)
	t := &tool{Name: r.Name, Call: r.Call, IsError: r.Failed, Result: r.Output}
	content := toolText(r.Output)
	if r.Failed {
		content = r.ErrorText
		t.Result, _ = conversation.EncodeJSON(content) // encoding a string cannot fail
	}
	if r.DurationMs != nil {
		t.DurationMs = *r.DurationMs
	}
	p.add(l, "tool", t)
	result := message{
		Role: "toolResult", Call: r.Call, Tool: r.Name, IsError: &r.Failed, Content: append([]block{textBlock(content)}, images(r.Attachments)...),
	}
	p.add(l, "message_start", &messageOf{result})
	p.add(l, "message_end", &messageOf{result})
	if l.Turn == nil {
		return
	}
	l.Turn.Results = append(l.Turn.Results, result)
	l.Turn.Waiting = slices.DeleteFunc(l.Turn.Waiting, func(c conversation.CallID) bool { return c == r.Call })
	if len(l.Turn.Waiting) == 0 && l.Turn.Done != nil {
		p.closeTurn(l)
	}
}

// laneOfCall returns the lane of a call; older versions did not record it.
func (p *Projector) laneOfCall(r *conversation.ToolSettled) *lane {
	if r.Child == "" && r.Root == "" {
		for _, s := range p.s.Unsettled {
			if s.Turn != nil && slices.Contains(s.Turn.Waiting, r.Call) {
				return &s.lane
			}
		}
	}
	return p.lane(r.Child, r.Root, "")
}

func (p *Projector) advisory(r *conversation.Advisory) {
	p.add(p.lane(r.Child, r.Submission, ""), "log", loggedBy(r))
}

func loggedBy(r *conversation.Advisory) *logged {
	attributes := map[string]string{"display": string(r.Display)}
	for k, v := range r.Attributes {
		attributes[k] = v
	}
	return &logged{Level: "info", Message: r.Text, Attributes: attributes}
}

func (p *Projector) taskStarted(r *conversation.ChildStarted) {
	l := &lane{Root: r.Root, Child: r.Child, Parent: r.Parent, Asked: &message{Role: "user", Content: []block{textBlock(r.Prompt)}}}
	if p.s.Tasks == nil {
		p.s.Tasks = map[conversation.ConversationID]*lane{}
	}
	p.s.Tasks[r.Child] = l
	p.outer(l, "task_start", &taskStart{Prompt: r.Prompt, Agent: r.Agent})
	p.add(l, "operation_start", &operationStart{Kind: kindPrompt})
	p.add(l, "agent_start", nil)
}

func (p *Projector) taskSettled(r *conversation.ChildSettled) {
	l := p.lane(r.Child, r.Root, "")
	failed := r.Outcome != conversation.OutcomeCompleted
	var err *errorOf
	if failed {
		err = &errorOf{Type: "task_" + string(r.Outcome)}
	}
	p.closeTurn(l)
	p.failedCall(l, r.Unheard, err)
	p.showAsked(l)
	p.agentEnd(l)
	p.add(l, "operation", &operation{Kind: kindPrompt, DurationMs: r.DurationMs, IsError: failed, Error: err, Usage: usageOf(r.Usage, nil)})
	done := &task{Agent: r.Agent, IsError: failed, DurationMs: r.DurationMs}
	if !failed {
		done.Result = l.Text
	}
	p.outer(l, "task", done)
	delete(p.s.Tasks, r.Child)
}

func (p *Projector) compacted(r *conversation.Compacted) {
	in := p.lane(r.Child, r.Root, "")
	l := &lane{Root: in.Root, Child: in.Child, Parent: in.Parent} // without the open turn
	if r.Detached {
		l.Root = ""
		p.add(l, "operation_start", &operationStart{Kind: kindCompact})
	}
	p.add(l, "compaction_start", &compactionStart{Reason: string(r.Reason), Tokens: r.Tokens})
	spent := usageOf(r.Usage, r.Facts.Price)
	l.Turn = &turn{ID: r.Turn}
	p.add(l, "turn_start", &purposed{purposeCompaction})
	p.add(l, "turn", &turnDone{
		Purpose: purposeCompaction, DurationMs: r.DurationMs, Request: requestOf(r.Model, r.Facts),
		Response: modelResponse{ID: r.Facts.ResponseID, Model: r.Facts.ResponseModel, Usage: spent, Finish: "stop"},
	})
	l.Turn = nil
	p.add(l, "compaction", &compaction{Before: r.Before + r.After, After: r.After, DurationMs: r.DurationMs, Usage: spent})
	if r.Detached {
		p.add(l, "operation", &operation{Kind: kindCompact, DurationMs: r.DurationMs})
	}
}

func (p *Projector) settled(r *conversation.SubmissionSettled) {
	s := p.pendingReply(r.Submission)
	l, done := &s.lane, &settled{Outcome: r.Outcome}
	if r.Error != nil {
		done.Error = &errorOf{Type: string(r.Error.Type), Message: r.Error.Message, Details: r.Error.Message, Meta: r.Error.Meta}
	}
	if r.Outcome == conversation.OutcomeCompleted {
		done.Result = &Response{Text: l.Text, Usage: s.Usage, Model: modelOf(s.Model)}
	}
	p.closeTurn(l)
	p.failedCall(l, r.Unheard, done.Error)
	if r.Began {
		p.showAsked(l)
	}
	if r.Open {
		p.agentEnd(l)
	}
	if r.Began {
		p.add(l, "operation", &operation{
			Kind: kindPrompt, DurationMs: r.ElapsedMs, IsError: r.Outcome != conversation.OutcomeCompleted, Error: done.Error, Usage: &s.Usage, Result: done.Result,
		})
		p.add(l, "idle", nil)
	}
	p.whole(l, TypeSettled, done)
	delete(p.s.Unsettled, r.Submission)
}

// orNull keeps a member that clients expect.
func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}
