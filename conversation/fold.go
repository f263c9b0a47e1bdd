package conversation

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// fold applies one record. It is the only function that turns records into state.
func (s *State) fold(r Record) error {
	if s.created == nil {
		switch r.(type) {
		case *ConversationCreated, *Unknown:
		default:
			return s.bad(r, "the conversation was not created")
		}
	}
	switch r := r.(type) {
	case *ConversationCreated:
		return s.foldCreated(r)
	case *SubmissionAdmitted:
		return s.foldAdmitted(r)
	case *AttemptStarted:
		return s.foldAttempt(r)
	case *AttemptReleased:
		return s.foldReleased(r)
	case *ResponseStarted:
		return s.foldStarted(r)
	case *Delta:
		return s.foldDelta(r)
	case *PartDone:
		return s.foldPartDone(r)
	case *PartSigned:
		return s.foldPartSigned(r)
	case *ToolCalled:
		return s.foldCalled(r)
	case *ToolSettled:
		return s.foldToolSettled(r)
	case *StepCompleted:
		return s.foldCompleted(r)
	case *DataWritten, *MetadataMerged:
		return s.foldDecoration(r)
	case *Advisory:
		return s.foldAdvisory(r)
	case *SubmissionSettled:
		return s.settle(r)
	case *StepDropped:
		return s.foldDropped(r)
	default:
		return s.foldRest(r)
	}
}

// foldRest applies the records that change nothing visible to clients.
func (s *State) foldRest(r Record) error {
	switch r := r.(type) {
	case *AbortRequested:
		for _, id := range r.Submissions {
			sub, err := s.open(r, id)
			if err != nil {
				return err
			}
			sub.Aborted = true
		}
		if r.Trees {
			s.closeTrees(r.Submissions)
		}
	case *TreeCounted:
		return s.foldTree(r)
	case *Compacted:
		return s.foldCompacted(r)
	case *StateWritten:
		if isNull(r.Value) {
			delete(s.author, r.Key)
		} else {
			s.author[r.Key] = r.Value
		}
	case *StepRecorded:
		if s.calls[r.Call] == nil {
			return s.bad(r, "unknown call %s", r.Call)
		}
		s.recorded[r.Call] = append(s.recorded[r.Call], *r)
		s.calls[r.Call].sub.callBytes += r.callBytes()
	case *HookDone:
		return s.foldHook(r)
	case *ChildStarted:
		return s.foldChildStarted(r)
	case *ChildSettled:
		return s.foldChildSettled(r)
	case *Suspended:
		return s.foldSuspended(r)
	case *RetryScheduled:
		return s.foldRetry(r)
	case *ImagesRefused:
		s.foldRefused(r)
	case *OutputStored:
		return s.foldStored(r)
	case *WaitStarted:
		return s.foldWaitStarted(r)
	case *WaitEnded:
		return s.foldWaitEnded(r)
	case *SignalKept:
		return s.foldKept(r)
	case *Overtook:
		return s.foldOvertook(r)
	case *ReplyPending:
		return s.foldReplyPending(r)
	case *KeyKept:
		return s.foldKeyKept(r)
	case *ReplyAddressed:
		return s.foldReplyAddressed(r)
	case *RunStarted:
		return s.foldRunStarted(r)
	case *ReplySent:
		return s.foldReplySent(r)
	case *NoticeAsked:
		return s.foldNoticeAsked(r)
	case *PostEnqueued:
		return s.foldPostEnqueued(r)
	case *PostDeferred:
		return s.foldPostDeferred(r)
	case *PostDone:
		return s.foldPostDone(r)
	case *ConversationDeleted:
		inline := s.inline
		*s = *newStateAt(s.head)
		s.inline = inline
	}
	return nil
}

func (s *State) foldCreated(r *ConversationCreated) error {
	if s.created != nil {
		return s.bad(r, "the conversation exists as %s", s.created.UID)
	}
	s.created, s.born = r, s.head
	return nil
}

