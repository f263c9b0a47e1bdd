package machine

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// speak records text or reasoning, as far as the response may still have it.
func (m *Machine) speak(w *work, id conversation.MessageID, kind conversation.PartKind, e ModelEvent) {
	if e.Text == "" {
		return
	}
	if w.speaks != e.Kind {
		w.speaks = e.Kind
		if !m.mayStill(w, conversation.PartBytes) {
			return
		}
	}
	begin := e.Text
	if left := m.limits().MaxResponse - w.said; left < len(begin) {
		begin = strings.ToValidUTF8(begin[:left], "") // what was cut may be a character
	}
	if begin != "" {
		m.enqueueDelta(w, id, kind, begin)
	}
	m.mayStill(w, len(e.Text))
}

// mayStill counts n bytes of a response and ends the work if that is more than it may
// have. What it has said stays. It is counted over all that the log has of the
// response: a model that never ends would not end in another attempt, nor would there
// be room for what another model says.
func (m *Machine) mayStill(w *work, n int) bool {
	limit := m.limits().MaxResponse
	if w.said += n; w.said <= limit {
		return true
	}
	m.completeTurn(w, ModelEvent{StopReason: stopError})
	m.skip(w, m.sub(w).OpenCalls(), toolTooLong)
	m.fail(w, tooLong(sayTooMuch, limit, w.said))
	return false
}

func tooLong(say string, limit, got int) *conversation.SettlementError {
	return failure(conversation.CodeOutputTooLong, say, map[string]any{"limit": limit, "bytes": got})
}

const (
	// smallOutcome is what an outcome may have, in bytes, when there is no room for more.
	smallOutcome = 1 << 10
	// muchSmall is what outcomes may have together beyond what they may, being small.
	muchSmall = 1 << 20
)

// mayAsk reports whether a model may be asked for a response, and ends the work if not:
// what the log has of it may be more than is allowed now, and would be shown as a whole.
func (m *Machine) mayAsk(w *work) bool {
	limits, brought := m.limits(), m.state.Brought(w.submission)
	switch {
	case w.said > limits.MaxResponse:
		m.fail(w, tooLong(sayTooMuch, limits.MaxResponse, w.said))
	case brought > limits.MaxBrought+muchSmall:
		m.fail(w, tooLong(sayBroughtMuch, limits.MaxBrought, brought))
	default:
		err := m.overspent(w)
		if err != nil {
			m.fail(w, err)
		}
		return err == nil
	}
	return false
}

// overspent says what a submission has spent as much of as it may, nil if nothing. It is counted over
// all that the log has of it: a model that always calls a tool would not end in another attempt. Calls of
// others, for subagents beside it, that have not begun to answer will be turns, too.
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

func reached(what string, limit, spent any) *conversation.SettlementError {
	return failure(conversation.CodeLimitReached, sayLimitReached, map[string]any{"bound": what, "limit": limit, "spent": spent})
}

// mayCall reports whether a call with so many bytes of arguments may be added to a
// response, and ends the work if not.
func (m *Machine) mayCall(w *work, arguments int) bool {
	limits, spent := m.limits(), m.state.Spent(w.submission)
	brought := m.state.Brought(w.submission) + conversation.PartBytes + arguments
	var err *conversation.SettlementError
	switch {
	case brought > limits.MaxBrought:
		err = tooLong(sayBroughtMuch, limits.MaxBrought, brought)
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

// minStored is the least room in which a part of an output may be recorded: with less,
// what says where the others are would have no room.
const minStored = 16 << 10

// outputRoom returns how many bytes of a call's output are recorded, 0 if nothing may be
// stored because the response has used its room, or because a function is called.
func (m *Machine) outputRoom(w *work) int {
	limits := m.limits()
	room := min(conversation.MaxPayloadBytes, limits.MaxBrought-m.state.Brought(w.submission))
	if limits.Function != "" || room < minStored {
		return 0
	}
	return room
}

// storesFirst has an output stored for which there was room when its call began and is none
// any more, since others ended before it, and reports whether it did. What the author's code
// wrote would come too late then, and the ids of images stand in an output: one with either
// is left out.
func (m *Machine) storesFirst(w *work, in ToolDone, done *conversation.ToolSettled) bool {
	room := m.outputRoom(w)
	if done.Failed || in.Stored != nil || len(in.State) > 0 || len(in.Images) > 0 || room == 0 || m.lacksRoom(w, done, nil) == "" {
		return false
	}
	// Those that still run may need as much.
	m.emit(StoreOutput{Done: in, Submission: w.submission, Room: max(room/w.running, minStored)})
	return true
}

// storedOutput is what says where the whole output is, if a part of it is recorded.
func (m *Machine) storedOutput(w *work, in ToolDone, done *conversation.ToolSettled) []conversation.Record {
	if in.Stored == nil || done.Failed {
		return nil
	}
	if m.fit(w, done, in.Stored); done.Failed {
		return nil
	}
	return []conversation.Record{&conversation.OutputStored{Must: true, Call: in.Call, Child: w.child, StoredOutput: *in.Stored}}
}

// fit leaves out an outcome for which its response has no room. The model reads that in its
// place.
func (m *Machine) fit(w *work, done *conversation.ToolSettled, stored *conversation.StoredOutput) {
	if say := m.lacksRoom(w, done, stored); say != "" {
		leaveOutput(done, say)
	}
}

// lacksRoom says for the model why a response has no room for an outcome, with what says
// where all of it is stored, if anything does; "" if it has.
func (m *Machine) lacksRoom(w *work, done *conversation.ToolSettled, stored *conversation.StoredOutput) string {
	limit, brought := m.limits().MaxBrought, m.state.Brought(w.submission)
	size := len(done.Output) + len(done.ErrorText)
	n := size + stored.Bytes()
	if stored != nil {
		size = int(stored.Size)
	}
	switch {
	case n <= max(limit-brought, smallOutcome):
		return ""
	case m.limits().Function != "":
		return fmt.Sprintf(sayRunNoRoom, size, brought, limit)
	}
	return fmt.Sprintf(toolNoRoom, size, brought, limit)
}

// tooManyCalls ends a turn whose reply has more calls than it may. Like one that ends
// at the model's own limit it runs none of them, and the model may try again; what it
// wanted to call is told by a note and not by as many outcomes.
func (m *Machine) tooManyCalls(w *work) {
	limit := m.limits().MaxCalls
	m.completeTurn(w, ModelEvent{StopReason: stopLength})
	m.skip(w, m.sub(w).OpenCalls(), toolTooMany)
	if w.cutOff++; w.cutOff > maxCutOff {
		m.fail(w, failure(conversation.CodeOutputTooLong, sayTooManyCalls, map[string]any{"limit": limit}))
		return
	}
	m.addNote(m.sub(w), fmt.Sprintf(noteCalls, limit, limit))
	m.callModel(w)
}
