package http_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// runBegan and runOver are the start and the end of every fake run.
const runBegan, runOver = conversation.Time(1000), conversation.Time(4500)

// ReadRun implements conversation.RunReader.
func (f *fakeRuntime) ReadRun(ctx context.Context, id conversation.RunID) (string, *conversation.Run, error) {
	c, err := f.open(ctx, "ReadRun", conversation.RunAddress(id))
	if conversation.CodeOf(err) == conversation.CodeStreamNotFound {
		return "", nil, &conversation.Error{Code: conversation.CodeRunNotFound}
	}
	if err != nil {
		return "", nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	workflow, _ := conversation.WorkflowOf(c.state.Created().Agent)
	return workflow, c.state.Run(), nil
}

// newRuns returns a harness with the workflows report and other; other is not served.
func newRuns(t testing.TB, change func(*parleyhttp.Options)) *harness {
	return newHarness(t, func(o *parleyhttp.Options) {
		o.Runs = &parleyhttp.Runs{Path: "/", Workflows: []string{"report"}}
		o.Beta = &parleyhttp.Beta{Path: "/beta", Agents: []string{"assistant"}, Workflows: []string{"report"}}
		if change != nil {
			change(o)
		}
	})
}

// begin starts a run, including one of a workflow that is not served.
func (h *harness) begin(workflow, key, input string) conversation.RunID {
	h.t.Helper()
	id := conversation.RunFor(workflow, key)
	if _, err := h.rt.Admit(h.t.Context(), conversation.RunOf(workflow, id, json.RawMessage(input))); err != nil {
		h.t.Fatal(err)
	}
	return id
}

// called appends the batch in which the function of a run is called.
func (h *harness) called(id conversation.RunID) {
	h.t.Helper()
	sub := h.submissionOf(id)
	h.rt.record(h.t, conversation.RunAddress(id), []conversation.Record{&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "w"}}, []conversation.Record{
		&conversation.ResponseStarted{Message: "msg_f", Submission: sub, Turn: "turn_1"},
		&conversation.ToolCalled{Message: "msg_f", Call: "call_1", Name: "report", Durable: true},
		&conversation.StepCompleted{Message: "msg_f", Turn: "turn_1", StopReason: "tool_use"},
	})
}

// took records a step of a run.
func (h *harness) took(id conversation.RunID, name string) {
	h.t.Helper()
	h.rt.record(h.t, conversation.RunAddress(id), []conversation.Record{&conversation.StepRecorded{Call: "call_1", Name: name, Output: json.RawMessage(`1`)}})
}

// ends ends a run with a result, or with an error.
func (h *harness) ends(id conversation.RunID, result, failure string) {
	h.t.Helper()
	sub := h.submissionOf(id)
	done := &conversation.ToolSettled{Origin: conversation.Origin{Root: sub}, Call: "call_1", Output: json.RawMessage(result)}
	end := &conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted, At: runOver}
	if failure != "" {
		done.Failed, done.Output, done.ErrorText = true, nil, failure
		end.Outcome, end.Error = conversation.OutcomeFailed, &conversation.SettlementError{Type: conversation.CodeRunFailed, Message: failure}
	}
	h.rt.record(h.t, conversation.RunAddress(id), []conversation.Record{done, end})
}

func (h *harness) submissionOf(id conversation.RunID) conversation.SubmissionID {
	h.rt.mu.Lock()
	defer h.rt.mu.Unlock()
	return h.rt.convs[conversation.RunAddress(id)].state.Run().Submission
}

// ran executes a run with four events.
func (h *harness) ran(key string) conversation.RunID {
	h.t.Helper()
	id := h.begin("report", key, `{"day":1}`)
	h.called(id)
	h.took(id, "open")
	h.took(id, "close")
	h.ends(id, `{"lines":3}`, "")
	return id
}
