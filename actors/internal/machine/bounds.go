package machine

import (
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// speak records text or reasoning, as far as the response may still have it.
func (m *Machine) speak(r *run, id conversation.MessageID, kind conversation.PartKind, e ModelEvent) {
	if e.Text == "" {
		return
	}
	if r.speaks != e.Kind {
		r.speaks = e.Kind
		if !m.mayStill(r, conversation.PartBytes) {
			return
		}
	}
	begin := e.Text
	if left := m.limits().MaxResponse - r.said; left < len(begin) {
		begin = strings.ToValidUTF8(begin[:left], "") // what was cut may be a character
	}
	if begin != "" {
		m.enqueueDelta(r, id, kind, begin)
	}
	m.mayStill(r, len(e.Text))
}

// mayStill counts n bytes of a response and ends the run if that is more than it may
// have. What it has said stays. It is counted over all that the log has of the
// response: a model that never ends would not end in another attempt, nor would there
// be room for what another model says.
func (m *Machine) mayStill(r *run, n int) bool {
	limit := m.limits().MaxResponse
	if r.said += n; r.said <= limit {
		return true
	}
	m.completeStep(r, ModelEvent{StopReason: stopError})
	m.skip(r, m.sub(r).OpenCalls(), toolTooLong)
	m.fail(r, failure(conversation.CodeOutputTooLong, sayTooMuch, map[string]any{"limit": limit, "bytes": r.said}))
	return false
}

// tooManyCalls ends a step whose reply has more calls than it may. Like one that ends
// at the model's own limit it runs none of them, and the model may try again; what it
// wanted to call is told by a note and not by as many outcomes.
func (m *Machine) tooManyCalls(r *run) {
	limit := m.limits().MaxCalls
	m.completeStep(r, ModelEvent{StopReason: stopLength})
	m.skip(r, m.sub(r).OpenCalls(), toolTooMany)
	if r.cutOff++; r.cutOff > maxCutOff {
		m.fail(r, failure(conversation.CodeOutputTooLong, sayTooManyCalls, map[string]any{"limit": limit}))
		return
	}
	m.tell(m.sub(r), fmt.Sprintf(noteCalls, limit, limit))
	m.callModel(r)
}
