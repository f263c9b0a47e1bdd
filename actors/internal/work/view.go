package work

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// view is what an effect needs of a conversation's state, copied on the actor's goroutine:
// the state goes on to change while what the effect began runs.
type view struct {
	created conversation.ConversationCreated
	state   map[string]json.RawMessage // of the author
	origin  conversation.Origin

	// Of the submission that is worked on; all is zero if nobody works.
	id        conversation.SubmissionID
	child     conversation.ConversationID // of a subagent's
	agent     string                      // likewise
	depth     int
	message   conversation.MessageID
	delivery  conversation.Delivery
	left      *conversation.Left // where delivery stands if it is not whole
	continued int
	above     *view // of the submission whose work this is a part of, nil for none
	root      *view // of the conversation's submission that all of it is for

	attempts      int // of the root
	dispatchDepth int // likewise
	sender        *conversation.Sender
	tree          conversation.TreeRef // that the root belongs to, or begins

	// What the model sees, if it is asked.
	exchanges []conversation.Exchange
	shown     prompt.View
}

// look copies what work on a submission needs, "" for what belongs to none.
func look(s *conversation.State, id conversation.SubmissionID) *view {
	if sub := s.Submission(id); sub != nil {
		return lookAt(s, sub)
	}
	return &view{created: *s.Created(), state: maps.Clone(s.AuthorState()), origin: s.Origin(id)}
}

// lookAt is look, of a submission that may have been cut out of the state.
func lookAt(s *conversation.State, sub *conversation.Submission) *view {
	v := &view{
		created: *s.Created(), origin: s.Origin(sub.ID),
		id: sub.ID, child: sub.Child, agent: sub.Agent, message: sub.Message, delivery: sub.Delivery, left: sub.LeftOf(), continued: sub.Continued,
	}
	if sub.Child != "" {
		v.depth, v.above = s.Depth(sub.ID), look(s, sub.Parent)
		v.root = v.above.root
		return v
	}
	v.state, v.attempts, v.dispatchDepth, v.sender = maps.Clone(s.AuthorState()), sub.Attempts, sub.DispatchDepth, sub.Sender
	v.tree = conversation.TreeRef{Root: s.Created().Address().Reach(), Submission: sub.ID}
	if sub.Tree != nil {
		v.tree = *sub.Tree
	}
	v.root = v
	return v
}

// seen adds what the model sees.
func (v *view) seen(s *conversation.State) *view {
	v.exchanges, v.shown = prompt.Exchanges(s, v.id), prompt.View{After: s.Compacted(v.id), Without: s.Refused()}
	return v
}

// turn is the facts an author's functions get of a turn.
func (v *view) turn(number int) *agent.Turn {
	t := &agent.Turn{
		Address: v.created.Address(), UID: v.created.UID, Number: number, Delivery: v.delivery, InitialData: v.created.InitialData,
	}
	if v.root != nil {
		t.Submission, t.Attempt = v.root.id, v.root.attempts
	}
	return t
}

// place is where live events of the work belong.
func (v *view) place(turn conversation.TurnID) observability.Place {
	return observability.Place{Submission: v.origin.Root, Parent: v.origin.Parent, Turn: turn, Child: v.child}
}

// responseOf returns what a response has and what was spent on it.
func responseOf(sub *conversation.Submission, spent conversation.Spent) *agent.Response {
	resp := &agent.Response{Message: sub.Message, Usage: spent.Usage, Dollars: spent.Dollars, Output: sub.Output()}
	var texts []string
	for _, t := range sub.Turns() {
		if t.Note != "" {
			continue
		}
		resp.StopReason = t.StopReason
		for _, p := range t.Parts {
			if p.Tool == nil && p.Kind == conversation.PartText {
				texts = append(texts, p.Text)
			}
		}
	}
	resp.Text = strings.Join(texts, "\n\n")
	return resp
}

// Do begins what an effect asks for, and reports whether it was one of this room. It copies
// what it needs of the state before it returns.
func (r *Runner) Do(e machine.Effect, s *conversation.State) bool {
	switch e := e.(type) {
	case machine.CallModel:
		r.callModel(e, look(s, e.Submission).seen(s))
	case machine.CallUnrecorded:
		r.unrecorded(e)
	case machine.RunTool:
		v := look(s, e.Submission)
		if e.Name == conversation.ReadOutputTool {
			v.seen(s)
		}
		r.runTool(e, v)
	case machine.AskTree:
		r.askTree(e, s)
	case machine.StoreOutput:
		r.storeOutput(e)
	case machine.StartDelivery:
		r.startDelivery(e, look(s, e.Submission))
	case machine.FinishResponse:
		r.finishResponse(e, look(s, e.Submission), responseOf(s.Submission(e.Submission), s.Spent(e.Submission)))
	case machine.ShowSettlement:
		r.showSettlement(e, lookAt(s, e.Submission), responseOf(e.Submission, e.Spent))
	case machine.Summarize:
		r.summarize(e, look(s, e.Submission).seen(s))
	case machine.Cancel:
		r.end(e.Gen)
	default:
		return false
	}
	return true
}
