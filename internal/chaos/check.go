package chaos

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// settle ends all faults, restarts some crashed nodes, lets time pass without clients, and checks that
// no work is left.
func (w *world) settle(ctx context.Context) {
	w.trace.Add("", "faults and clients end")
	for slot := range slots {
		w.apart("resume", slot)
		w.pause(slot, false)
	}
	w.apart("heal")
	w.net.heal()
	rng := w.rng("revive")
	for slot := range slots { // Until at least one runs; others may stay down.
		if w.at(slot).gone.Load() && (rng.IntN(2) == 0 || w.pick(slot) == nil) {
			w.restart(slot)
		}
	}
	w.oneView.Store(true)
	w.quiesce(ctx)
	w.repairDeadly(ctx)
	w.quiesce(ctx)
	w.deaths.Wait()
	for _, at := range w.addresses {
		if w.Profile != Journals {
			w.askAgain(ctx, at)
		}
	}
	if w.Profile != Journals {
		w.quiesce(ctx) // A wait may have ended, and the submission that continued may have posted.
	}
	for _, r := range w.readers { // one for each conversation
		if log := w.log(ctx, r.at); log.state.Exists() {
			r.finish(ctx, w.pick(r.rng.IntN(slots)), log.state.Head())
		}
	}
}

func (w *world) quiesce(ctx context.Context) {
	pending := ""
	for range quietPeriods {
		time.Sleep(w.SweepEvery)
		for slot := range slots {
			if m := w.at(slot); closed(m.done) && !m.gone.Load() { // A node may abandon its start while the bucket does not answer.
				w.crash(slot)
				w.restart(slot)
			}
		}
		if pending = w.pendingWork(ctx); pending == "" {
			return
		}
	}
	w.trace.Violate("", "after %d sweep periods without faults: %s", quietPeriods, pending)
}

// pendingWork describes the work still to be done, "" if there is none.
func (w *world) pendingWork(ctx context.Context) string {
	live, quarantined := map[string]bool{}, w.quarantined(ctx)
	blocked := w.blocked(ctx, quarantined)
	for slot := range slots {
		m := w.at(slot)
		if m.gone.Load() {
			continue
		}
		live[m.id] = true
		if !closed(m.node.Ready()) {
			return m.id + " has not started yet"
		}
		if listed, active := m.node.Pending(); listed > blocked || active > blocked {
			return fmt.Sprintf("%s lists %d conversations and holds %d", m.id, listed, active)
		}
	}
	refs, err := storage.Journals(ctx, w.Store)
	if err != nil {
		return err.Error()
	}
	for _, ref := range refs {
		if !live[ref.Member] {
			return fmt.Sprintf("journals %v of a crashed node are left", ref.Keys)
		}
	}
	for _, at := range w.addresses {
		state := w.log(ctx, at).state
		if slices.Contains(quarantined, at.Key()) {
			continue // Work is pending, and no node may open the conversation.
		}
		for _, p := range state.Posts() {
			return fmt.Sprintf("%s is not delivered", p.ID)
		}
		if id := unsentReply(state, quarantined); id != "" {
			return fmt.Sprintf("the reply to %s was not sent", id)
		}
		for _, a := range w.acks {
			if sub := state.Lookup(a.Key); a.Address == at && sub != nil && !sub.Settled && !staysSuspended(sub) {
				return fmt.Sprintf("%s of %s was acknowledged at %d and is not settled", a.Key, at.ID, int64(a.receipt.Offset))
			}
		}
	}
	return w.pendingRuns(ctx, quarantined)
}

// staysSuspended reports whether a submission is suspended on a wait that outlasts the schedule.
func staysSuspended(sub *conversation.Submission) bool {
	return !sub.Settled && sub.Suspended != nil && !sub.Due && sub.Suspended.Until-sub.Suspended.At > conversation.Time(shortWait/time.Millisecond)
}

// knownLog is a log as read so far by the checker, without faults.
type knownLog struct {
	at      conversation.Address
	tail    storage.Position
	state   *conversation.State
	batches []conversation.Batch
	settled map[conversation.SubmissionID]settlement
	err     error
}

// settlement is a settlement record, its offset, and how many there are.
type settlement struct {
	conversation.SubmissionSettled
	at    int64
	times int
}

func newLog(at conversation.Address) *knownLog {
	return &knownLog{at: at, tail: storage.Start(), state: conversation.NewState(), settled: map[conversation.SubmissionID]settlement{}}
}

