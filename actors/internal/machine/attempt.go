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
	phaseTree                        // waiting for the root of the dispatch tree to permit the work
	phaseStartDelivery               // the author's hook at the start of a delivery runs
	phaseModel                       // a model call is in flight
	phaseCalling                     // the tool calls of the turn are being appended
	phaseTools                       // tool calls run or are suspended
	phaseRetry                       // a short pause in memory before the model call is retried
	phaseWaiting                     // a long pause before the retry, for which the submission is suspended
	phaseCompacting                  // the model call waits until its context is compacted
	phaseEnding                      // the last turn of the response is being appended
	phaseFinishResponse              // the author's hook at the end of a response runs
)

// work is the execution of an attempt at a submission, or of a subagent's task within it. It is in
// memory only.
type work struct {
	submission    conversation.SubmissionID
	child         conversation.ConversationID // conversation of the subagent whose task it is; "" for an attempt
	gen           int                         // identifies its effects; results of another generation are ignored
	phase         phase
	at            conversation.Offset // in phaseStarting, phaseCalling and phaseEnding: the batch that must become durable
	resumed       bool
	began         time.Duration                 // Env.Mono when the attempt became durable; unset for tasks
	turn          conversation.TurnID           // turn of the newest model call
	asked         time.Duration                 // Env.Mono when the model call was requested
	wait          int64                         // milliseconds from the model call to its first event
	repeated      int                           // number of failed calls that the newest model call retries
	opened        bool                          // response_started of this turn is appended or queued
	turns         int                           // number of model calls of this attempt, without retries
	tries         tries                         // retry state of the newest model call
	failedModels  []string                      // models that failed permanently, by name
	replaced      *Replaced                     // the first model that failed, until the response of another is reported to clients
	passed        *Replaced                     // preferred model that the newest call skipped; see [Model.Passed]
	fallback      string                        // the fallback model named in the newest notice to clients
	until         conversation.Time             // in phaseWaiting: time of the retry
	cutOff        int                           // consecutive turns that ended within a call, or with too many calls
	responseBytes int                           // size of the response in bytes, see [conversation.Submission.OutputBytes]
	partKind      ModelEventKind                // kind of the part that is streaming, ModelDone if there is none
	calls         int                           // number of tool calls in the reply so far
	compacted     bool                          // the context was compacted for this model call
	omitted       omittedImages                 // images that its model calls omit
	failed        *conversation.SettlementError // in phaseCompacting: the error of the model call that exceeded the context window
	metadata      json.RawMessage               // metadata of the response, recorded in response_started
	written       []StateWrite                  // author state, recorded with response_started
	waiting       []conversation.ToolCall
	running       int                         // number of running and suspended tool calls
	starts        bool                        // in phaseTree: the attempt begins once the root permits it
	treeDollars   bool                        // the tree has a dollar limit
	reported      float64                     // cost in dollars last reported to the root of the tree
	unheard       *conversation.FailedCall    // the model call that failed before its first event and so has no record of its own
	emitted       bool                        // the effect of the newest model call was emitted
	reminder      string                      // text that asks a subagent for its result; see [ModelEvent.Reminder]
	facts         conversation.CallFacts      // facts about the newest model call, for events
	suspended     []suspendedCall             // calls suspended until a time or a signal
	knownEnds     map[conversation.CallID]int // number of ended waits that each call knows
}

// newGen gives the work a new generation, so that results of its earlier effects are ignored.
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

// lostAt returns the time in the last batch that the activation read at opening, as the time at which
// the previous attempt was lost. It returns 0 if no attempt of sub was lost, or if no such batch was
// read.
func (m *Machine) lostAt(sub *conversation.Submission) conversation.Time {
	if !sub.Running {
		return 0
	}
	return m.lastBuilt
}

// continueWork continues all work whose awaited batch is durable. This may end work and start other
// work, so it repeats.
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

// proceed starts the next step of the work: open tool calls of an earlier attempt, the end of a
// complete response, a workflow function, or a model call.
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

