package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

type phase int

const (
	phaseStarting       phase = iota // attempt_started or child_started is being appended
	phaseTree                        // the root of the dispatch tree is being asked
	phaseStartDelivery               // the delivery hook runs
	phaseModel                       // a model call is under way
	phaseCalling                     // the turn's calls are being appended
	phaseTools                       // tools run
	phaseRetry                       // a short pause before the model call is repeated
	phaseWaiting                     // a long pause, for which the attempt is suspended
	phaseCompacting                  // a model call waits for a summary of its context
	phaseEnding                      // the last turn of the response is being appended
	phaseFinishResponse              // the response hook runs
)

// work is the attempt at a submission, or the task of a subagent.
type work struct {
	submission    conversation.SubmissionID
	child         conversation.ConversationID // of the subagent's task; "" for the attempt
	gen           int                         // names the effects that run for it
	phase         phase
	at            conversation.Offset // phaseStarting, phaseCalling and phaseEnding wait for this batch
	resumed       bool
	began         time.Duration                 // Env.Mono when the attempt became durable; of the attempt only
	turn          conversation.TurnID           // of the model call
	asked         time.Duration                 // Env.Mono when the model call was requested
	wait          int64                         // milliseconds until the first event
	repeated      int                           // failed calls that this one repeats
	opened        bool                          // response_started of the turn is enqueued
	turns         int                           // model calls of this attempt without repetitions
	tries         tries                         // of the model call
	failedModels  []string                      // models that failed permanently
	replaced      *Replaced                     // the first model that failed, until another one answers
	passed        *Replaced                     // see [Model.Passed]
	fallback      string                        // the fallback model named in the newest notice to clients
	until         conversation.Time             // of phaseWaiting
	cutOff        int                           // consecutive turns cut off in a call or for too many calls
	responseBytes int                           // bytes of the response, see [conversation.Submission.Said]
	partKind      ModelEventKind                // kind of the part being streamed, ModelDone for none
	calls         int                           // of the reply
	compacted     bool                          // the context was compacted for this call
	omitted       omittedImages                 // images omitted from its model calls
	failed        *conversation.SettlementError // the overflow error, until a summary is there
	metadata      json.RawMessage               // of the response, until response_started
	written       []StateWrite                  // author state for the response, until response_started
	waiting       []conversation.ToolCall
	running       int                         // running and suspended tool calls
	starts        bool                        // of phaseTree: the attempt has not begun yet
	treeDollars   bool                        // the tree has a dollar limit
	reported      float64                     // cost reported to the tree
	unheard       *conversation.FailedCall    // the model call that ended the work before its first event
	emitted       bool                        // the newest model call was emitted
	reminder      string                      // see [ModelEvent.Reminder]
	facts         conversation.CallFacts      // of the model call
	suspended     []suspendedCall             // calls that wait for a time or a signal
	knownEnds     map[conversation.CallID]int // number of ended waits that each call has received
}

// newGen gives the work a new generation. Results of the previous one are ignored.
func (m *Machine) newGen(w *work) int {
	m.gen++
	w.gen = m.gen
	return w.gen
}

func (m *Machine) workOf(gen int) *work {
	return m.findWork(func(w *work) bool { return w.gen == gen })
}

func (m *Machine) workFor(id conversation.SubmissionID) *work {
	return m.findWork(func(w *work) bool { return w.submission == id })
}

// workAt returns the work whose model call has the given turn, or nil.
func (m *Machine) workAt(turn conversation.TurnID) *work {
	return m.findWork(func(w *work) bool { return w.turn == turn })
}

func (m *Machine) findWork(match func(*work) bool) *work {
	if m.work != nil && match(m.work) {
		return m.work
	}
	if i := slices.IndexFunc(m.tasks, match); i >= 0 {
		return m.tasks[i]
	}
	return nil
}

func (m *Machine) sub(w *work) *conversation.Submission { return m.state.Submission(w.submission) }

// startNext starts an attempt at the next submission unless an attempt is under way.
func (m *Machine) startNext() {
	if m.work != nil || m.draining {
		return
	}
	sub := m.next()
	if sub == nil {
		return
	}
	var records []conversation.Record
	if sub != m.state.Unsettled()[0] && !sub.Ahead {
		records = append(records, &conversation.Overtook{Must: true, Submission: sub.ID})
	}
	m.enqueue(true, append(records, &conversation.AttemptStarted{
		Submission: sub.ID, Attempt: sub.Attempts + 1, MaxAttempts: m.limits().MaxAttempts, Writer: m.writer, LostAt: m.lostAt(sub), At: m.env.Wall,
	})...)
	m.work = &work{submission: sub.ID, phase: phaseStarting, at: m.nextOffset()}
}

