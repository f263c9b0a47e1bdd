package machine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// nextOffset is the offset of the batch being composed.
func (m *Machine) nextOffset() conversation.Offset {
	if m.inflight != nil {
		return m.inflight.Offset + 1
	}
	return m.durable + 1
}

// enqueue folds records and adds them to the batch being composed. Urgent
// records do not wait for the pace, and neither does what stands with them.
func (m *Machine) enqueue(urgent bool, records ...conversation.Record) {
	at := m.nextOffset()
	err := m.state.Extend(at) // A claim moves the head, too.
	for _, r := range records {
		if err == nil {
			m.state.Complete(r)
			err = m.state.Extend(at, r)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("machine: %v", err))
	}
	m.pending.records = append(m.pending.records, records...)
	m.pending.urgent = m.pending.urgent || urgent
	for _, r := range records {
		m.pending.bytes += weight(r)
	}
}

// weight is about the size of a record, in bytes: what it holds from outside.
func weight(r conversation.Record) int {
	switch r := r.(type) {
	case *conversation.ConversationCreated:
		return len(r.InitialData)
	case *conversation.SubmissionAdmitted:
		return r.Delivery.Size()
	case *conversation.Delta:
		return len(r.Text)
	case *conversation.PartDone:
		return len(r.Signature)
	case *conversation.ToolCalled:
		return len(r.Input)
	case *conversation.ToolSettled:
		return len(r.Output) + len(r.ErrorText)
	case *conversation.StepRecorded:
		return len(r.Output)
	case *conversation.StateWritten:
		return len(r.Value)
	case *conversation.ChildStarted:
		return len(r.Prompt)
	case *conversation.Compacted:
		return len(r.Summary)
	case *conversation.Advisory:
		return len(r.Text)
	case *conversation.ResponseStarted:
		return len(r.Metadata)
	case *conversation.DataWritten:
		return len(r.Data)
	case *conversation.MetadataMerged:
		return len(r.Metadata)
	}
	return 0
}

// enqueueDelta adds streamed text, coalescing it with text of the same kind that
// is still waiting.
func (m *Machine) enqueueDelta(r *run, id conversation.MessageID, kind conversation.PartKind, text string) {
	piece := &conversation.Delta{Message: id, Child: r.child, Kind: kind, Text: text}
	if n := len(m.pending.records); n > 0 {
		last, ok := m.pending.records[n-1].(*conversation.Delta)
		if ok && last.Message == id && last.Kind == kind {
			if err := m.state.Extend(m.nextOffset(), piece); err != nil {
				panic(fmt.Sprintf("machine: %v", err))
			}
			last.Text += text
			m.pending.bytes += len(text)
			return
		}
	}
	m.enqueue(false, piece)
}

// enqueueClaim asks for a batch even if there is nothing to say.
func (m *Machine) enqueueClaim() {
	m.enqueue(true)
	m.pending.claim = true
}

// driveAppend starts the next append if it may start now.
//
// Pacing: an append of streamed text starts no earlier than max(previous done,
// previous start + pace). The previous one is done whenever nothing is in flight.
func (m *Machine) driveAppend() {
	if m.inflight != nil || m.pending.empty() {
		return
	}
	if !m.pending.urgent && m.started {
		if wait := m.lastStart + m.cfg.Pace - m.env.Mono; wait > 0 {
			if !m.paceSet {
				m.paceSet = true
				m.emit(SetTimer{Timer: TimerPace, After: wait})
			}
			return
		}
	}
	m.inflight = &conversation.Batch{Offset: m.durable + 1, Records: m.pending.records}
	m.pending = pending{}
	m.lastStart, m.started = m.env.Mono, true
	m.emit(Append{*m.inflight})
}

func (m *Machine) appended(in Appended) {
	if m.inflight == nil || in.Offset != m.inflight.Offset {
		panic(fmt.Sprintf("machine: append %d landed, not in flight", int64(in.Offset)))
	}
	m.grown.add(m.inflight)
	m.durable, m.inflight = in.Offset, nil
	if !m.claimed {
		m.claimed = true
		m.claims = append(m.claims, Claim{Seq: in.Offset, Nonce: m.writer})
	}
}

// flush answers everybody whose reply rests on durable records by now.
func (m *Machine) flush() {
	kept := m.waits[:0]
	for _, w := range m.waits {
		switch value, ok := m.ripe(w); {
		case ok:
			m.emit(Reply{w.to, value})
			m.noteReceipt(value)
		default:
			kept = append(kept, w)
		}
	}
	clear(m.waits[len(kept):])
	m.waits = kept
}

// noteReceipt keeps how long the sender of a new submission has waited for its receipt.
func (m *Machine) noteReceipt(value Answer) {
	a, ok := value.(Admitted)
	if !ok || a.Receipt.Deduplicated {
		return
	}
	if r := m.receipts[a.Receipt.SubmissionID]; r != nil {
		r.waited = m.waitedSince(r.came)
	}
}

// admissionMs is how long the sender of a submission has waited for its receipt. Work
// does not wait for the journal and may end before it: then it is the time so far, so
// that the slowest admissions are not those that are missing.
func (m *Machine) admissionMs(id conversation.SubmissionID) int64 {
	r := m.receipts[id]
	if r == nil {
		return 0
	}
	return cmp.Or(r.waited, m.waitedSince(r.came))
}

// waitedSince rounds up: 0 is unknown.
func (m *Machine) waitedSince(came time.Duration) int64 {
	return max(int64((m.env.Mono-came+time.Millisecond-1)/time.Millisecond), 1)
}

func (m *Machine) ripe(w wait) (Answer, bool) {
	if m.durable < w.offset || w.listed && !m.listed || !m.confirmed(w) {
		return nil, false
	}
	switch {
	case w.poke != nil:
		return m.ripePoke(*w.poke)
	case w.wake != nil:
		return m.ripeWake(*w.wake)
	}
	return w.value, true
}

// ensureListed asks the journal to list this writer unless it does.
func (m *Machine) ensureListed() {
	if m.listed || m.listing {
		return
	}
	m.listing = true
	m.emit(List{m.durable})
}

// elapsed is the time since the attempt under way started.
func (m *Machine) elapsed() int64 {
	if m.run == nil || m.run.phase == phaseStarting {
		return 0
	}
	return int64((m.env.Mono - m.run.began) / time.Millisecond)
}
