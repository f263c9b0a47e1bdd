package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// phase is where a run stands.
type phase int

const (
	phaseStarting phase = iota // attempt_started is on its way
	phaseModel                 // a model call is under way
	phaseCalling               // the step's calls are on their way to the log
	phaseTools                 // tools run
	phaseRetry                 // a failed model call waits to be repeated
	phaseEnding                // the response's last step is on its way to the log
	phaseFinish                // the author sees the response
)

// run is the attempt under way.
type run struct {
	submission conversation.SubmissionID
	phase      phase
	at         conversation.Offset // the batch phaseStarting, phaseCalling and phaseEnding wait for
	began      time.Duration       // Env.Mono when the attempt became durable
	turn       conversation.TurnID // of the model call
	opened     bool                // response_started of the turn is recorded
	step       int                 // model calls of this attempt, repetitions not counted
	retries    int                 // repetitions of the model call
	metadata   json.RawMessage     // of the response, until it is open
	waiting    []conversation.ToolCall
	running    int // tools
}

// startNext begins an attempt at the first unsettled submission unless one is
// under way.
func (m *Machine) startNext() {
	if m.run != nil || m.draining || len(m.state.Unsettled()) == 0 {
		return
	}
	sub := m.state.Unsettled()[0]
	m.enqueue(true, &conversation.AttemptStarted{
		Submission: sub.ID, Attempt: sub.Attempts + 1, Writer: m.writer, At: m.env.Wall,
	})
	m.run = &run{submission: sub.ID, phase: phaseStarting, at: m.nextOffset()}
}

// continueRun takes the step that waits for durable records.
func (m *Machine) continueRun() {
	if m.run == nil || m.durable < m.run.at {
		return
	}
	switch m.run.phase {
	case phaseStarting:
		m.run.began = m.env.Mono
		left := m.limits().Timeout - m.state.Submission(m.run.submission).Elapsed()
		m.emit(SetTimer{TimerBudget, max(left, 0)})
		m.proceed()
	case phaseCalling:
		m.runTools()
	case phaseEnding:
		m.finish()
	}
}

// limits are the rules of this conversation's agent.
func (m *Machine) limits() Limits {
	l, ok := m.cfg.Limits(m.state.Created().Agent)
	if !ok {
		panic(fmt.Sprintf("machine: agent %q is not registered", m.state.Created().Agent))
	}
	return l
}

// cancel ends the run under way, if any, and whatever runs for it.
func (m *Machine) cancel() {
	if m.run == nil {
		return
	}
	m.emit(Cancel{m.gen})
	m.gen++
	m.run = nil
}

// resume takes over what an earlier writer left: a half-written step is closed
// and kept, calls without an outcome get one, and the first submission is tried
// again, within its limits.
func (m *Machine) resume() {
	queue := m.state.Unsettled()
	if len(queue) == 0 {
		return
	}
	m.ensureListed()
	sub := queue[0]
	cut := m.closeStep(sub, toolNotStarted, toolUnknown)
	limits := m.limits()
	over := sub.Attempts >= limits.MaxAttempts
	switch {
	case answered(sub) && (over || sub.Elapsed() >= limits.Timeout):
		m.settle(sub, conversation.OutcomeCompleted, nil)
	case over:
		m.giveUp(sub, failure(conversation.CodeRetryExhausted, sayRetryExhausted,
			map[string]any{"attempts": sub.Attempts, "maxAttempts": limits.MaxAttempts}))
	case sub.Elapsed() >= limits.Timeout:
		m.giveUp(sub, failure(conversation.CodeTimeout, sayTimeout, nil))
	default:
		if cut {
			m.enqueue(true, &conversation.Advisory{
				Message: conversation.MessageID(m.ids.next("msg_")), Submission: sub.ID,
				Text: noteContinue, Display: conversation.DisplayHidden,
			})
		}
		m.startNext()
	}
}

// closeStep ends the step under way and its calls. Calls of a step whose stream
// never ended did not start; calls of a completed step may have. It reports
// whether text was cut off, with no outcome of a call after it: the model then
// has to be told to go on.
func (m *Machine) closeStep(sub *conversation.Submission, notStarted, started string) (cut bool) {
	callText := started
	if turn := sub.OpenStep(); turn != "" {
		steps := sub.Steps()
		callText, cut = notStarted, hasText(steps[len(steps)-1])
		m.enqueue(true, &conversation.StepCompleted{
			Message: sub.Message, Turn: turn, StopReason: conversation.ReasonInterrupted, At: m.env.Wall, ElapsedMs: m.elapsed(),
		})
	}
	for _, c := range sub.OpenCalls() {
		cut = false
		m.enqueue(true, &conversation.ToolSettled{
			Call: c.Call, Failed: true, ErrorText: callText, ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
	}
	return cut
}

func hasText(s conversation.Step) bool {
	for _, p := range s.Parts {
		if p.Tool == nil && p.Text != "" {
			return true
		}
	}
	return false
}

// giveUp settles a submission as failed and says so in the transcript.
func (m *Machine) giveUp(sub *conversation.Submission, err *conversation.SettlementError) {
	m.advise(sub, err)
	m.settle(sub, conversation.OutcomeFailed, err)
}

// advise tells people in the transcript why a submission ends.
func (m *Machine) advise(sub *conversation.Submission, err *conversation.SettlementError) {
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: sub.ID,
		Text: err.Message, Display: conversation.DisplayDiagnostic,
		Attributes: map[string]string{"submissionId": string(sub.ID), "reason": string(err.Type)},
	})
}

// settle records the one outcome of a submission and begins the next.
func (m *Machine) settle(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	m.conclude(sub, outcome, err)
	m.startNext()
}

// conclude records the one outcome of a submission.
func (m *Machine) conclude(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	total := sub.Elapsed().Milliseconds()
	if m.run != nil && m.run.submission == sub.ID {
		total += m.elapsed() - sub.ElapsedNow().Milliseconds()
		m.gen++
		m.run = nil
	}
	m.enqueue(true, &conversation.SubmissionSettled{
		Submission: sub.ID, Outcome: outcome, Error: err, ElapsedMs: total, At: m.env.Wall,
	})
}

// budgetSpent ends a submission whose total time is used up.
func (m *Machine) budgetSpent() {
	if m.run == nil || m.run.phase == phaseStarting {
		return
	}
	if m.run.phase == phaseEnding || m.run.phase == phaseFinish {
		// The response is complete: its author's words about it do not fail it.
		m.emit(Cancel{m.gen})
		m.settle(m.state.Submission(m.run.submission), conversation.OutcomeCompleted, nil)
		return
	}
	sub := m.state.Submission(m.run.submission)
	before := sub.Elapsed() - sub.ElapsedNow()
	left := m.limits().Timeout - before - (m.env.Mono - m.run.began)
	if left > 0 { // the timer of an earlier submission
		m.emit(SetTimer{TimerBudget, left})
		return
	}
	m.emit(Cancel{m.gen})
	m.closeStep(sub, toolTimeUp, toolTimeUp)
	m.giveUp(sub, failure(conversation.CodeTimeout, sayTimeout, nil))
}

// nullOutput stands for a tool that returned nothing.
var nullOutput = json.RawMessage("null")