// lostAt returns the build time of the last batch of a lost attempt's writer. It returns 0 if no
// attempt of sub was lost or if the activation did not read that batch.
func (m *Machine) lostAt(sub *conversation.Submission) conversation.Time {
	if !sub.Running {
		return 0
	}
	return m.lastBuilt
}

// continueWork continues all work whose records are durable. Doing so may end work and start more.
func (m *Machine) continueWork() {
	for w := m.readyWork(); w != nil; w = m.readyWork() {
		m.continueOne(w)
	}
}

// readyWork returns work whose awaited batch is durable, or nil.
func (m *Machine) readyWork() *work {
	return m.findWork(func(w *work) bool {
		return m.durable >= w.at && (w.phase == phaseStarting || w.phase == phaseCalling || w.phase == phaseEnding)
	})
}

func (m *Machine) continueOne(w *work) {
	switch w.phase {
	case phaseStarting:
		if w.child == "" {
			w.began = m.env.Mono
			left := m.limits().Timeout - m.sub(w).Worked()
			m.emit(SetTimer{Timer: TimerBudget, After: max(left, 0)})
			if m.askTree(w, true) {
				return
			}
		}
		m.begin(w)
	case phaseCalling:
		m.runTools(w)
	case phaseEnding:
		m.finish(w)
	}
}

func (m *Machine) begin(w *work) {
	if w.child == "" && m.limits().DeliveryStartedHook && !m.sub(w).DeliveryStarted {
		w.phase = phaseStartDelivery
		m.emit(StartDelivery{Gen: m.newGen(w), Submission: w.submission, Attempt: m.sub(w).Attempts})
		return
	}
	m.proceed(w)
}

// proceed runs the next step: repeatable tool calls of an earlier attempt, the end of a complete
// response, or a model call.
func (m *Machine) proceed(w *work) {
	sub := m.sub(w)
	switch {
	case len(sub.OpenCalls()) > 0:
		m.runTools(w)
	case answered(sub):
		m.finish(w)
	case m.limits().Function != "":
		m.callFunction(w, m.limits().Function)
	default:
		m.nextCall(w)
	}
}

// answered reports whether the response is complete, so that only the author's response hook remains.
func answered(sub *conversation.Submission) bool {
	last, ok := sub.LastTurn()
	return ok && last.Note == "" && last.Completed && last.StopReason != conversation.ReasonInterrupted && ends(last)
}

// ends reports whether a completed turn is the last: it has no calls, or all its calls terminate the
// response.
func ends(t conversation.Turn) bool {
	return !slices.ContainsFunc(t.Parts, func(p conversation.TurnPart) bool {
		return p.Tool != nil && !p.Tool.Terminate
	})
}

func (m *Machine) limits() Limits {
	l, ok := m.cfg.Limits(m.state.Created().Agent)
	if !ok {
		panic(fmt.Sprintf("machine: agent %q is not registered", m.state.Created().Agent))
	}
	return l
}

// cancel ends the work under way and all compactions. reason is recorded for interrupted model calls.
func (m *Machine) cancel(reason string) {
	if m.work != nil {
		m.cancelWork(reason)
	}
	for _, j := range m.jobs {
		m.emit(Cancel{j.gen})
		if j.asked {
			m.emit(Reply{j.to, Moved{}})
		}
	}
	m.jobs = nil
}

func (m *Machine) cancelWork(reason string) {
	for _, w := range slices.Backward(m.tasks) {
		m.endWork(w, reason)
	}
	m.endWork(m.work, reason)
	m.work, m.tasks = nil, nil
}

// endWork cancels the effects of the work and removes it from the tasks.
func (m *Machine) endWork(w *work, reason string) {
	if w.gen != 0 {
		if w.phase == phaseModel && w.emitted && !w.opened && w.unheard == nil {
			m.reportUnrecorded(w, false, reason)
		}
		m.emit(Cancel{w.gen})
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(j *compaction) bool {
		if j.work == w && !j.kept {
			m.emit(Cancel{j.gen})
			return true
		}
		if j.work == w {
			j.work = nil
		}
		return false
	})
	m.tasks = slices.DeleteFunc(slices.Clone(m.tasks), func(t *work) bool { return t == w })
}

