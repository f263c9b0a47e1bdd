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

// view is a copy of the state that an effect needs, made on the actor's goroutine because the state
// changes later.
type view struct {
	created conversation.ConversationCreated
	state   map[string]json.RawMessage // state of the author
	origin  conversation.Origin

	// Of the submission under way; zero if there is none.
	id        conversation.SubmissionID
	child     conversation.ConversationID // of a subagent
	agent     string                      // of a subagent
	depth     int
	message   conversation.MessageID
	delivery  conversation.Delivery
	left      *conversation.Left // location of delivery if that is incomplete
	continued int
	above     *view // view of the parent of a subagent, else nil
	root      *view // view of the root submission

	attempts      int // number of attempts of the root submission
	dispatchDepth int // dispatch depth of the root submission
	sender        *conversation.Sender
	tree          conversation.TreeRef // tree of the root

	// The model's view, if withExchanges was called.
	exchanges []conversation.Exchange
	shown     prompt.View
}

// viewOf copies the state for the work on a submission; "" is for no submission.
func viewOf(s *conversation.State, id conversation.SubmissionID) *view {
	if sub := s.Submission(id); sub != nil {
		return viewOfSubmission(s, sub)
	}
	return &view{created: *s.Created(), state: maps.Clone(s.AuthorState()), origin: s.Origin(id)}
}

// viewOfSubmission returns the view like viewOf, of a submission that the state may no longer hold.
func viewOfSubmission(s *conversation.State, sub *conversation.Submission) *view {
	v := &view{
		created: *s.Created(), origin: s.Origin(sub.ID),
		id: sub.ID, child: sub.Child, agent: sub.Agent, message: sub.Message, delivery: sub.Delivery, left: sub.LeftOf(), continued: sub.Continued,
	}
	if sub.Child != "" {
		v.depth, v.above = s.Depth(sub.ID), viewOf(s, sub.Parent)
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

func (v *view) withExchanges(s *conversation.State) *view {
	v.exchanges, v.shown = prompt.Exchanges(s, v.id), prompt.View{After: s.Compacted(v.id), Without: s.Refused()}
	return v
}

func (v *view) turn(number int) *agent.Turn {
	t := &agent.Turn{
		Address: v.created.Address(), UID: v.created.UID, Number: number, Delivery: v.delivery, InitialData: v.created.InitialData,
	}
	if v.root != nil {
		t.Submission, t.Attempt = v.root.id, v.root.attempts
	}
	return t
}

func (v *view) place(turn conversation.TurnID) observability.Place {
	return observability.Place{Submission: v.origin.Root, Parent: v.origin.Parent, Turn: turn, Child: v.child}
}

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

// Do starts an effect and reports whether it belongs to this package. It copies the needed state
// before it returns.
func (r *Runner) Do(e machine.Effect, s *conversation.State) bool {
	switch e := e.(type) {
	case machine.CallModel:
		r.callModel(e, viewOf(s, e.Submission).withExchanges(s))
	case machine.CallUnrecorded:
		r.unrecorded(e)
	case machine.RunTool:
		v := viewOf(s, e.Submission)
		if e.Name == conversation.ReadOutputTool {
			v.withExchanges(s)
		}
		r.runTool(e, v)
	case machine.AskTree:
		r.askTree(e, s)
	case machine.StoreOutput:
		r.storeOutput(e)
	case machine.StartDelivery:
		r.startDelivery(e, viewOf(s, e.Submission))
	case machine.FinishResponse:
		r.finishResponse(e, viewOf(s, e.Submission), responseOf(s.Submission(e.Submission), s.Spent(e.Submission)))
	case machine.ShowSettlement:
		r.showSettlement(e, viewOfSubmission(s, e.Submission), responseOf(e.Submission, e.Spent))
	case machine.Summarize:
		r.summarize(e, viewOf(s, e.Submission).withExchanges(s))
	case machine.Cancel:
		r.end(e.Gen)
	default:
		return false
	}
	return true
}
