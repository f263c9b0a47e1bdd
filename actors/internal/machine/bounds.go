package machine

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

func (m *Machine) recordText(w *work, id conversation.MessageID, kind conversation.PartKind, e ModelEvent) {
	if e.Text == "" {
		return
	}
	if w.partKind != e.Kind {
		w.partKind = e.Kind
		if !m.countBytes(w, conversation.PartBytes) {
			return
		}
	}
	begin := e.Text
	if left := m.limits().MaxResponse - w.responseBytes; left < len(begin) {
		begin = strings.ToValidUTF8(begin[:left], "") // the cut may split a character
	}
	if begin != "" {
		m.enqueueDelta(w, id, kind, begin)
	}
	m.countBytes(w, len(e.Text))
}

// countBytes adds n bytes to the response and fails the work if the limit is exceeded. Recorded text
// stays. The count covers all that the log holds of the response, so that neither another attempt nor
// another model resets it.
func (m *Machine) countBytes(w *work, n int) bool {
	limit := m.limits().MaxResponse
	if w.responseBytes += n; w.responseBytes <= limit {
		return true
	}
	m.completeTurn(w, ModelEvent{StopReason: stopError})
	m.skip(w, m.sub(w).OpenCalls(), toolTooLong)
	m.fail(w, tooLong(textResponseTooLong, limit, w.responseBytes))
	return false
}

func tooLong(text string, limit, got int) *conversation.SettlementError {
	return failure(conversation.CodeOutputTooLong, text, map[string]any{"limit": limit, "bytes": got})
}

const (
	// smallOutcome is the size of a call outcome, in bytes, that is recorded even without room.
	smallOutcome = 1 << 10
	// maxSmallOutcomes bounds the sum of small outcomes beyond the limit, in bytes.
	maxSmallOutcomes = 1 << 20
)

// withinLimits reports whether the limits allow another model call, and fails the work if not. The log may
// hold more than the current limits allow, and a model call would include all of it.
func (m *Machine) withinLimits(w *work) bool {
	limits, callBytes := m.limits(), m.state.CallBytes(w.submission)
	switch {
	case w.responseBytes > limits.MaxResponse:
		m.fail(w, tooLong(textResponseTooLong, limits.MaxResponse, w.responseBytes))
	case callBytes > limits.MaxCallBytes+maxSmallOutcomes:
		m.fail(w, tooLong(textOutcomesTooLong, limits.MaxCallBytes, callBytes))
	default:
		err := m.overspent(w)
		if err != nil {
			m.fail(w, err)
		}
		return err == nil
	}
	return false
}

// overspent returns the error of the first exhausted limit of a submission, or nil. The count covers
// all attempts, so that a model which always calls a tool ends. Model calls of other subagents that
// have not begun to answer count as turns.
func (m *Machine) overspent(w *work) *conversation.SettlementError {
	limits, spent := m.limits(), m.state.Spent(w.submission)
	for other := range m.allWork() {
		if other != w && other.phase == phaseModel && !other.opened {
			spent.Turns++
		}
	}
	switch {
	case spent.Turns >= limits.MaxTurns:
		return reached("turns", limits.MaxTurns, spent.Turns)
	case limits.MaxTokens > 0 && spent.Tokens >= limits.MaxTokens:
		return reached("tokens", limits.MaxTokens, spent.Tokens)
	case limits.MaxDollars > 0 && spent.Dollars >= limits.MaxDollars:
		return reached("dollars", limits.MaxDollars, spent.Dollars)
	}
	return m.overTree(m.state.Submission(m.work.submission))
}

func reached(bound string, limit, spent any) *conversation.SettlementError {
	return failure(conversation.CodeLimitReached, textLimitReached, map[string]any{"bound": bound, "limit": limit, "spent": spent})
}

