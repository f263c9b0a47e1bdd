package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

func (m *Machine) nextAppend() conversation.Offset {
	if m.inflight != nil {
		return m.inflight.Offset + 1
	}
	return m.durable + 1
}

// nextOffset returns the offset of the last batch being composed, which takes the next records.
func (m *Machine) nextOffset() conversation.Offset {
	return m.nextAppend() + conversation.Offset(max(0, len(m.pending.batches)-1))
}

// compose returns the batch for records of a size: the batch of their group or, for the first records
// of a group, the last batch if it has room, else a new one.
func (m *Machine) compose(size int) *composed {
	p := &m.pending
	if n := len(p.batches); n == 0 || !p.grouped && (p.split || p.batches[n-1].size+size > m.cfg.MaxBatchBytes) {
		p.batches = append(p.batches, composed{})
	}
	p.grouped, p.split = true, false
	return &p.batches[len(p.batches)-1]
}

// enqueue folds records and adds them to a batch being composed. Urgent records do not wait for the
// pace, and neither do the records in the same batch or before it. Ended states of open waits precede
// the outcome of their call.
func (m *Machine) enqueue(urgent bool, records ...conversation.Record) {
	if len(records) == 0 {
		return
	}
	records = m.withEndedWaits(records)
	size := stored(records)
	b := m.compose(size)
	b.endText()
	for _, r := range records {
		m.extend(r)
	}
	b.records = append(b.records, records...)
	b.urgent = b.urgent || urgent
	b.size += size
	held := Weight(records)
	b.bytes += held
	m.pending.bytes += held
}

// extend folds a record into the state at the next offset. A nil record, of a claim, only moves the
// head.
func (m *Machine) extend(r conversation.Record) {
	var err error
	if r == nil {
		err = m.state.Extend(m.nextOffset())
	} else {
		m.state.Complete(r)
		err = m.state.Extend(m.nextOffset(), r)
	}
	if err != nil {
		panic(fmt.Sprintf("machine: %v", err))
	}
}

// recordBytes estimates the log size of a record without its texts and values.
const recordBytes = 256

// stored estimates the size of records in the log, in bytes. It never underestimates texts and values.
func stored(records []conversation.Record) int {
	size := 0
	for _, r := range records {
		size += recordBytes
		switch r := r.(type) {
		case *conversation.ConversationCreated:
			size += len(r.InitialData)
		case *conversation.SubmissionAdmitted:
			size += storedDelivery(r.Delivery)
		case *conversation.Delta:
			size += conversation.TextBytes(r.Text)
		case *conversation.ToolSettled:
			size += len(r.Output) + conversation.TextBytes(r.ErrorText)
		case *conversation.OutputStored:
			size += r.Bytes() + conversation.TextBytes(r.Head) + conversation.TextBytes(r.Tail)
		case *conversation.ChildStarted:
			size += conversation.TextBytes(r.Prompt)
		case *conversation.Compacted:
			size += conversation.TextBytes(r.Summary)
		case *conversation.Advisory:
			size += conversation.TextBytes(r.Text)
		case *conversation.SignalKept:
			size += conversation.TextBytes(r.Body)
		default:
			size += weight(r)
		}
	}
	return size
}

func storedDelivery(d conversation.Delivery) int {
	size := d.Size() - len(d.Body) + conversation.TextBytes(d.Body)
	for k, v := range d.Attributes {
		size += conversation.TextBytes(k) + conversation.TextBytes(v)
	}
	return size
}

const refusedBytes = 33

// Weight returns the payload bytes of records: texts and values that come from clients, models and
// tools.
func Weight(records []conversation.Record) int {
	sum := 0
	for _, r := range records {
		sum += weight(r)
	}
	return sum
}

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
	case *conversation.PartSigned:
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
	case *conversation.OutputStored:
		return r.Bytes()
	case *conversation.WaitStarted:
		return len(r.Schema)
	case *conversation.WaitEnded:
		return len(r.Value)
	case *conversation.SignalKept:
		return len(r.Body)
	case *conversation.PostEnqueued:
		return len(r.Body) + len(r.Target)
	case *conversation.PostDeferred:
		return len(r.Reason)
	case *conversation.PostDone:
		return len(r.Reason)
	case *conversation.ReplyPending:
		return len(r.To.Address.ID) + len(r.To.Name)
	case *conversation.ImagesRefused:
		return refusedBytes * len(r.Attachments)
	}
	return 0
}