func (w *world) log(ctx context.Context, at conversation.Address) *knownLog {
	l := w.known[at]
	if l == nil {
		l = newLog(at)
		w.known[at] = l
	}
	for b, err := range w.logs.Batches(ctx, at.Key(), l.tail) {
		var records []conversation.Record
		if err == nil {
			records, err = conversation.DecodeRecords(b.Lines)
		}
		if err == nil {
			l.tail = b.Position()
			err = l.add(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
		}
		if err != nil {
			l.err = err
			break
		}
	}
	return l
}

func (l *knownLog) add(b conversation.Batch) error {
	l.batches = append(l.batches, b)
	for _, r := range b.Records {
		if r, ok := r.(*conversation.SubmissionSettled); ok {
			l.settled[r.Submission] = settlement{*r, int64(b.Offset), l.settled[r.Submission].times + 1}
		}
	}
	return l.state.Apply(b)
}

// each iterates over the records of one type, with the offset of their batch.
func each[R conversation.Record](l *knownLog) iter.Seq2[int64, R] {
	return func(yield func(int64, R) bool) {
		for _, b := range l.batches {
			for _, r := range b.Records {
				if r, ok := r.(R); ok && !yield(int64(b.Offset), r) {
					return
				}
			}
		}
	}
}

// check compares the final logs with all receipts and reads.
func (w *world) check(ctx context.Context) {
	for _, at := range w.addresses {
		log := w.log(ctx, at)
		if log.err != nil {
			w.trace.Violate(log.at.ID, "read final log: %v", log.err)
			continue
		}
		w.checkLog(log)
		for _, r := range w.readers {
			if r.at == log.at && r.doc != nil {
				r.check(log)
			}
		}
	}
	w.checkAsks(ctx)
	w.checkRuns(ctx)
	if w.Profile == Trees {
		w.checkTrees()
	}
}

func (w *world) checkLog(log *knownLog) {
	keys := map[string]bool{}
	for _, r := range each[*conversation.SubmissionAdmitted](log) {
		w.trace.ViolateIf(keys[r.Key], log.at.ID, "%s is admitted again", r.Key)
		keys[r.Key] = true
	}
	for _, a := range w.acks {
		if a.Address == log.at {
			w.checkAck(a, log)
		}
	}
	w.checkSettled(log)
	w.checkWork(log)
	w.checkWaits(log)
	if w.Profile == Posts {
		w.checkPosts(log)
	}
}

func (w *world) checkAck(a ack, log *knownLog) {
	off := a.receipt.Offset
	if off < 0 || int64(off) >= int64(len(log.batches)) {
		w.trace.Violate(a.Key, "acknowledged at %d, the log ends at %d", int64(off), len(log.batches)-1)
		return
	}
	found, created := false, false
	for _, r := range log.batches[off].Records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			if r.Key == a.Key {
				recorded := post{Admission: conversation.Admission{Delivery: r.Delivery}}
				found = r.Submission == a.receipt.SubmissionID && recorded.hash() == a.hash()
			}
		case *conversation.ConversationCreated:
			created = true
		}
	}
	id := a.receipt.SubmissionID
	switch {
	case !found:
		w.trace.Violate(a.Key, "acknowledged at %d as %s, but batch %d does not admit it", int64(off), id, int64(off))
	case log.settled[id].times == 0 && log.state.Submission(id) != nil && staysSuspended(log.state.Submission(id)):
		w.trace.Did("suspended at the end")
	case log.settled[id].times != 1:
		w.trace.Violate(a.Key, "%s was acknowledged and settled %d times", id, log.settled[id].times)
	case a.Condition.Absent && !created:
		w.trace.Violate(a.Key, "%s did not create the conversation", id)
	case a.receipt.UID != log.state.Created().UID || a.Condition.Set && a.Condition.UID != a.receipt.UID:
		w.trace.Violate(a.Key, "%s was for %q, acknowledged by %q, and is in %q", id, a.Condition.UID, a.receipt.UID, log.state.Created().UID)
	}
}

// closes reports whether an abort ends submissions of trees that were already closed.
func (w *world) closes(log *knownLog, off int64, r *conversation.AbortRequested) bool {
	for _, id := range r.Submissions {
		sub := log.state.Submission(id)
		if sub == nil || sub.Tree == nil || w.known[sub.Tree.Root] == nil {
			return false
		}
		at := w.closed(w.known[sub.Tree.Root], sub.Tree.Submission)
		if at == 0 || at >= w.ledger.landedAt(log.at.Key(), off) {
			return false
		}
	}
	return len(r.Submissions) > 0 && !r.Trees
}

// checkSettled checks that each submission settles once, and that exactly those covered by an abort
// are aborted.
func (w *world) checkSettled(log *knownLog) {
	covered := map[conversation.SubmissionID]bool{}
	for off, r := range each[*conversation.AbortRequested](log) {
		w.trace.ViolateIf(!w.ledger.asked(log.at.Key(), off, r.Trees) && !w.closes(log, off, r), log.at.ID, "batch %d aborts %v without a request", off, r.Submissions)
		for _, id := range r.Submissions {
			covered[id] = true
			if s := log.settled[id]; s.Outcome != conversation.OutcomeAborted || s.at != off {
				w.trace.Violate(log.at.ID, "batch %d aborts %s, but batch %d settles it as %q", off, id, s.at, s.Outcome)
			}
		}
	}
	for _, r := range each[*conversation.SubmissionSettled](log) {
		w.trace.Did("settled " + string(r.Outcome))
		switch {
		case log.settled[r.Submission].times > 1:
			w.trace.Violate(log.at.ID, "%s is settled %d times", r.Submission, log.settled[r.Submission].times)
		case r.Outcome == conversation.OutcomeAborted && !covered[r.Submission]:
			w.trace.Violate(log.at.ID, "%s is aborted, but no abort covers it", r.Submission)
		}
	}
	for range each[*conversation.StepDropped](log) {
		w.trace.Did("step dropped")
	}
}
