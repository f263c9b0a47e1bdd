package feed

import (
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/conversation"
)

// TypeRunEnd is the type of the event that ends the stream of a run.
const TypeRunEnd = "run_end"

// run is the projector's state of a run.
type run struct {
	Submission conversation.SubmissionID `json:"submission,omitempty"` // empty until it has begun
	StartedAt  conversation.Time         `json:"startedAt,omitzero"`
	Result     json.RawMessage           `json:"result,omitempty"` // until the final event has it
	Ended      bool                      `json:"ended,omitempty"`

	input json.RawMessage // until it begins, in the batch of its admission
}

// Payloads of runs.
type (
	runStart struct {
		Workflow  string            `json:"workflowName"`
		StartedAt conversation.Time `json:"startedAt"`
		Input     json.RawMessage   `json:"input,omitempty"`
	}
	runEnd struct {
		Result     json.RawMessage `json:"result"`
		IsError    bool            `json:"isError"`
		Error      *RunError       `json:"error,omitempty"`
		DurationMs int64           `json:"durationMs"`
	}
)

// RunError is the error of a run without a result. Name is the code of its settlement.
type RunError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// ErrorOf returns the error of a run that ended without a result, otherwise nil.
func ErrorOf(e *conversation.SettlementError) *RunError {
	if e == nil {
		return nil
	}
	return &RunError{Name: string(e.Type), Message: e.Message}
}

// Closed reports whether the stream has ended: it belongs to a run that has ended.
func (p *Projector) Closed() bool { return p.s.Run != nil && p.s.Run.Ended }

// ofRun handles a record of a run's log.
func (p *Projector) ofRun(r conversation.Record) {
	u := p.s.Run
	switch r := r.(type) {
	case *conversation.SubmissionAdmitted:
		p.at(r.At)
		u.input = json.RawMessage(r.Delivery.Body)
	case *conversation.RunStarted:
		p.at(r.At)
		u.Submission, u.StartedAt = r.Submission, p.s.At
		p.addOfRun("run_start", p.runStart(u.input))
	case *conversation.AttemptStarted:
		if p.at(r.At); r.After == conversation.AfterLoss {
			p.addOfRun("run_resume", p.runStart(nil))
		}
	case *conversation.StepRecorded:
		p.addOfRun("log", &logged{Level: "info", Message: fmt.Sprintf("Step %s is recorded.", r.Name), Attributes: map[string]string{"step": r.Name}})
	case *conversation.WaitStarted:
		p.at(r.At)
	case *conversation.WaitEnded:
		p.at(r.At)
	case *conversation.DataWritten:
		p.addOfRun("data", &data{Name: r.Name, Data: orNull(r.Data)})
	case *conversation.Advisory:
		if r.Display != conversation.DisplayHidden { // from a model, and a run has none
			p.addOfRun("log", loggedBy(r))
		}
	case *conversation.ToolSettled:
		if p.at(r.At); r.Root == u.Submission && r.Child == "" && !r.Failed {
			u.Result = r.Output
		}
	case *conversation.SubmissionSettled:
		if p.at(r.At); r.Submission == u.Submission {
			p.runEnd(r)
		}
	}
	if _, admitted := r.(*conversation.SubmissionAdmitted); !admitted {
		u.input = nil
	}
}

// runStart returns the payload of run_start.
func (p *Projector) runStart(input json.RawMessage) *runStart {
	out := &runStart{StartedAt: p.s.Run.StartedAt, Input: input}
	if p.s.incarnation != nil {
		out.Workflow, _ = conversation.WorkflowOf(p.s.incarnation.Agent)
	}
	return out
}

func (p *Projector) runEnd(r *conversation.SubmissionSettled) {
	u := p.s.Run
	end := &runEnd{Result: orNull(nil), DurationMs: max(int64(p.s.At-u.StartedAt), 0)}
	if r.Outcome == conversation.OutcomeCompleted {
		end.Result = orNull(u.Result)
	} else {
		end.IsError, end.Error = true, ErrorOf(r.Error)
	}
	p.addOfRun(TypeRunEnd, end)
	u.Result, u.Ended = nil, true
}

// addOfRun emits an event of a run. Its eventIndex is its number.
func (p *Projector) addOfRun(kind string, payload any) {
	env := envelope{Type: kind, Index: p.s.Next, At: p.s.At}
	if p.s.incarnation != nil {
		env.Run = conversation.RunID(p.s.incarnation.ID)
	}
	p.s.Next++
	p.send(env, payload)
}
