package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// rejected rejects a caller while the conversation drains or when MaxWaiting callers wait already, and
// reports whether it did.
func (m *Machine) rejected(to ReplyID) bool {
	switch {
	case m.draining:
		m.emit(Reply{to, Moved{Untouched: true}})
	case len(m.waits)+len(m.signals) >= m.cfg.MaxWaiting:
		m.emit(Reply{to, Refused{overloaded(textOverloaded)}})
	default:
		return false
	}
	return true
}

// admit decides an admission on the folded state: known key, condition, schema.
func (m *Machine) admit(in Admit) {
	if m.rejected(in.To) {
		return
	}
	a := in.Admission
	hash, err := a.PayloadHash()
	if err != nil {
		m.refuse(in, conversation.Errorf(conversation.CodeInvalidRequest, "initialData is not JSON: %v", err))
		return
	}
	if isRun(a) {
		m.admitRun(in, hash)
		return
	}
	if sub := m.state.Lookup(a.Key); sub != nil {
		m.replay(in, sub, hash)
		return
	}
	if refusal := m.check(in); refusal != nil {
		m.confirm(in.To, Refused{refusal})
		return
	}
	if name, ok := a.Delivery.Awaited(); ok {
		m.signal(in, name, hash)
		return
	}
	if a.Delivery.Kind == conversation.KindSignal && a.Delivery.Type == conversation.SignalOutbox {
		m.postAgain(in, hash)
		return
	}
	m.admitNew(in, hash)
}

// admitNew decides an admission that is neither a known key nor a signal of the runtime, by the load
// of the conversation.
func (m *Machine) admitNew(in Admit, hash string) {
	a := in.Admission
	if n := len(m.state.Unsettled()); n >= m.cfg.MaxWaiting {
		m.emit(Reply{in.To, Refused{overloaded(textQueueFull, n)}})
		return
	}
	if n := m.state.WaitingBytes(); n > 0 && n+admissionWeight(a) > m.cfg.MaxWaitingBytes {
		m.emit(Reply{in.To, Refused{overloaded(textQueueBytes, n, m.cfg.MaxWaitingBytes)}})
		return
	}
	if refusal := m.checkReply(a); refusal != nil {
		m.emit(Reply{in.To, Refused{refusal}})
		return
	}
	if in.Precheck {
		m.reply(in.To, Clear{}, false)
		return
	}
	// A group stands in one batch, which must stay far below the log's limit.
	if !m.pending.empty() && m.pending.bytes+admissionWeight(a) > 2*m.cfg.MaxPendingBytes {
		m.emit(Reply{in.To, Refused{overloaded(textOverloaded)}})
		return
	}
	m.accept(in, hash)
}

func admissionWeight(a conversation.Admission) int {
	return a.Delivery.Size() + len(a.InitialData)
}

// reply answers a caller once everything enqueued so far is durable and, with listed, a landed journal
// lists this writer.
func (m *Machine) reply(to ReplyID, value Answer, listed bool) {
	m.waits = append(m.waits, wait{to: to, value: value, offset: m.state.Head(), listed: listed})
}

func (m *Machine) refuse(in Admit, err *conversation.Error) {
	m.reply(in.To, Refused{err}, false)
}

// replay answers a known key. Unsettled work is acknowledged like a new admission: durable, claimed
// and listed. So is a signal while work is pending, because the writer that accepted it may have
// crashed before a journal listed the resumed work.
func (m *Machine) replay(in Admit, sub *conversation.Submission, hash string) {
	if sub.PayloadHash != hash {
		err := conversation.Errorf(conversation.CodeSubmissionConflict,
			"This idempotency key was used with another payload. Repeat the first payload or use a new key.")
		err.Meta = map[string]any{"submissionId": sub.ID}
		m.refuse(in, err)
		return
	}
	receipt := Admitted{conversation.Receipt{
		SubmissionID: sub.ID, UID: m.state.Created().UID, Offset: sub.Offset, Deduplicated: true,
	}}
	if !acknowledgesReplay() && sub.Offset <= m.durable {
		m.emit(Reply{in.To, receipt})
		return
	}
	_, signal := in.Admission.Delivery.Awaited()
	// A signal settles at once, but the submission it resumes does not. Replies and posts stay pending
	// after a settlement.
	pendingWork := !sub.Settled || signal && m.needsJournal() || acknowledgesPending() && (m.state.ReplyIsPending(sub.ID) != nil || m.hasPosts(sub.ID))
	if pendingWork {
		m.takeOver()
	}
	m.reply(in.To, receipt, pendingWork)
}

// check returns the reason to refuse an admission, or nil.
func (m *Machine) check(in Admit) *conversation.Error {
	a := in.Admission
	exists := m.state.Exists()
	if a.Condition.Set && (!exists || m.state.Created().UID != a.Condition.UID) {
		return conversation.Errorf(conversation.CodeInstanceNotFound,
			"No incarnation of this conversation has the uid %.64q. It was never created, or was created anew.", string(a.Condition.UID))
	}
	if a.Condition.Absent && exists {
		uid := m.state.Created().UID
		err := conversation.Errorf(conversation.CodeInstanceExists, "The conversation exists with the uid %q.", string(uid))
		err.Meta = map[string]any{"uid": uid}
		return err
	}
	if err := m.checkNotify(&a); err != nil {
		return err
	}
	if exists {
		return nil
	}
	if _, run := conversation.WorkflowOf(a.Address.Agent); run {
		return conversation.Errorf(conversation.CodeRunNotFound, "No run %.80q is known.", a.Address.ID)
	}
	if _, ok := m.cfg.Limits(a.Address.Agent); !ok {
		return conversation.Errorf(conversation.CodeRouteNotFound, "No agent is registered as %q.", a.Address.Agent)
	}
	return in.Unfit
}