func (s *State) foldAdmitted(r *SubmissionAdmitted) error {
	if s.bySub[r.Submission] != nil {
		return s.bad(r, "submission %s exists", r.Submission)
	}
	m := deliveredMessage(r)
	if err := s.addMessage(r, m); err != nil {
		return err
	}
	sub := &Submission{
		ID: r.Submission, Key: r.Key, PayloadHash: r.PayloadHash, Delivery: r.Delivery, Trace: r.Trace, Dispatched: r.Dispatched,
		DispatchDepth: r.DispatchDepth, Sender: r.Sender, Channel: r.Channel, Tree: r.Tree, Offset: s.head, AdmittedAt: r.At, delivered: r.Message,
	}
	s.pathsBefore = s.paths
	if r.Channel != "" {
		s.deliveredBy(r.Channel, "") // reply_addressed has the address
	}
	if s.leaves(&sub.Delivery) {
		s.leave(sub, m)
	}
	s.keys = append(s.keys, sub)
	s.bySub[sub.ID] = sub
	s.byKey[sub.Key] = sub
	s.submissions = append(s.submissions, sub)
	s.await(sub)
	s.expire(r.At)
	return nil
}

func (s *State) foldAttempt(r *AttemptStarted) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	if s.unsettled[0] != sub && !sub.Ahead {
		return s.bad(r, "submission %s is not the first in the queue", sub.ID)
	}
	if other := s.UnderWay(); other != nil && other != sub {
		return s.bad(r, "submission %s is running", other.ID)
	}
	if sub.Running { // the previous attempt was neither released nor suspended
		s.lose(sub)
	}
	sub.Running, sub.Writer, sub.Suspended, sub.SuspendedAt, sub.Due = true, r.Writer, nil, 0, false
	sub.Attempts, sub.Began = r.Attempt, true
	sub.elapsed = [2]int64{sub.elapsed[0] + sub.elapsed[1], 0}
	return nil
}

// lose counts a lost attempt for the calls that were running.
func (s *State) lose(sub *Submission) {
	for _, t := range sub.turns {
		for _, p := range t.parts {
			if p.kind == PartTypeTool && !p.settled && !s.Waits(p.call) {
				p.lost++
			}
		}
	}
}

// foldOvertook lets a submission overtake those before it.
func (s *State) foldOvertook(r *Overtook) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	for _, before := range s.unsettled[:slices.Index(s.unsettled, sub)] {
		if before.Suspended == nil {
			return s.bad(r, "submission %s, which comes first, is not suspended", before.ID)
		}
	}
	sub.Ahead = true
	return nil
}

func (s *State) foldReleased(r *AttemptReleased) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	sub.Running = false
	sub.Attempts = r.Attempt - 1
	return nil
}

// foldSuspended suspends a submission. As with a release, the attempt does not count; its elapsed time
// does.
func (s *State) foldSuspended(r *Suspended) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	if !sub.Running || sub.Child != "" {
		return s.bad(r, "submission %s is not running", sub.ID)
	}
	if t := sub.lastTurn(); t != nil && !t.completed {
		return s.bad(r, "turn %s is open", t.id)
	}
	sub.Suspended, sub.SuspendedAt = r, s.head
	sub.Running = false
	sub.Attempts--
	if r.ElapsedMs > 0 {
		sub.elapsed[1] = r.ElapsedMs
	}
	if s.run != nil && s.run.Submission == sub.ID {
		sub.WorkedBefore = sub.elapsed[0] + sub.elapsed[1]
	}
	return nil
}

// foldRetry schedules a retry of a submission's model call.
func (s *State) foldRetry(r *RetryScheduled) error {
	sub, err := s.open(r, r.Submission)
	if err == nil {
		err = s.belongs(r, sub)
	}
	if err != nil {
		return err
	}
	if t := sub.lastTurn(); t != nil && !t.completed {
		return s.bad(r, "turn %s is open", t.id)
	}
	sub.Retry = r
	return nil
}

func (s *State) foldStarted(r *ResponseStarted) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	if !sub.Running {
		return s.bad(r, "submission %s is not running", sub.ID)
	}
	if err := s.belongs(r, sub); err != nil {
		return err
	}
	if t := sub.lastTurn(); t != nil && !t.completed {
		return s.bad(r, "turn %s is open", t.id)
	}
	if sub.Message == "" {
		m := &message{sub: sub, view: Message{
			ID: r.Message, Role: RoleAssistant, Purpose: PurposeAssistant, Display: DisplayVisible,
			SubmissionID: sub.ID, TurnID: r.Turn,
		}}
		if m.meta, err = mergeMetadata(nil, r.Metadata); err != nil {
			return s.bad(r, "metadata: %v", err)
		}
		if err := s.addMessage(r, m); err != nil {
			return err
		}
		if r.Child != "" { // not visible to clients
			s.messages = s.messages[:len(s.messages)-1]
		}
		sub.Message = r.Message
	} else if sub.Message != r.Message {
		return s.bad(r, "the response of %s is %s", sub.ID, sub.Message)
	}
	sub.turns = append(sub.turns, &turn{id: r.Turn, model: r.Model})
	return nil
}

