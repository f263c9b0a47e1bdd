package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxRetries bounds the repetitions of a model call whose vendors do not say when to
	// come back.
	maxRetries = 3
	// maxDoublings bounds how often the pause between repetitions doubles.
	maxDoublings = 6
	// maxUnasked is the longest pause while the bucket is away and no model can be asked.
	maxUnasked = time.Minute
	// longPause is what is waited in memory. For more the turn is put away.
	longPause = 30 * time.Second
	// shownPause is from when on people see a pause: shorter ones they do not notice.
	shownPause = 3 * time.Second
)

// tries are what has come of asking for one reply. A round asks every model of the agent
// once, the next as soon as one has failed; only then does anybody wait.
type tries struct {
	failed  []string      // in this round, for what may pass
	hint    time.Duration // the shortest wait that a vendor of this round asks for, 0 if none does
	rounds  int
	blind   int           // rounds without a hint
	waited  time.Duration // because of hints
	unasked int           // repetitions because no model could be asked
}

// modelFailed asks another model, repeats a call that may succeed later, or has the
// context shortened; otherwise the work fails. What a repeated call has said already
// is withdrawn.
func (m *Machine) modelFailed(w *work, name string, e ModelEvent) {
	switch {
	case e.TooManyCalls:
		m.openResponse(w, name)
		m.tooManyCalls(w)
	case e.Overflow && !w.compacted:
		m.withdraw(w, e)
		m.compactWork(w, e.Err)
	case m.leaveOut(w, e):
	case e.Unasked:
		m.repeat(w, e, min(m.retryPause(w.tries.unasked), maxUnasked))
		w.tries.unasked++
	default:
		m.tryOn(w, name, e)
	}
}

// tryOn goes on after a model has failed: with the next one at once, or after a pause
// with all of them that may do better then.
func (m *Machine) tryOn(w *work, name string, e ModelEvent) {
	w.bare.forget()
	t := &w.tries
	if e.Retry {
		t.failed = append(t.failed, name)
		if e.RetryAfter > 0 && (t.hint == 0 || e.RetryAfter < t.hint) {
			t.hint = e.RetryAfter
		}
	} else {
		w.lost = append(w.lost, name)
	}
	if e.Fallback {
		if w.replaced == nil {
			w.replaced = &Replaced{name, e.Err}
		}
		m.withdraw(w, e)
		w.repeated++
		m.startCall(w)
		return
	}
	pause, ok := m.roundOver(w)
	switch {
	case !ok:
		m.callLost(w, name, e)
	case pause > longPause:
		m.schedule(w, name, e, pause)
	default:
		m.pauseShown(w, e, pause)
		m.repeat(w, e, pause)
	}
}

// pauseShown has people see what a reply waits for.
func (m *Machine) pauseShown(w *work, e ModelEvent, pause time.Duration) {
	if pause < shownPause {
		return
	}
	try := strconv.Itoa(w.tries.rounds + 1)
	if w.tries.waited == 0 { // otherwise it is time that bounds them
		try += fmt.Sprintf(" of %d", maxRetries+1)
	}
	m.enqueue(true, m.diagnostic(e.Err, nil, sayAskedAgain, e.Err.Message, pause.Round(time.Second), try))
}

// replacedBy has people see that another model answers than the one that was asked first,
// or would have been. Of one that was passed over they hear once.
func (m *Machine) replacedBy(w *work, model string) {
	was, say := w.replaced, sayInPlace
	if was == nil && w.answers != model {
		was, say = w.passed, sayPassedOver
	}
	if w.replaced = nil; was != nil && was.Name != model {
		w.answers = model
		m.enqueue(true, m.diagnostic(was.Why, nil, say, model, was.Name, was.Why.Message))
	}
}

// diagnostic is a message to people about what keeps a model from an answer, in the
// transcript of the submission under way.
func (m *Machine) diagnostic(why *conversation.SettlementError, more map[string]string, format string, args ...any) *conversation.Advisory {
	attributes := map[string]string{"submissionId": string(m.work.submission), "reason": reasonOf(why)}
	maps.Copy(attributes, more)
	return &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: m.work.submission, Display: conversation.DisplayDiagnostic,
		Text: fmt.Sprintf(format, args...), Attributes: attributes,
	}
}

