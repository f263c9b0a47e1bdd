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
	// maxRetries bounds the repetitions of a model call without a retry hint.
	maxRetries = 3
	// maxDoublings bounds the doublings of the retry pause.
	maxDoublings = 6
	// maxUnasked is the longest retry pause while the bucket is unavailable and no model can be
	// called.
	maxUnasked = time.Minute
	// longPause is the longest pause in memory. For a longer one the attempt is suspended.
	longPause = 30 * time.Second
	// reportedPause is the shortest pause that is reported to clients.
	reportedPause = 3 * time.Second
)

// tries tracks the attempts at one reply. A round calls every model of the agent once, each as soon as
// the previous one fails. Pauses are between rounds.
type tries struct {
	failed   []string      // models of this round with a transient failure
	hint     time.Duration // shortest retry hint of this round, 0 for none
	rounds   int
	unhinted int           // rounds without a hint
	waited   time.Duration // sum of pauses with a hint
	unasked  int           // repetitions because no model could be called
}

// modelFailed calls another model, repeats a call that may succeed later, or compacts the context.
// Otherwise the work fails. The output of a repeated call is withdrawn.
func (m *Machine) modelFailed(w *work, name string, e ModelEvent) {
	switch {
	case e.TooManyCalls:
		m.openResponse(w, name)
		m.tooManyCalls(w)
	case e.Overflow && !w.compacted:
		m.withdraw(w, e)
		m.compactWork(w, e.Err)
	case m.omitImages(w, e):
	case e.Unasked:
		m.repeat(w, e, min(m.retryPause(w.tries.unasked), maxUnasked))
		w.tries.unasked++
	default:
		m.tryNext(w, name, e)
	}
}

// tryNext continues after a model has failed: at once with the next model, or after a pause with all
// models that may recover.
func (m *Machine) tryNext(w *work, name string, e ModelEvent) {
	w.omitted.reset()
	t := &w.tries
	if e.Retry {
		t.failed = append(t.failed, name)
		if e.RetryAfter > 0 && (t.hint == 0 || e.RetryAfter < t.hint) {
			t.hint = e.RetryAfter
		}
	} else {
		w.failedModels = append(w.failedModels, name)
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
		m.failCall(w, name, e)
	case pause > longPause:
		m.schedule(w, name, e, pause)
	default:
		m.reportPause(w, e, pause)
		m.repeat(w, e, pause)
	}
}

func (m *Machine) reportPause(w *work, e ModelEvent, pause time.Duration) {
	if pause < reportedPause {
		return
	}
	try := strconv.Itoa(w.tries.rounds + 1)
	if w.tries.waited == 0 { // otherwise a time bounds the tries
		try += fmt.Sprintf(" of %d", maxRetries+1)
	}
	m.enqueue(true, m.diagnostic(e.Err, nil, textRetryIn, e.Err.Message, pause.Round(time.Second), try))
}

// reportFallback reports to clients that another model answers than the preferred one. A skipped model is
// reported once.
func (m *Machine) reportFallback(w *work, model string) {
	was, text := w.replaced, textFallback
	if was == nil && w.fallback != model {
		was, text = w.passed, textSkipped
	}
	if w.replaced = nil; was != nil && was.Name != model {
		w.fallback = model
		m.enqueue(true, m.diagnostic(was.Why, nil, text, model, was.Name, was.Why.Message))
	}
}

// diagnostic returns a message to clients about a model problem, for the transcript of the submission
// under way.
func (m *Machine) diagnostic(why *conversation.SettlementError, more map[string]string, format string, args ...any) *conversation.Advisory {
	attributes := map[string]string{"submissionId": string(m.work.submission), "reason": reasonOf(why)}
	maps.Copy(attributes, more)
	return &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: m.work.submission, Display: conversation.DisplayDiagnostic,
		Text: fmt.Sprintf(format, args...), Attributes: attributes,
	}
}

// roundOver returns the pause before the next round and whether there is one. Rounds with a retry hint
// are bounded by Patience, others by maxRetries.
func (m *Machine) roundOver(w *work) (pause time.Duration, again bool) {
	t := &w.tries
	if len(t.failed) == 0 {
		return 0, false
	}
	pause = max(m.retryPause(t.rounds), t.hint)
	switch {
	case t.hint == 0 && t.unhinted >= maxRetries, t.hint > 0 && t.waited+pause > m.limits().Patience:
		return 0, false
	case t.hint == 0:
		t.unhinted++
	default:
		t.waited += pause
	}
	t.rounds++
	t.failed, t.hint = nil, 0
	return pause, true
}

func (m *Machine) failCall(w *work, name string, e ModelEvent) {
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

func (m *Machine) repeat(w *work, e ModelEvent, after time.Duration) {
	m.withdraw(w, e)
	w.phase = phaseRetry
	w.repeated++
	m.emit(SetTimer{Timer: TimerRetry, Gen: w.gen, After: after})
}

// schedule repeats a model call after a long pause. If nothing else runs, the attempt is suspended
// meantime.
func (m *Machine) schedule(w *work, name string, e ModelEvent, after time.Duration) {
	m.withdraw(w, e)
	w.phase, w.until = phaseWaiting, m.now()+conversation.Time((after+time.Millisecond-1)/time.Millisecond)
	m.enqueue(true, &conversation.RetryScheduled{
		Must: true, Submission: w.submission, Child: w.child, Model: name, Reason: reasonOf(e.Err), Until: w.until,
		Rounds: w.tries.rounds, RoundsWithoutDelay: w.tries.unhinted, WaitedMs: w.tries.waited.Milliseconds(), At: m.env.Wall,
	}, m.diagnostic(e.Err, map[string]string{"until": w.until.String()}, textRetryLater, name, w.until))
}

// nextCall starts the next model call of the work, or waits for one that an earlier attempt scheduled.
func (m *Machine) nextCall(w *work) {
	s := m.sub(w).Retry
	if s == nil {
		m.callModel(w)
		return
	}
	w.turns++
	w.tries = tries{rounds: s.Rounds, unhinted: s.RoundsWithoutDelay, waited: time.Duration(s.WaitedMs) * time.Millisecond}
	w.repeated = s.Rounds
	if s.Until > m.now() {
		w.phase, w.until = phaseWaiting, s.Until
		return
	}
	m.startCall(w)
}

func (m *Machine) callDue() {
	for _, w := range slices.Collect(m.allWork()) {
		if w.phase == phaseWaiting && w.until <= m.now() {
			m.startCall(w)
		}
	}
}

// retryPause returns the exponential backoff with jitter of up to half, so that callers of a recovered
// vendor do not return together.
func (m *Machine) retryPause(times int) time.Duration {
	pause := m.cfg.RetryPause << min(times, maxDoublings)
	return pause - pause*time.Duration(m.env.Seed[0])/512
}
