package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// phase is how far the work on a submission is.
type phase int

const (
	phaseStarting       phase = iota // attempt_started, or child_started, is on its way
	phaseTree                        // the conversation that began its tree is asked
	phaseStartDelivery               // the author sees the delivery
	phaseModel                       // a model call is under way
	phaseCalling                     // the turn's calls are on their way to the log
	phaseTools                       // tools run
	phaseRetry                       // a failed model call waits to be repeated, here
	phaseWaiting                     // it waits for so long that nothing is done meanwhile
	phaseCompacting                  // a model call waits for a summary of its context
	phaseEnding                      // the response's last turn is on its way to the log
	phaseFinishResponse              // the author sees the response
)

// work is what is under way for one submission: the attempt at it, or a subagent's task.
type work struct {
	submission  conversation.SubmissionID
	child       conversation.ConversationID // of a subagent's task
	gen         int                         // of what runs outside for it
	phase       phase
	at          conversation.Offset           // the batch phaseStarting, phaseCalling and phaseEnding wait for
	resumed     bool                          // calls may have run before this attempt
	began       time.Duration                 // Env.Mono when the attempt became durable; of the attempt only
	turn        conversation.TurnID           // of the model call
	asked       time.Duration                 // Env.Mono when it was asked for
	wait        int64                         // milliseconds until its first word
	repeated    int                           // failed calls before it that it repeats
	opened      bool                          // response_started of the turn is recorded
	turns       int                           // model calls of this attempt, repetitions not counted
	tries       tries                         // of the model call
	lost        []string                      // models that no repetition helps
	replaced    *Replaced                     // it has failed in this work, so that another model was asked in its place
	passed      *Replaced                     // see [Model.Passed]
	answers     string                        // the model of which people were told last that it answers in place of another
	until       conversation.Time             // of phaseWaiting
	cutOff      int                           // turns in a row that ended at the model's limit in a call, or with too many calls
	said        int                           // bytes of the response so far, see [conversation.Submission.Said]
	speaks      ModelEventKind                // kind of the part under way, ModelDone if there is none
	calls       int                           // of the reply so far
	compacted   bool                          // the model call was too long once
	bare        bareness                      // images that are left out of its model calls
	failed      *conversation.SettlementError // what a summary may still mend
	metadata    json.RawMessage               // of the response, until it is open
	written     []StateWrite                  // by the author for the response, until it is open
	waiting     []conversation.ToolCall
	running     int                         // tools, those in parked included
	starts      bool                        // of phaseTree: nothing has run for the attempt
	treeDollars bool                        // the tree has a limit of dollars
	reported    float64                     // cost that its tree knows
	unheard     *conversation.FailedCall    // the call that ended the work without a word
	calling     bool                        // the newest model call was asked for
	reminder    string                      // see [ModelEvent.Reminder]
	facts       conversation.CallFacts      // of the model call
	suspended   []suspendedCall             // those that wait for a time or a signal
	heard       map[conversation.CallID]int // of how many waits that have ended the calls know
}

// newGen names what runs outside for the work from now on. Results under the name it
// had are ignored.
func (m *Machine) newGen(w *work) int {
	m.gen++
	w.gen = m.gen
	return w.gen
}

// workOf returns the work that gen names, or nil.
func (m *Machine) workOf(gen int) *work {
	return m.findWork(func(w *work) bool { return w.gen == gen })
}

// workFor returns the work on a submission, or nil.
func (m *Machine) workFor(id conversation.SubmissionID) *work {
	return m.findWork(func(w *work) bool { return w.submission == id })
}

// workAt returns the work whose model call a turn is, or nil.
func (m *Machine) workAt(turn conversation.TurnID) *work {
	return m.findWork(func(w *work) bool { return w.turn == turn })
}

// findWork returns the first that is meant of the work under way and that of its subagents, or nil.
func (m *Machine) findWork(meant func(*work) bool) *work {
	if m.work != nil && meant(m.work) {
		return m.work
	}
	if i := slices.IndexFunc(m.tasks, meant); i >= 0 {
		return m.tasks[i]
	}
	return nil
}

func (m *Machine) sub(w *work) *conversation.Submission { return m.state.Submission(w.submission) }

// startNext begins an attempt at the submission that is next, unless one is under way.
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

// lostAt is when the writer of an attempt that was lost built its last batch, 0 if no attempt of sub was lost, or if
// the activation did not read that batch.
func (m *Machine) lostAt(sub *conversation.Submission) conversation.Time {
	if !sub.Running {
		return 0
	}
	return m.found
}

// continueWork goes on with what waited for records that are durable by now. That may
// end work and begin other.
func (m *Machine) continueWork() {
	for w := m.ripeWork(); w != nil; w = m.ripeWork() {
		m.continueOne(w)
	}
}