// roundOver returns how long to wait until the next round of asking, and whether there is
// one. A vendor that says when to come back is waited for as long as the agent has
// patience, any other a few times.
func (m *Machine) roundOver(w *work) (pause time.Duration, again bool) {
	t := &w.tries
	if len(t.failed) == 0 {
		return 0, false
	}
	pause = max(m.retryPause(t.rounds), t.hint)
	switch {
	case t.hint == 0 && t.blind >= maxRetries, t.hint > 0 && t.waited+pause > m.limits().Patience:
		return 0, false
	case t.hint == 0:
		t.blind++
	default:
		t.waited += pause
	}
	t.rounds++
	t.failed, t.hint = nil, 0
	return pause, true
}

// callLost ends work whose model call is not repeated.
func (m *Machine) callLost(w *work, name string, e ModelEvent) {
	if w.opened {
		m.completeTurn(w, ModelEvent{StopReason: stopError})
	} else {
		w.unheard = &conversation.FailedCall{Turn: w.turn, Model: name, Facts: w.facts, DurationMs: m.askedMs(w), Retries: w.repeated}
	}
	m.skip(w, m.sub(w).OpenCalls(), toolNotStarted)
	err := *e.Err
	if e.RetryAfter > 0 {
		err.Meta = maps.Clone(err.Meta)
		if err.Meta == nil {
			err.Meta = map[string]any{}
		}
		err.Meta["retryAfterMs"] = e.RetryAfter.Milliseconds()
	}
	m.fail(w, &err)
}

// repeat makes a model call again after a pause.
func (m *Machine) repeat(w *work, e ModelEvent, after time.Duration) {
	m.withdraw(w, e)
	w.phase = phaseRetry
	w.repeated++
	m.emit(SetTimer{Timer: TimerRetry, Gen: w.gen, After: after})
}

// schedule makes a model call again after a pause in which nothing need be done: if nothing
// else does, the attempt is put away like that of a call which waits for a time.
func (m *Machine) schedule(w *work, name string, e ModelEvent, after time.Duration) {
	m.withdraw(w, e)
	w.phase, w.until = phaseWaiting, m.now()+conversation.Time((after+time.Millisecond-1)/time.Millisecond)
	m.enqueue(true, &conversation.RetryScheduled{
		Must: true, Submission: w.submission, Child: w.child, Model: name, Reason: reasonOf(e.Err), Until: w.until,
		Rounds: w.tries.rounds, Blind: w.tries.blind, WaitedMs: w.tries.waited.Milliseconds(), At: m.env.Wall,
	}, m.diagnostic(e.Err, map[string]string{"until": w.until.String()}, sayAskedLater, name, w.until))
}

// nextCall asks for the next model call of work that begins, or goes on to wait for one
// that an earlier attempt has scheduled.
func (m *Machine) nextCall(w *work) {
	s := m.sub(w).Retry
	if s == nil {
		m.callModel(w)
		return
	}
	w.turns++
	w.tries = tries{rounds: s.Rounds, blind: s.Blind, waited: time.Duration(s.WaitedMs) * time.Millisecond}
	w.repeated = s.Rounds
	if s.Until > m.now() {
		w.phase, w.until = phaseWaiting, s.Until
		return
	}
	m.startCall(w)
}

// callDue makes the scheduled calls whose time has come while others still run.
func (m *Machine) callDue() {
	for _, w := range slices.Collect(m.allWork()) {
		if w.phase == phaseWaiting && w.until <= m.now() {
			m.startCall(w)
		}
	}
}

// retryPause doubles with every repetition and is shortened by up to half, so that
// the callers of a vendor that was down do not come back together.
func (m *Machine) retryPause(times int) time.Duration {
	pause := m.cfg.RetryPause << min(times, maxDoublings)
	return pause - pause*time.Duration(m.env.Seed[0])/512
}