// mayCall reports whether a call with so many bytes of arguments may be added to a response, and fails
// the work if not.
func (m *Machine) mayCall(w *work, arguments int) bool {
	limits, spent := m.limits(), m.state.Spent(w.submission)
	callBytes := m.state.CallBytes(w.submission) + conversation.PartBytes + arguments
	var err *conversation.SettlementError
	switch {
	case callBytes > limits.MaxCallBytes:
		err = tooLong(textOutcomesTooLong, limits.MaxCallBytes, callBytes)
	case spent.ToolCalls >= limits.MaxToolCalls:
		err = reached("toolCalls", limits.MaxToolCalls, spent.ToolCalls)
	default:
		return true
	}
	m.completeTurn(w, ModelEvent{StopReason: stopError})
	m.skip(w, m.sub(w).OpenCalls(), toolNotStarted)
	m.fail(w, err)
	return false
}

// minStored is the least room, in bytes, for a part of an output. With less room the reference to the
// whole would not fit.
const minStored = 16 << 10

// outputRoom returns how many bytes of a call's output are recorded. It returns 0, for an output that
// cannot be stored, if the response has used its room or if a function is called.
func (m *Machine) outputRoom(w *work) int {
	limits := m.limits()
	room := min(conversation.MaxPayloadBytes, limits.MaxCallBytes-m.state.CallBytes(w.submission))
	if limits.Function != "" || room < minStored {
		return 0
	}
	return room
}

// storesOutput emits [StoreOutput] for an output whose room was used up by calls that ended before it,
// and reports whether it did. An output with state writes or images is not stored: the writes would
// come too late, and the output names the images.
func (m *Machine) storesOutput(w *work, in ToolDone, done *conversation.ToolSettled) bool {
	room := m.outputRoom(w)
	if done.Failed || in.Stored != nil || len(in.State) > 0 || len(in.Images) > 0 || room == 0 || m.roomError(w, done, nil) == "" {
		return false
	}
	// Calls that still run may need as much.
	m.emit(StoreOutput{Done: in, Submission: w.submission, Room: max(room/w.running, minStored)})
	return true
}

// storedOutput returns the record of where the whole output is stored, if only a part is recorded.
func (m *Machine) storedOutput(w *work, in ToolDone, done *conversation.ToolSettled) []conversation.Record {
	if in.Stored == nil || done.Failed {
		return nil
	}
	if m.fitOutcome(w, done, in.Stored); done.Failed {
		return nil
	}
	return []conversation.Record{&conversation.OutputStored{Must: true, Call: in.Call, Child: w.child, StoredOutput: *in.Stored}}
}

// fitOutcome replaces an outcome that exceeds the room of its response by an error text for the model.
func (m *Machine) fitOutcome(w *work, done *conversation.ToolSettled, stored *conversation.StoredOutput) {
	if text := m.roomError(w, done, stored); text != "" {
		leaveOutput(done, text)
	}
}

// roomError returns the error text for an outcome that exceeds the room of its response, or "" if it
// fits. stored is the reference to the whole output, if it is stored.
func (m *Machine) roomError(w *work, done *conversation.ToolSettled, stored *conversation.StoredOutput) string {
	limit, callBytes := m.limits().MaxCallBytes, m.state.CallBytes(w.submission)
	size := len(done.Output) + len(done.ErrorText)
	n := size + stored.Bytes()
	if stored != nil {
		size = int(stored.Size)
	}
	switch {
	case n <= max(limit-callBytes, smallOutcome):
		return ""
	case m.limits().Function != "":
		return fmt.Sprintf(textRunNoRoom, size, callBytes, limit)
	}
	return fmt.Sprintf(toolNoRoom, size, callBytes, limit)
}

// tooManyCalls ends a turn with more calls than allowed. None of them run, as at the model's own
// length limit, and the model may try again. One note replaces the outcomes of the calls.
func (m *Machine) tooManyCalls(w *work) {
	limit := m.limits().MaxCalls
	m.completeTurn(w, ModelEvent{StopReason: stopLength})
	m.skip(w, m.sub(w).OpenCalls(), toolTooMany)
	if w.cutOff++; w.cutOff > maxCutOff {
		m.fail(w, failure(conversation.CodeOutputTooLong, textTooManyCalls, map[string]any{"limit": limit}))
		return
	}
	m.addNote(m.sub(w), fmt.Sprintf(noteCalls, limit, limit))
	m.callModel(w)
}
