package machine_test

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func (w *world) clock() conversation.Time { return w.wall + w.skew }

func (w *world) suspend(i int) {
	c := w.tools[i]
	w.tools = slices.Delete(w.tools, i, i+1)
	in := machine.ToolSuspended{Gen: c.Gen, Call: c.Call, Until: w.clock() + conversation.Time(w.r.IntN(40_000))}
	w.note("suspended %s until %s", c.Call, in.Until)
	w.do(in)
}

// found reports whether all pending work waits for stored timers.
func (w *world) found() bool {
	if w.replyIsPending() || !w.postsFound() {
		return false
	}
	held := false
	for _, sub := range w.durable.Unsettled() {
		_, timed := w.storedTimers[sub.SuspendedAt]
		switch {
		case sub.Suspended != nil && (sub.Due || !timed):
			return false
		case sub.Suspended == nil && (sub.Began || !held):
			return false
		}
		held = held || w.holds(sub)
	}
	return true
}

// holds reports whether a suspended submission delays later ones.
func (w *world) holds(sub *conversation.Submission) bool {
	return sub.Retry != nil || w.limits.AnswerInOrder
}

// passes reports whether the submission under way overtook a suspended one.
func (w *world) passes() bool {
	sub := w.m.State().UnderWay()
	return sub != nil && sub.Ahead && w.m.State().Unsettled()[0].Suspended != nil
}

// resumeOvertaken advances to the time of an overtaken submission.
func (w *world) resumeOvertaken() {
	for _, sub := range w.m.State().Unsettled() {
		if sub.Suspended != nil && sub.Suspended.Until > w.clock() {
			w.elapse(time.Duration(sub.Suspended.Until-w.clock()) * time.Millisecond)
			return
		}
	}
}

// suspendedAt returns the submission that a durable batch suspended, nil if it has resumed.
func (w *world) suspendedAt(at conversation.Offset) *conversation.Submission {
	queue := w.durable.Unsettled()
	i := slices.IndexFunc(queue, func(sub *conversation.Submission) bool { return sub.Suspended != nil && sub.SuspendedAt == at })
	if i < 0 {
		return nil
	}
	return queue[i]
}

// checkResumed checks that nothing in a batch resumes early.
func (w *world) checkResumed(b conversation.Batch) {
	until := map[conversation.SubmissionID]conversation.Time{}
	for _, sub := range w.ahead.Unsettled() {
		if sub.Suspended != nil && !sub.Due {
			until[sub.ID] = sub.Suspended.Until
		}
	}
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.Suspended:
			until[r.Submission] = r.Until
		case *conversation.WaitEnded: // the suspended submission waited for it
			if len(until) > 0 {
				w.seen["resumed by signal"]++
				if !w.listed {
					violate("batch %d resumes an unlisted submission", int64(b.Offset))
				}
			}
			clear(until)
		case *conversation.AttemptStarted:
			if until[r.Submission] > w.clock() {
				violate("%s resumes at %s, want not before %s", r.Submission, w.clock(), until[r.Submission])
			}
			if _, ok := until[r.Submission]; ok {
				w.seen["resumed by timer"]++
			}
		}
	}
}

func (w *world) storeTimer(e machine.StoreTimer) {
	until, posts := w.deferredUntil(e.At)
	if sub := w.suspendedAt(e.At); (sub == nil || sub.Suspended.Until != e.Until) && !(posts && until == e.Until) {
		violate("timer %+v before its record is durable", e)
	}
	w.storing = append(w.storing, e)
}

func (w *world) stored() {
	e := w.storing[0]
	w.storing = w.storing[1:]
	w.note("timer of %d is stored", int64(e.At))
	w.seen["timer stored"]++
	if _, ok := w.storedTimers[e.At]; ok {
		w.seen["timer there"]++
	}
	w.storedTimers[e.At] = e.Until
	w.do(machine.TimerStored{Timer: e})
}

// askTimer checks a timer, due or not, or one that was never stored.
func (w *world) askTimer() {
	at := conversation.Offset(w.r.IntN(len(w.log) + 2))
	if offsets := w.timersStored(); len(offsets) > 0 && w.chance(80) {
		at = offsets[w.r.IntN(len(offsets))]
	}
	w.checkTimer(at)
}

func (w *world) timersStored() (at []conversation.Offset) {
	for offset := range w.storedTimers {
		at = append(at, offset)
	}
	slices.Sort(at)
	return at
}

func (w *world) checkTimer(at conversation.Offset) {
	w.caller++
	in := machine.CheckTimer{To: w.caller, At: at}
	w.callers[in.To] = in
	w.note("check timer %d at=%d", in.To, int64(at))
	w.do(in)
}

// timerChecked deletes an obsolete timer and checks that the remaining work is found without it.
func (w *world) timerChecked(asked machine.CheckTimer, v machine.TimerChecked) {
	if v.Unknown {
		return
	}
	still := w.suspendedAt(asked.At)
	if v.Early {
		if until, posts := w.deferredUntil(asked.At); posts && until > w.clock() {
			return
		}
		if still == nil || still.Suspended.Until <= w.clock() && w.ahead.UnderWay() == nil {
			violate("got early for a due or obsolete timer: %+v", asked)
		}
		return
	}
	delete(w.storedTimers, asked.At)
	if still != nil || !w.found() && !(w.listed && w.claimed()) {
		violate("timer %+v is obsolete, but nothing else resumes %+v", asked, w.durable.Unsettled())
	}
}

// dueTimer advances to the first timer of the bucket, checks it as every node does each minute, and
// reports whether there was one.
func (w *world) dueTimer() bool {
	offsets := w.timersStored()
	if len(offsets) == 0 {
		return false
	}
	w.seen["timer due"]++
	first := slices.MinFunc(offsets, func(a, b conversation.Offset) int { return int(w.storedTimers[a] - w.storedTimers[b]) })
	if !w.booted {
		if _, _, posts := w.durable.PostsDue(); (posts || len(w.durable.Unsettled()) > 0) && len(w.journal) == 0 {
			w.seen["listed by a timer alone"]++
		}
		w.begin()
	}
	w.elapse(time.Duration(max(1000, w.storedTimers[first]-w.wall)) * time.Millisecond)
	w.checkTimer(first)
	return true
}
