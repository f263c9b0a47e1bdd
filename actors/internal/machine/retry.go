package machine

import (
	"fmt"
	"maps"
	"slices"
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
// context shortened; otherwise the run fails. What a repeated call has said already
// is withdrawn.
func (m *Machine) modelFailed(r *run, name string, e ModelEvent) {
	switch {
	case e.TooManyCalls:
		m.openResponse(r, name)
		m.tooManyCalls(r)
	case e.Overflow && !r.compacted:
		m.withdraw(r, e)
		m.compactRun(r, e.Err)
	case m.leaveOut(r, e):
	case e.Unasked:
		m.repeat(r, e, min(m.retryPause(r.tries.unasked), maxUnasked))
		r.tries.unasked++
	default:
		m.tryOn(r, name, e)
	}
}

// tryOn goes on after a model has failed: with the next one at once, or after a pause
// with all of them that may do better then.
func (m *Machine) tryOn(r *run, name string, e ModelEvent) {
	r.bare.forget()
	t := &r.tries
	if e.Retry {
		t.failed = append(t.failed, name)
		if e.RetryAfter > 0 && (t.hint == 0 || e.RetryAfter < t.hint) {
			t.hint = e.RetryAfter
		}
	} else {
		r.lost = append(r.lost, name)
	}
	if e.Fallback {
		m.withdraw(r, e)
		r.repeated++
		m.startCall(r)
		return
	}
	pause, ok := m.roundOver(r)
	switch {
	case !ok:
		m.callLost(r, name, e)
	case pause > longPause && m.allRead(conversation.TypeRetryScheduled):
		m.schedule(r, name, e, pause)
	default:
		m.repeat(r, e, pause)
	}
}

// roundOver returns how long to wait until the next round of asking, and whether there is
// one. A vendor that says when to come back is waited for as long as the agent has
// patience, any other a few times.
func (m *Machine) roundOver(r *run) (pause time.Duration, again bool) {
	t := &r.tries
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

// callLost ends a run whose model call is not repeated.
func (m *Machine) callLost(r *run, name string, e ModelEvent) {
	if r.opened {
		m.completeStep(r, ModelEvent{StopReason: stopError})
	} else {
		r.unheard = &conversation.FailedCall{Turn: r.turn, Model: name, Facts: r.facts, DurationMs: m.askedMs(r), Retries: r.repeated}
	}
	m.skip(r, m.sub(r).OpenCalls(), toolNotStarted)
	err := *e.Err
	if e.RetryAfter > 0 {
		err.Meta = maps.Clone(err.Meta)
		if err.Meta == nil {
			err.Meta = map[string]any{}
		}
		err.Meta["retryAfterMs"] = e.RetryAfter.Milliseconds()
	}
	m.fail(r, &err)
}

// repeat makes a model call again after a pause.
func (m *Machine) repeat(r *run, e ModelEvent, after time.Duration) {
	m.withdraw(r, e)
	r.phase = phaseRetry
	r.repeated++
	m.emit(SetTimer{Timer: TimerRetry, Gen: r.gen, After: after})
}

// schedule makes a model call again after a pause in which nothing need run: if nothing
// else does, the attempt is put away like that of a call which waits for a time.
func (m *Machine) schedule(r *run, name string, e ModelEvent, after time.Duration) {
	m.withdraw(r, e)
	r.phase, r.until = phaseWaiting, m.now()+conversation.Time((after+time.Millisecond-1)/time.Millisecond)
	m.enqueue(true, &conversation.RetryScheduled{
		Must: true, Submission: r.submission, Child: r.child, Model: name, Reason: reasonOf(e.Err), Until: r.until,
		Rounds: r.tries.rounds, Blind: r.tries.blind, WaitedMs: r.tries.waited.Milliseconds(), At: m.env.Wall,
	}, &conversation.Advisory{
		Message: conversation.MessageID(m.ids.next("msg_")), Submission: m.run.submission, Display: conversation.DisplayDiagnostic,
		Text: fmt.Sprintf(sayAskedLater, name, r.until),
		Attributes: map[string]string{
			"submissionId": string(m.run.submission), "reason": reasonOf(e.Err), "until": r.until.String(),
		},
	})
}

// nextCall asks for the next model call of a run that begins, or goes on to wait for one
// that an earlier attempt has scheduled.
func (m *Machine) nextCall(r *run) {
	s := m.sub(r).Retry
	if s == nil {
		m.callModel(r)
		return
	}
	r.step++
	r.tries = tries{rounds: s.Rounds, blind: s.Blind, waited: time.Duration(s.WaitedMs) * time.Millisecond}
	r.repeated = s.Rounds
	if s.Until > m.now() {
		r.phase, r.until = phaseWaiting, s.Until
		return
	}
	m.startCall(r)
}

// callDue makes the scheduled calls whose time has come while others still run.
func (m *Machine) callDue() {
	for _, r := range slices.Collect(m.runs()) {
		if r.phase == phaseWaiting && r.until <= m.now() {
			m.startCall(r)
		}
	}
}

// retryPause doubles with every repetition and is shortened by up to half, so that
// the callers of a vendor that was down do not come back together.
func (m *Machine) retryPause(times int) time.Duration {
	pause := m.cfg.RetryPause << min(times, maxDoublings)
	return pause - pause*time.Duration(m.env.Seed[0])/512
}