func (s *State) foldDelta(r *Delta) error {
	m, t, err := s.openTurn(r, r.Message)
	if err != nil {
		return err
	}
	text := m.room(r.Text)
	if text == "" { // no chunk, so it neither opens nor closes a part
		return nil
	}
	m.textBytes += len(text)
	kind := PartTypeText
	if r.Kind == PartReasoning {
		kind = PartTypeReasoning
	}
	if last := m.last(); last != nil && last.goesOn(kind) {
		last.text.add(text)
		return nil
	}
	seen := m.lastSeen()
	more := seen != nil && seen.streaming && seen.kind == kind
	if seen != nil && !more {
		seen.end()
	}
	m.add(t, &part{kind: kind, text: textBuffer{grown: []byte(text)}, streaming: true, more: more})
	return nil
}

// room returns the prefix of further text that a response keeps.
func (m *message) room(text string) string {
	room := MaxResponseText - m.textBytes
	switch {
	case room < 0: // truncationNote is appended already
		return ""
	case len(text) <= room:
		return text
	}
	for room > 0 && !utf8.RuneStart(text[room]) {
		room--
	}
	return text[:room] + truncationNote
}

func (s *State) foldPartDone(r *PartDone) error {
	_, t, err := s.openTurn(r, r.Message)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(t.parts) {
		if p.kind == PartTypeReasoning {
			p.signature = r.Signature
			return nil
		}
	}
	return s.bad(r, "turn %s has no reasoning", t.id)
}

func (s *State) foldPartSigned(r *PartSigned) error {
	m, t, err := s.openTurn(r, r.Message)
	if err != nil {
		return err
	}
	if r.Call != "" {
		p := s.calls[r.Call]
		if p == nil || p.turn != t {
			return s.bad(r, "turn %s has no call %s", t.id, r.Call)
		}
		p.signature = r.Signature
		return nil
	}
	kind := PartTypeText
	if r.Kind == PartReasoning {
		kind = PartTypeReasoning
	}
	p := m.last()
	if p == nil || !p.goesOn(kind) {
		p = &part{kind: kind}
		m.add(t, p)
	}
	p.signature, p.sealed = r.Signature, true
	p.text.end()
	return nil
}

func (s *State) foldCalled(r *ToolCalled) error {
	m, t, err := s.openTurn(r, r.Message)
	if err != nil {
		return err
	}
	if s.calls[r.Call] != nil {
		return s.bad(r, "call %s exists", r.Call)
	}
	if seen := m.lastSeen(); seen != nil {
		seen.end()
	}
	p := &part{kind: PartTypeTool, name: r.Name, data: r.Input, call: r.Call, providerCall: r.ProviderCall, durable: r.Durable, sub: m.sub}
	m.add(t, p)
	s.calls[r.Call] = p
	m.sub.callBytes += p.callBytes()
	return nil
}

func (s *State) foldToolSettled(r *ToolSettled) error {
	p := s.calls[r.Call]
	if p == nil {
		return s.bad(r, "unknown call %s", r.Call)
	}
	if p.settled {
		return s.bad(r, "call %s is settled", r.Call)
	}
	if c := s.ChildOf(r.Call); c != nil && !c.Settled {
		return s.bad(r, "subagent %s is running", c.Child)
	}
	if err := s.belongs(r, p.sub); err != nil {
		return err
	}
	p.settled, p.failed, p.output, p.errorText, p.durationMs = true, r.Failed, r.Output, r.ErrorText, r.DurationMs
	p.sub.callBytes += len(p.output) + len(p.errorText)
	p.images, p.terminate = r.Attachments, r.Terminate
	s.setOutput(p)
	s.endWaits(r.Call, r.At)
	if r.ElapsedMs > 0 {
		s.root(p.sub).elapsed[1] = r.ElapsedMs
	}
	return nil
}

func (s *State) foldStored(r *OutputStored) error {
	p := s.calls[r.Call]
	if p == nil {
		return s.bad(r, "unknown call %s", r.Call)
	}
	if p.settled || p.stored != nil {
		return s.bad(r, "call %s has an output", r.Call)
	}
	if err := s.belongs(r, p.sub); err != nil {
		return err
	}
	p.stored = &r.StoredOutput
	p.sub.callBytes += p.stored.Bytes()
	return nil
}

