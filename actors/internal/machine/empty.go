package machine

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// emptyReplies returns the number of consecutive model calls of sub, up to the newest, that ended with
// neither text nor a tool call. It also returns the stop reason of the newest. It returns 0 if the
// response has text or data, or if its tool calls terminated it. The count comes from the log, so a
// crash between two calls does not change it.
func (m *Machine) emptyReplies(sub *conversation.Submission) (stop string, n int) {
	turns := sub.Turns()
	if sub.Output() != nil || m.state.WroteData(sub) || slices.ContainsFunc(turns, conversation.Turn.HasText) {
		return "", 0
	}
	for _, t := range slices.Backward(turns) {
		switch {
		case t.HasCalls() && ends(t):
			return "", 0
		case t.HasCalls():
			return stop, n
		case t.Note != "" || !t.Completed || t.StopReason == conversation.ReasonInterrupted:
			continue
		}
		if n++; n == 1 {
			stop = t.StopReason
		}
	}
	return stop, n
}

// asksAgain reports whether the model is called once more after an empty reply. A reply that a limit
// or the vendor cut off would be cut off again.
func (m *Machine) asksAgain(sub *conversation.Submission) bool {
	stop, n := m.emptyReplies(sub)
	return (n == 1 || n > 1 && !asksOnce()) && stop != stopLength && stop != stopWithheld
}

// reportSilence adds a diagnostic to the transcript if a response, or a subagent's, ends without an
// answer.
func (m *Machine) reportSilence(sub *conversation.Submission) {
	stop, n := m.emptyReplies(sub)
	if n == 0 {
		return
	}
	last, _ := sub.LastTurn()
	reason, text := "empty", textEmpty
	switch stop {
	case stopLength:
		reason, text = stop, textEmptyCutOff
	case stopWithheld:
		reason, text = stop, textEmptyWithheld
	}
	client := sub.ID
	if m.work != nil {
		client = m.work.submission
	}
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: client, Display: conversation.DisplayDiagnostic,
		Text: fmt.Sprintf(text, last.Model), Attributes: map[string]string{"submissionId": string(client), "reason": reason},
	})
}