// resume takes over the work of an earlier writer. It closes and keeps incomplete turns, and settles
// open calls that cannot run again. The submission under way is tried again within its limits.
func (m *Machine) resume() {
	if (m.replyIsPending() || m.postIsPending()) && listsTakeover() {
		m.ensureListed()
	}
	sub := m.next()
	if sub == nil {
		return
	}
	if sub.Suspended != nil { // no open turn, no running call
		m.resumeSuspended()
		return
	}
	if listsTakeover() {
		m.ensureListed()
	}
	limits := m.limits()
	tried, late := sub.Attempts >= limits.MaxAttempts, sub.Worked() >= limits.Timeout
	var exhausted *conversation.SettlementError
	if tried { // before closeWork settles its calls
		exhausted = m.exhausted(sub, limits)
	}
	m.closeWork(sub, toolNotStarted, toolUnknown, !tried && !late)
	switch {
	case answered(sub) && (tried || late):
		m.complete(sub)
	case tried:
		m.failSubmission(sub, exhausted)
	case late:
		m.failSubmission(sub, failure(conversation.CodeTimeout, textTimeout, nil))
	default:
		m.startNext()
	}
}

// exhausted returns the error of a submission that lost every attempt. It names the tools that ran in
// lost attempts, the most frequent first.
func (m *Machine) exhausted(sub *conversation.Submission, limits Limits) *conversation.SettlementError {
	var names []string
	lost := map[string]int{}
	for _, t := range sub.Turns() {
		for _, p := range t.Parts {
			n := 0
			if c := p.Tool; c != nil {
				n = m.lost(sub, t, c)
			}
			if n > 0 && lost[p.Tool.Name] == 0 {
				names = append(names, p.Tool.Name)
			}
			if n > 0 {
				lost[p.Tool.Name] += n
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return lost[b] - lost[a] })
	names = names[:min(len(names), maxNamedTools)]
	text := fmt.Sprintf(textRetryExhausted, sub.Attempts, limits.MaxAttempts)
	meta := map[string]any{"attempts": sub.Attempts, "maxAttempts": limits.MaxAttempts}
	if len(names) > 0 {
		tools, listed := map[string]any{}, []string{}
		for _, name := range names {
			tools[name] = lost[name]
			listed = append(listed, fmt.Sprintf("%d in %q", lost[name], name))
		}
		meta["tools"] = tools
		text += fmt.Sprintf(textLostInTools, strings.Join(listed, ", "))
	}
	return failure(conversation.CodeRetryExhausted, text, meta)
}

const maxNamedTools = 5

// lost returns how many attempts were lost while a call ran, including the newest, which has no record
// yet.
func (m *Machine) lost(sub *conversation.Submission, t conversation.Turn, c *conversation.ToolCall) int {
	n := c.Lost
	running := sub.Running && !c.Settled && t.Completed && !m.state.Waits(c.Call)
	if running || c.ErrorText == toolUnknown {
		n++
	}
	return n
}

// closeWork closes the open turns of a submission and its subagents. With keepOpen, repeatable calls and
// subagents stay open; otherwise they are settled.
func (m *Machine) closeWork(sub *conversation.Submission, notStarted, started string, keepOpen bool) {
	for _, c := range slices.Backward(m.state.Children(sub.ID)) {
		if c.Settled {
			continue
		}
		m.closeTurn(c, notStarted, started, keepOpen)
		if !keepOpen {
			m.enqueue(true, &conversation.ChildSettled{Child: c.Child, Outcome: conversation.OutcomeAborted, Usage: c.Usage(), At: m.env.Wall})
		}
	}
	m.closeTurn(sub, notStarted, started, keepOpen)
}

// closeTurn completes the open turn and settles its calls. Calls of an incomplete turn did not start;
// calls of a complete one may have. If text was cut off and no call outcome follows it, a note asks
// the model to continue.
func (m *Machine) closeTurn(sub *conversation.Submission, notStarted, started string, keepOpen bool) {
	text, cut, half := started, false, false
	if turn := sub.OpenTurn(); turn != "" {
		last, _ := sub.LastTurn()
		text, cut, half = notStarted, hasText(last), true
		end := &conversation.StepCompleted{
			Message: sub.Message, Child: sub.Child, Turn: turn, StopReason: conversation.ReasonInterrupted, At: m.env.Wall, ElapsedMs: m.elapsed(),
		}
		// After a lost attempt the duration of its model call is unknown.
		if w := m.workAt(turn); w != nil {
			end.Facts, end.DurationMs, end.WaitMs, end.Retries = w.facts, m.askedMs(w), w.wait, w.repeated
		}
		m.enqueue(true, end)
	}
	for _, c := range sub.OpenCalls() {
		if keepOpen && !half && again(c) {
			continue
		}
		cut = false
		m.enqueue(true, &conversation.ToolSettled{
			Call: c.Call, Child: sub.Child, Failed: true, ErrorText: text, ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
	}
	if cut && keepOpen {
		m.addNote(sub, noteContinue)
	}
}

func again(c conversation.ToolCall) bool { return c.Durable || c.Name == conversation.TaskTool }

func (m *Machine) addNote(sub *conversation.Submission, text string) {
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Child: sub.Child, Submission: sub.ID,
		Text: text, Display: conversation.DisplayHidden,
	})
}

func hasText(s conversation.Turn) bool {
	for _, p := range s.Parts {
		if p.Tool == nil && p.Text != "" {
			return true
		}
	}
	return false
}

func (m *Machine) failSubmission(sub *conversation.Submission, err *conversation.SettlementError) {
	m.addDiagnostic(sub, err)
	m.settle(sub, conversation.OutcomeFailed, err)
}

// addDiagnostic adds a diagnostic to the transcript with the reason why a submission ends.
func (m *Machine) addDiagnostic(sub *conversation.Submission, err *conversation.SettlementError) {
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: sub.ID,
		Text: err.Message, Display: conversation.DisplayDiagnostic,
		Attributes: map[string]string{"submissionId": string(sub.ID), "reason": string(err.Type)},
	})
}