// accept records the admission and starts its attempt if the queue is empty.
func (m *Machine) accept(in Admit, hash string) {
	var with []func(*conversation.SubmissionAdmitted) conversation.Record
	if isRun(in.Admission) {
		with = append(with, func(r *conversation.SubmissionAdmitted) conversation.Record {
			return &conversation.RunStarted{Must: true, Submission: r.Submission, At: m.env.Wall}
		})
	}
	if to := in.Admission.ReplyTo; to != nil {
		with = append(with, func(r *conversation.SubmissionAdmitted) conversation.Record {
			return &conversation.ReplyPending{Must: true, Submission: r.Submission, To: *to}
		})
	}
	if at := m.replyAddress(&in.Admission); at.Address != "" {
		with = append(with, func(r *conversation.SubmissionAdmitted) conversation.Record {
			return &conversation.ReplyAddressed{Must: true, Submission: r.Submission, Channel: at.Channel, Address: at.Address}
		})
	}
	if in.Admission.Notify != "" {
		with = append(with, func(r *conversation.SubmissionAdmitted) conversation.Record {
			return &conversation.NoticeAsked{Must: true, Submission: r.Submission, Target: in.Admission.Notify}
		})
	}
	admitted := m.record(in, hash, with...)
	m.ensureListed()
	m.startNext()
	m.receipts[admitted.Submission] = &receipt{came: in.came}
	m.reply(in.To, m.receiptOf(admitted), true)
}

// checkNotify returns an error if the admission came through no channel and its notify target cannot
// reply for one.
func (m *Machine) checkNotify(a *conversation.Admission) *conversation.Error {
	if a.Notify == "" || a.Channel != "" || !m.replies(a.Notify) {
		return nil
	}
	if !m.state.Replies(a.Notify) {
		return conversation.Errorf(conversation.CodeInvalidRequest, textNoChannel)
	}
	sent := &conversation.Submission{Dispatched: true, ReplyAddress: m.replyAddress(a)}
	if channel, _ := m.state.ReplyChannel(sent, a.Notify); channel == "" {
		return conversation.Errorf(conversation.CodeInvalidRequest, textSeveralAddresses)
	}
	return nil
}

// replyAddress returns the address for the reply to an admission: that of its own delivery, or that of
// the delivery whose work in this conversation dispatches it. Other callers have none.
func (m *Machine) replyAddress(a *conversation.Admission) conversation.ReplyAddress {
	switch {
	case a.Channel != "":
		return conversation.ReplyAddress{Channel: a.Channel, Address: a.ReplyAddress}
	case a.Sender == nil || !m.state.Exists() || a.Sender.Address != a.Address.Reach():
		return conversation.ReplyAddress{}
	}
	if by := m.state.Submission(a.Sender.Submission); by != nil {
		return by.ReplyAddress
	}
	return conversation.ReplyAddress{}
}

// record records the admission, preceded by conversation_created if needed, and the records of with in
// the same batch.
func (m *Machine) record(in Admit, hash string, with ...func(*conversation.SubmissionAdmitted) conversation.Record) *conversation.SubmissionAdmitted {
	a := in.Admission
	var records []conversation.Record
	if !m.state.Exists() {
		records = append(records, &conversation.ConversationCreated{
			Agent: a.Address.Agent, ID: a.Address.ID, InitialData: a.InitialData, At: m.env.Wall,
			UID:            conversation.UID(m.ids.next("inst_")),
			ConversationID: conversation.ConversationID(m.ids.next("conv_")),
		})
	}
	admitted := &conversation.SubmissionAdmitted{
		Submission: conversation.SubmissionID(m.ids.next("sub_")), Message: conversation.MessageID(m.ids.next("msg_")),
		Key: a.Key, PayloadHash: hash, Delivery: a.Delivery, Trace: a.Trace, Dispatched: a.Dispatched,
		DispatchDepth: a.DispatchDepth, Sender: a.Sender, Channel: a.Channel, Tree: a.Tree, At: m.env.Wall,
	}
	admitted.Delivery.Attachments = slices.Clone(a.Delivery.Attachments)
	for i := range admitted.Delivery.Attachments {
		admitted.Delivery.Attachments[i].ID = conversation.AttachmentID(m.ids.next("att_"))
	}
	records = append(records, admitted)
	if keep := min(a.KeepKey, conversation.MaxKeepKey); keep > 0 {
		until := m.env.Wall + conversation.Time(keep/time.Millisecond)
		records = append(records, &conversation.KeyKept{Must: true, Submission: admitted.Submission, Until: until})
	}
	for _, r := range with {
		records = append(records, r(admitted))
	}
	m.enqueue(true, records...)
	m.noteNext(admitted.Submission)
	return admitted
}

func (m *Machine) receiptOf(admitted *conversation.SubmissionAdmitted) Admitted {
	return Admitted{conversation.Receipt{
		SubmissionID: admitted.Submission, UID: m.state.Created().UID, Offset: m.nextOffset(),
	}}
}
