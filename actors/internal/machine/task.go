package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

func (m *Machine) taskCalled(in TaskCalled) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) || m.state.ChildOf(in.Call) != nil {
		return
	}
	if m.state.Depth(w.submission) >= conversation.MaxDepth {
		m.outcome(w, nil, &conversation.ToolSettled{
			Call: in.Call, Child: w.child, Failed: true, ErrorText: fmt.Sprintf(toolTooDeep, conversation.MaxDepth),
			ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
		return
	}
	started := &conversation.ChildStarted{
		Child: conversation.ConversationID(m.ids.next("conv_")), Submission: conversation.SubmissionID(m.ids.next("sub_")),
		Call: in.Call, Agent: in.Agent, Prompt: in.Prompt, At: m.env.Wall,
	}
	m.enqueue(true, started)
	m.tasks = append(m.tasks, &work{submission: started.Submission, child: started.Child, phase: phaseStarting, at: m.nextOffset()})
}

// resumeTask resumes the subagent's task of an earlier attempt and reports whether there is one.
func (m *Machine) resumeTask(c conversation.ToolCall) bool {
	sub := m.state.ChildOf(c.Call)
	if sub == nil {
		return false
	}
	m.tasks = append(m.tasks, &work{submission: sub.ID, child: sub.Child, phase: phaseStarting, at: m.durable})
	return true
}

func (m *Machine) endTask(w *work, outcome conversation.Outcome) {
	sub := m.sub(w)
	parent := m.workFor(sub.Parent)
	done := &conversation.ToolSettled{Call: sub.Call, Child: parent.child, ElapsedMs: m.elapsed(), At: m.env.Wall}
	if outcome == conversation.OutcomeCompleted {
		if done.Output = sub.Output(); done.Output == nil {
			done.Output = textOf(sub)
		}
	} else {
		done.Failed, done.ErrorText = true, toolTaskFailed
	}
	m.endWork(w, conversation.ReasonInterrupted)
	m.outcome(parent, nil, done, &conversation.ChildSettled{
		Child: sub.Child, Outcome: outcome, Usage: sub.Usage(), Unheard: w.unheard, At: m.env.Wall,
	})
}

// textOf returns the final text of a subagent as JSON. If the last turn continues text that was
// interrupted by a crash, the result includes both.
func textOf(sub *conversation.Submission) []byte {
	var text string
	turns := sub.Turns()
	for i, t := range slices.Backward(turns) {
		last := i == len(turns)-1
		if !last && t.Note == "" && (t.StopReason != conversation.ReasonInterrupted || t.HasCalls()) {
			break
		}
		text = turnText(t) + text
	}
	out, _ := conversation.EncodeJSON(conversation.CutText(text, conversation.MaxPayloadBytes)) // a string always encodes
	return out
}

func turnText(t conversation.Turn) string {
	var texts []string
	for _, p := range t.Parts {
		if p.Tool == nil && p.Kind == conversation.PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}