// complete settles a submission whose response is complete. A diagnostic reports a response without an
// answer.
func (m *Machine) complete(sub *conversation.Submission) {
	m.reportSilence(sub)
	m.settle(sub, conversation.OutcomeCompleted, nil)
}

func (m *Machine) settle(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	m.conclude(sub, outcome, err)
	m.startNext()
}

// settlement is shown to the author once it is durable.
type settlement struct {
	ShowSettlement
	at conversation.Offset
}

func (m *Machine) conclude(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	spent := m.state.Spent(sub.ID) // the settlement removes subagents from the state
	total, attempt := sub.Elapsed().Milliseconds(), sub.ElapsedNow().Milliseconds()
	m.reportCost(sub)
	settled := &conversation.SubmissionSettled{
		Submission: sub.ID, Outcome: outcome, Error: err, AdmissionMs: m.admissionMs(sub.ID), At: m.env.Wall,
	}
	if w := m.work; w != nil && w.submission == sub.ID {
		total += m.elapsed() - attempt
		attempt, settled.Unheard = m.elapsed(), w.unheard
		reason := conversation.ReasonInterrupted
		if outcome == conversation.OutcomeAborted {
			reason = string(outcome)
		}
		m.cancelWork(reason)
	} else if sub.Running {
		settled.Lost, settled.LostAt = true, m.lostAt(sub)
	}
	settled.ElapsedMs, settled.AttemptMs = total, attempt
	m.enqueue(true, append([]conversation.Record{settled}, m.notices(sub, settled)...)...)
	delete(m.receipts, sub.ID)
	if m.limits().SettledHook {
		m.settled = append(m.settled, settlement{ShowSettlement{sub, outcome, err, spent}, m.nextOffset()})
	}
}

func (m *Machine) showSettled() {
	for len(m.settled) > 0 && m.settled[0].at <= m.durable {
		m.emit(m.settled[0].ShowSettlement)
		m.settled = m.settled[1:]
	}
}

func (m *Machine) budgetSpent() {
	w := m.work
	if w == nil || w.phase == phaseStarting {
		return
	}
	sub := m.sub(w)
	before := sub.Worked() - sub.ElapsedNow()
	left := m.limits().Timeout - before - (m.env.Mono - w.began)
	if left > 0 { // the timer was set for an earlier submission
		m.emit(SetTimer{Timer: TimerBudget, After: left})
		return
	}
	if w.phase == phaseEnding || w.phase == phaseFinishResponse {
		// A complete response does not fail because its hook is late.
		m.complete(sub)
		return
	}
	m.closeWork(sub, toolTimeUp, toolTimeUp, false)
	m.failSubmission(sub, failure(conversation.CodeTimeout, textTimeout, nil))
}

var nullOutput = json.RawMessage("null")