// ripeWork returns work that may go on, or nil.
func (m *Machine) ripeWork() *work {
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

// begin starts the work on a submission, or takes it up again.
func (m *Machine) begin(w *work) {
	if w.child == "" && m.limits().DeliveryStartedHook && !m.sub(w).DeliveryStarted {
		w.phase = phaseStartDelivery
		m.emit(StartDelivery{Gen: m.newGen(w), Submission: w.submission, Attempt: m.sub(w).Attempts})
		return
	}
	m.proceed(w)
}

// proceed does what comes next: tools of an earlier attempt that can be run again, the
// end of a response that is complete, or a model call.
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

// answered reports whether a response has come to its end, so that only the author's
// look at it is missing.
func answered(sub *conversation.Submission) bool {
	last, ok := sub.LastTurn()
	return ok && last.Note == "" && last.Completed && last.StopReason != conversation.ReasonInterrupted && ends(last)
}

// ends reports whether no model call follows a completed turn: nothing was called,
// or all that was called asked for the end.
func ends(t conversation.Turn) bool {
	return !slices.ContainsFunc(t.Parts, func(p conversation.TurnPart) bool {
		return p.Tool != nil && !p.Tool.Terminate
	})
}

// limits are the rules of this conversation's agent.
func (m *Machine) limits() Limits {
	l, ok := m.cfg.Limits(m.state.Created().Agent)
	if !ok {
		panic(fmt.Sprintf("machine: agent %q is not registered", m.state.Created().Agent))
	}
	return l
}

// cancel ends the work under way, if any. reason is that of the model calls it cuts off.
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

// cancelWork ends the work and that of its subagents, and what runs for them.
func (m *Machine) cancelWork(reason string) {
	for _, w := range slices.Backward(m.tasks) {
		m.endWork(w, reason)
	}
	m.endWork(m.work, reason)
	m.work, m.tasks = nil, nil
}

// endWork ends what runs outside for the work and forgets it.
func (m *Machine) endWork(w *work, reason string) {
	if w.gen != 0 {
		if w.phase == phaseModel && w.calling && !w.opened && w.unheard == nil {
			m.unrecorded(w, false, reason)
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

// resume takes over what an earlier writer left: half-written turns are closed
// and kept, calls without an outcome that cannot be run again get one, and the submission
// that was worked on is tried again, within its limits.
func (m *Machine) resume() {
	if (m.replyIsPending() || m.postIsPending()) && listsTakeover() {
		m.ensureListed()
	}
	sub := m.next()
	if sub == nil {
		return
	}
	if sub.Suspended != nil { // nothing is half-written, and no call runs
		m.unpark()
		return
	}
	if listsTakeover() {
		m.ensureListed()
	}
	limits := m.limits()
	tried, late := sub.Attempts >= limits.MaxAttempts, sub.Worked() >= limits.Timeout
	var exhausted *conversation.SettlementError
	if tried { // before its calls get an outcome
		exhausted = m.exhausted(sub, limits)
	}
	m.closeWork(sub, toolNotStarted, toolUnknown, !tried && !late)
	switch {
	case answered(sub) && (tried || late):
		m.complete(sub)
	case tried:
		m.giveUp(sub, exhausted)
	case late:
		m.giveUp(sub, failure(conversation.CodeTimeout, sayTimeout, nil))
	default:
		m.startNext()
	}
}

// exhausted is the error of a submission none of whose attempts came to an end. It names the tools that ran when
// attempts were lost, the most frequent first.
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
	text := fmt.Sprintf(sayRetryExhausted, sub.Attempts, limits.MaxAttempts)
	meta := map[string]any{"attempts": sub.Attempts, "maxAttempts": limits.MaxAttempts}
	if len(names) > 0 {
		tools, listed := map[string]any{}, []string{}
		for _, name := range names {
			tools[name] = lost[name]
			listed = append(listed, fmt.Sprintf("%d in %q", lost[name], name))
		}
		meta["tools"] = tools
		text += fmt.Sprintf(sayLostInTools, strings.Join(listed, ", "))
	}
	return failure(conversation.CodeRetryExhausted, text, meta)
}

// maxNamedTools bounds the tools that an error names.
const maxNamedTools = 5

// lost returns how many attempts were lost while a call ran. The newest has no record yet.
func (m *Machine) lost(sub *conversation.Submission, t conversation.Turn, c *conversation.ToolCall) int {
	n := c.Lost
	running := sub.Running && !c.Settled && t.Completed && !m.state.Waits(c.Call)
	if running || c.ErrorText == toolUnknown {
		n++
	}
	return n
}

// closeWork closes what is half-written of a submission and of its subagents. To go
// on, calls that can be run again stay open, and subagents; otherwise they end too.
func (m *Machine) closeWork(sub *conversation.Submission, notStarted, started string, goOn bool) {
	for _, c := range slices.Backward(m.state.Children(sub.ID)) {
		if c.Settled {
			continue
		}
		m.closeTurn(c, notStarted, started, goOn)
		if !goOn {
			m.enqueue(true, &conversation.ChildSettled{Child: c.Child, Outcome: conversation.OutcomeAborted, Usage: c.Usage(), At: m.env.Wall})
		}
	}
	m.closeTurn(sub, notStarted, started, goOn)
}

// closeTurn ends the turn under way and its calls. Calls of a turn whose stream
// never ended did not start; calls of a completed turn may have. If text was cut
// off, with no outcome of a call after it, the model that goes on is told so.
func (m *Machine) closeTurn(sub *conversation.Submission, notStarted, started string, goOn bool) {
	text, cut, half := started, false, false
	if turn := sub.OpenTurn(); turn != "" {
		last, _ := sub.LastTurn()
		text, cut, half = notStarted, hasText(last), true
		end := &conversation.StepCompleted{
			Message: sub.Message, Child: sub.Child, Turn: turn, StopReason: conversation.ReasonInterrupted, At: m.env.Wall, ElapsedMs: m.elapsed(),
		}
		// After a loss nobody knows how long its model call was.
		if w := m.workAt(turn); w != nil {
			end.Facts, end.DurationMs, end.WaitMs, end.Retries = w.facts, m.askedMs(w), w.wait, w.repeated
		}
		m.enqueue(true, end)
	}
	for _, c := range sub.OpenCalls() {
		if goOn && !half && again(c) {
			continue
		}
		cut = false
		m.enqueue(true, &conversation.ToolSettled{
			Call: c.Call, Child: sub.Child, Failed: true, ErrorText: text, ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
	}
	if cut && goOn {
		m.addNote(sub, noteContinue)
	}
}

// again reports whether a call whose outcome is unknown may be run once more.
func again(c conversation.ToolCall) bool { return c.Durable || c.Name == conversation.TaskTool }

// addNote leaves a note to the model that only it sees.
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

// giveUp settles a submission as failed and says so in the transcript.
func (m *Machine) giveUp(sub *conversation.Submission, err *conversation.SettlementError) {
	m.advise(sub, err)
	m.settle(sub, conversation.OutcomeFailed, err)
}

// advise tells people in the transcript why a submission ends.
func (m *Machine) advise(sub *conversation.Submission, err *conversation.SettlementError) {
	m.enqueue(true, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: sub.ID,
		Text: err.Message, Display: conversation.DisplayDiagnostic,
		Attributes: map[string]string{"submissionId": string(sub.ID), "reason": string(err.Type)},
	})
}

// complete settles a submission whose response has come to its end. If that has no answer, a diagnostic reports it.
func (m *Machine) complete(sub *conversation.Submission) {
	m.reportSilence(sub)
	m.settle(sub, conversation.OutcomeCompleted, nil)
}

// settle records the one outcome of a submission and begins the next.
func (m *Machine) settle(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	m.conclude(sub, outcome, err)
	m.startNext()
}

// settlement is one the author is told of once it is durable.
type settlement struct {
	ShowSettlement
	at conversation.Offset
}

// conclude records the one outcome of a submission.
func (m *Machine) conclude(sub *conversation.Submission, outcome conversation.Outcome, err *conversation.SettlementError) {
	spent := m.state.Spent(sub.ID) // the state forgets subagents with the settlement
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

// showSettled tells the author of settlements that are durable by now.
func (m *Machine) showSettled() {
	for len(m.settled) > 0 && m.settled[0].at <= m.durable {
		m.emit(m.settled[0].ShowSettlement)
		m.settled = m.settled[1:]
	}
}

// budgetSpent ends a submission whose total time is used up.
func (m *Machine) budgetSpent() {
	w := m.work
	if w == nil || w.phase == phaseStarting {
		return
	}
	sub := m.sub(w)
	before := sub.Worked() - sub.ElapsedNow()
	left := m.limits().Timeout - before - (m.env.Mono - w.began)
	if left > 0 { // the timer of an earlier submission
		m.emit(SetTimer{Timer: TimerBudget, After: left})
		return
	}
	if w.phase == phaseEnding || w.phase == phaseFinishResponse {
		// The response is complete: its author's words about it do not fail it.
		m.complete(sub)
		return
	}
	m.closeWork(sub, toolTimeUp, toolTimeUp, false)
	m.giveUp(sub, failure(conversation.CodeTimeout, sayTimeout, nil))
}

// nullOutput stands for a tool that returned nothing.
var nullOutput = json.RawMessage("null")