// answered reports whether the response is complete, so that only the response hook and the settlement
// remain.
func answered(sub *conversation.Submission) bool {
	last, ok := sub.LastTurn()
	return ok && last.Note == "" && last.Completed && last.StopReason != conversation.ReasonInterrupted && ends(last)
}

// ends reports whether a completed turn is the last of a response: it has no tool calls, or every call
// has a result that ends the response.
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

// cancel cancels the attempt with its tasks, and all compactions. Records of interrupted model calls
// get the reason.
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

// endWork cancels the effects of w, including compactions that cannot continue without it, and removes
// w from the tasks.
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

// resume takes over the pending work of an earlier writer; it is called once, when the activation
// opens. It completes open turns and keeps their content, and settles open calls that cannot run
// again. Then it starts a new attempt at the submission under way, unless its attempts or its time are
// exhausted.
func (m *Machine) resume() {
	if (m.replyIsPending() || m.postIsPending()) && listsTakeover() {
		m.ensureListed()
	}
	sub := m.next()
	if sub == nil {
		return
	}
	if sub.Suspended != nil { // A suspended submission has no open turn and no running call.
		m.resumeSuspended()
		return
	}
	if listsTakeover() {
		m.ensureListed()
	}
	limits := m.limits()
	tried, late := sub.Attempts >= limits.MaxAttempts, sub.Worked() >= limits.Timeout
	var exhausted *conversation.SettlementError
	if tried { // Compute it before closeWork settles the calls that it names.
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

// exhausted returns the settlement error of a submission that has used all its attempts. It names up
// to maxNamedTools tools that ran when attempts were lost, the most frequent first.
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

// lost returns the number of attempts that were lost while a call ran. It includes the newest loss,
// which is not recorded yet.
func (m *Machine) lost(sub *conversation.Submission, t conversation.Turn, c *conversation.ToolCall) int {
	n := c.Lost
	running := sub.Running && !c.Settled && t.Completed && !m.state.Waits(c.Call)
	if running || c.ErrorText == toolUnknown {
		n++
	}
	return n
}

// closeWork closes the open turns of a submission and its subagents, and settles their open calls. The
// calls get the error text notStarted or started. With keepOpen, calls that may run again and
// subagents stay open.
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

// closeTurn completes the open turn of a submission, if any, and settles its open calls. Calls of an
// incomplete turn did not start and get the text notStarted; others may have started. If the turn was
// interrupted within text, and no call outcome follows, a note tells the model to continue.
func (m *Machine) closeTurn(sub *conversation.Submission, notStarted, started string, keepOpen bool) {
	text, cut, half := started, false, false
	if turn := sub.OpenTurn(); turn != "" {
		last, _ := sub.LastTurn()
		text, cut, half = notStarted, hasText(last), true
		end := &conversation.StepCompleted{
			Message: sub.Message, Child: sub.Child, Turn: turn, StopReason: conversation.ReasonInterrupted, At: m.env.Wall, ElapsedMs: m.elapsed(),
		}
		// For a turn of an earlier writer, the duration of the model call is unknown.
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

// addDiagnostic adds a message with the reason of a failure to the transcript. Clients see it, the
// model does not.
func (m *Machine) addDiagnostic(sub *conversation.Submission, err *conversation.SettlementError) {
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: sub.ID,
		Text: err.Message, Display: conversation.DisplayDiagnostic,
		Attributes: map[string]string{"submissionId": string(sub.ID), "reason": string(err.Type)},
	})
}

// complete settles a submission whose response is complete. If the response has no answer, complete
// adds a diagnostic first.
func (m *Machine) complete(sub *conversation.Submission) {
	m.reportSilence(sub)
	m.settle(sub, conversation.OutcomeCompleted, nil)
}

func (m *Machine) settle(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	m.conclude(sub, outcome, err)
	m.startNext()
}

// settlement waits in Machine.settled for batch at to become durable; then the author's hook gets it.
type settlement struct {
	ShowSettlement
	at conversation.Offset
}

func (m *Machine) conclude(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	spent := m.state.Spent(sub.ID) // before the settlement removes subagents from the state
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