// enqueueDelta enqueues streamed text and coalesces it with queued text of the same kind.
func (m *Machine) enqueueDelta(w *work, id conversation.MessageID, kind conversation.PartKind, text string) {
	piece := &conversation.Delta{Message: id, Child: w.child, Kind: kind, Text: text}
	size := stored([]conversation.Record{piece})
	b := m.compose(size)
	if n := len(b.records); n > 0 {
		last, ok := b.records[n-1].(*conversation.Delta)
		if ok && last.Message == id && last.Kind == kind {
			if err := m.state.Extend(m.nextOffset(), piece); err != nil {
				panic(fmt.Sprintf("machine: %v", err))
			}
			b.text = append(b.text, text...)
			b.bytes += len(text)
			b.size += size
			m.pending.bytes += len(text)
			return
		}
	}
	m.enqueue(false, piece)
}

func (b *composed) endText() {
	if len(b.text) > 0 {
		b.records[len(b.records)-1].(*conversation.Delta).Text += string(b.text)
		b.text = nil
	}
}

// enqueueClaim enqueues an empty batch, which fences earlier writers.
func (m *Machine) enqueueClaim() {
	m.compose(0).urgent = true
	m.extend(nil)
}

// driveAppend starts the next append if it may start now.
//
// An append of streamed text starts no earlier than the end of the previous append and the pace after
// its start.
func (m *Machine) driveAppend() {
	if m.inflight != nil || m.pending.empty() {
		return
	}
	if !m.pending.urgent() && m.started {
		if wait := m.lastStart + m.cfg.Pace - m.env.Mono; wait > 0 {
			if !m.paceSet {
				m.paceSet = true
				m.emit(SetTimer{Timer: TimerPace, After: wait})
			}
			return
		}
	}
	next := m.pending.batches[0]
	next.endText()
	m.pending.batches = slices.Delete(m.pending.batches, 0, 1)
	m.pending.bytes -= next.bytes
	m.inflight = &conversation.Batch{Offset: m.durable + 1, Records: next.records}
	m.inflightBytes = next.bytes + perRecord*len(next.records)
	m.lastStart, m.started = m.env.Mono, true
	m.emit(Append{*m.inflight})
}

func (m *Machine) appended(in Appended) {
	if m.inflight == nil || in.Offset != m.inflight.Offset {
		panic(fmt.Sprintf("machine: append %d landed, not in flight", int64(in.Offset)))
	}
	m.grown.add(m.inflightBytes)
	m.durable, m.inflight, m.inflightBytes = in.Offset, nil, 0
	if !m.claimed {
		m.claimed = true
		m.claims = append(m.claims, Claim{Seq: in.Offset, Nonce: m.writer})
	}
}

func (m *Machine) flush() {
	kept := m.waits[:0]
	for i := range m.waits {
		w := m.waits[i]
		switch value, ok := m.readyAnswer(&w); {
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

func (m *Machine) noteReceipt(value Answer) {
	a, ok := value.(Admitted)
	if !ok || a.Receipt.Deduplicated {
		return
	}
	if r := m.receipts[a.Receipt.SubmissionID]; r != nil {
		r.waited = m.waitedSince(r.came)
	}
}

// admissionMs returns how long the sender of a submission waited for its receipt, in milliseconds.
// Work does not wait for the journal and may end before the receipt. The time so far then stands in,
// so that the metrics include slow admissions.
func (m *Machine) admissionMs(id conversation.SubmissionID) int64 {
	r := m.receipts[id]
	if r == nil {
		return 0
	}
	return cmp.Or(r.waited, m.waitedSince(r.came))
}

// waitedSince returns the milliseconds since came, rounded up because 0 means unknown.
func (m *Machine) waitedSince(came time.Duration) int64 {
	return max(int64((m.env.Mono-came+time.Millisecond-1)/time.Millisecond), 1)
}

func (m *Machine) readyAnswer(w *wait) (Answer, bool) {
	if m.durable < w.offset || w.listed && !m.listed || !m.confirmed(*w) {
		return nil, false
	}
	switch {
	case w.probe != nil:
		return m.probeAnswer(*w.probe)
	case w.timer != nil:
		return m.timerAnswer(w)
	}
	return w.value, true
}

// ensureListed asks the journal to list this writer unless it is listed or about to be.
func (m *Machine) ensureListed() {
	if m.listed || m.listing {
		return
	}
	m.listing = true
	m.emit(List{m.durable})
}

// elapsed returns the milliseconds since the attempt under way started.
func (m *Machine) elapsed() int64 {
	if m.work == nil || m.work.phase == phaseStarting {
		return 0
	}
	return int64((m.env.Mono - m.work.began) / time.Millisecond)
}