func (s *State) foldCompleted(r *StepCompleted) error {
	m, t, err := s.openTurn(r, r.Message)
	if err != nil {
		return err
	}
	if t.id != r.Turn {
		return s.bad(r, "turn %s is open, not %s", t.id, r.Turn)
	}
	t.completed, t.stop, t.usage = true, r.StopReason, r.Usage
	if r.Facts.Price != nil {
		t.dollars = r.Facts.Price.Total
	}
	m.sub.Retry = nil
	for _, p := range m.parts {
		p.end()
	}
	if r.ElapsedMs > 0 {
		s.root(m.sub).elapsed[1] = r.ElapsedMs
	}
	return nil
}

func (s *State) foldDecoration(r Record) error {
	switch r := r.(type) {
	case *DataWritten:
		m, err := s.response(r, r.Message)
		if err != nil {
			return err
		}
		m.write(r.Name, r.Data)
	case *MetadataMerged:
		m, err := s.response(r, r.Message)
		if err != nil {
			return err
		}
		if m.meta, err = mergeMetadata(m.meta, r.Metadata); err != nil {
			return s.bad(r, "metadata: %v", err)
		}
	}
	return nil
}

func (s *State) foldAdvisory(r *Advisory) error {
	if r.Child == "" {
		if err := s.addMessage(r, advisoryMessage(r)); err != nil {
			return err
		}
	}
	if r.Display == DisplayHidden && r.Submission != "" && r.Text != "" {
		sub, err := s.open(r, r.Submission)
		if err == nil {
			err = s.belongs(r, sub)
		}
		if err != nil {
			return err
		}
		sub.turns = append(sub.turns, &turn{note: r.Text, completed: true})
	}
	return nil
}

func (s *State) foldDropped(r *StepDropped) error {
	m, err := s.response(r, r.Message)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.sub.turns, func(t *turn) bool { return t.note == "" && t.id == r.Turn })
	if i < 0 {
		return s.bad(r, "unknown turn %s", r.Turn)
	}
	dropped := m.sub.turns[i]
	for _, p := range dropped.parts {
		delete(s.calls, p.call)
		m.sub.callBytes -= p.callBytes()
	}
	m.sub.turns = slices.Delete(m.sub.turns, i, i+1)
	m.parts = slices.DeleteFunc(m.parts, func(p *part) bool { return p.turn == dropped })
	for _, p := range dropped.parts {
		m.textBytes -= p.text.len()
	}
	return nil
}

func (m *message) last() *part {
	if len(m.parts) == 0 {
		return nil
	}
	return m.parts[len(m.parts)-1]
}

// lastSeen returns the last part visible to clients.
func (m *message) lastSeen() *part {
	for _, p := range slices.Backward(m.parts) {
		if !p.hidden() {
			return p
		}
	}
	return nil
}

// hidden reports whether only the model sees the part.
func (p *part) hidden() bool { return p.sealed && p.text.len() == 0 }

// goesOn reports whether text of a kind continues the part.
func (p *part) goesOn(kind string) bool { return p.streaming && !p.sealed && p.kind == kind }

// write sets the named data part. The first write of a name decides the part's position.
func (m *message) write(name string, data json.RawMessage) {
	i := slices.IndexFunc(m.parts, func(p *part) bool { return p.kind == DataPrefix && p.name == name })
	if i < 0 {
		m.add(nil, &part{kind: DataPrefix, name: name, data: data})
		return
	}
	m.parts[i].data = data
}

func (m *message) add(t *turn, p *part) {
	p.turn = t
	m.parts = append(m.parts, p)
	if t != nil {
		t.parts = append(t.parts, p)
	}
}

// isNull reports whether v is JSON null. A nil value is null too, because it becomes null when it is
// encoded and decoded.
func isNull(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }

// mergeMetadata merges the object src deeply into dst and returns dst. It drops keys that would reach
// a JavaScript prototype, as the public clients do.
func mergeMetadata(dst map[string]any, src json.RawMessage) (map[string]any, error) {
	if isNull(src) {
		return dst, nil
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var obj map[string]any
	if err := dec.Decode(&obj); err != nil {
		return dst, err
	}
	return mergeObjects(dst, obj), nil
}

func mergeObjects(dst, src map[string]any) map[string]any {
	if dst == nil {
		dst = map[string]any{}
	}
	for k, v := range src {
		switch k {
		case "__proto__", "constructor", "prototype":
			continue
		}
		if sub, ok := v.(map[string]any); ok {
			old, _ := dst[k].(map[string]any)
			dst[k] = mergeObjects(old, sub)
			continue
		}
		dst[k] = v
	}
	return dst
}
