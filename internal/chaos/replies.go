package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/outbox"
)

// officeName is the target of all that is posted: an office that outlives the nodes.
const officeName = "office"

// outbox returns where a node posts: to nobody, but in schedules of posts.
func (w *world) outbox(l *link) outbox.Routes {
	if w.Profile != Posts {
		return outbox.Routes{}
	}
	return outbox.Routes{Targets: map[string]outbox.Target{officeName: outbox.Func(func(ctx context.Context, p outbox.Post) error {
		return w.receive(ctx, l, p)
	})}}
}

// receive takes a post, or fails: before it has it, or after.
func (w *world) receive(ctx context.Context, l *link, p outbox.Post) error {
	d := schedule.Draw(w.Seed, "post", p.ID, p.Attempt)
	if err := schedule.Sleep(ctx, schedule.Between(d, time.Millisecond, 800*time.Millisecond)); err != nil {
		return err
	}
	fails := p.Attempt < 3 && d%4 == 0
	if l.dead.Load() {
		return errDead
	}
	if fails {
		w.trace.Did("attempt to post failed")
		if d%8 == 0 {
			return errors.New("the office is closed")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.Body = bytes.Clone(p.Body)
	w.posts = append(w.posts, p)
	if fails {
		return errors.New("the office did not answer")
	}
	return nil
}

// checkPosts checks that all that a log says is posted has come, in order, and nothing else, and that
// every settlement was told.
func (w *world) checkPosts(log *knownLog) {
	var got, want []conversation.PostID
	said := map[conversation.PostID]string{}
	for _, p := range w.posts {
		old, again := said[p.ID]
		said[p.ID] = string(p.Body)
		switch {
		case p.From != log.at:
		case !again:
			got = append(got, p.ID)
		case old != string(p.Body):
			w.trace.Violate(officeName, "%s said %s, and now says %s", p.ID, old, p.Body)
		default:
			w.trace.Did("posted again")
		}
	}
	told := map[conversation.SubmissionID]bool{}
	for _, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			_, told[r.Submission] = r.Delivery.Awaited() // Nobody is told of a signal.
		case *conversation.PostEnqueued:
			want = append(want, r.Post)
			told[r.Submission] = told[r.Submission] || r.Call == ""
		case *conversation.PostDone:
			w.trace.Did("posted")
			if _, ok := said[r.Post]; !ok || r.End != conversation.PostDelivered {
				w.trace.Violate(log.at.ID, "%s is said to be %s, and the office has it: %v", r.Post, r.End, ok)
			}
		}
	}
	for id := range log.settled {
		w.trace.ViolateIf(!told[id], log.at.ID, "nobody is told of the settlement of %s", id)
	}
	for _, p := range log.state.Posts() {
		w.trace.Violate(log.at.ID, "%s is not delivered", p.ID)
	}
	w.trace.ViolateIf(!slices.Equal(got, want), log.at.ID, "the office got %v, the log has %v", got, want)
}

// checkWaits checks that every call has heard what its log says, and that what was acknowledged
// is heard, or kept.
func (w *world) checkWaits(log *knownLog) {
	bodies := map[conversation.SubmissionID]string{}
	heard := map[conversation.CallID]string{}
	decided := map[string]bool{}
	asked := map[conversation.CallID]string{}
	first := map[string]conversation.SubmissionID{}   // the signal for a name
	places := map[conversation.SubmissionID][]int64{} // where a log says what has become of it
	take := func(off int64, name string, id conversation.SubmissionID) {
		if old, ok := first[name]; ok && old != id {
			w.trace.Violate(log.at.ID, "batch %d takes %s for %s, which %s has decided", off, id, name, old)
		}
		first[name], decided[name] = id, true
		places[id] = append(places[id], off)
	}
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			bodies[r.Submission] = r.Delivery.Body
		case *conversation.SignalKept:
			w.trace.Did("signal kept")
			take(off, r.Name, r.Submission)
		case *conversation.WaitEnded:
			w.trace.Did("wait ended by " + string(r.Reason))
			value, said := unheard, bodies[r.Signal]
			if r.Signal != "" {
				take(off, r.Name, r.Signal)
			}
			if text, _, ok := toldOf(r); ok {
				value = text
			} else if r.Reason == conversation.EndedBySignal && (json.Unmarshal(r.Value, &value) != nil || value != said) {
				w.trace.Violate(log.at.ID, "batch %d ends the wait for %s with %s, the signal said %q", off, r.Name, r.Value, said)
			}
			heard[r.Call], decided[r.Name] = value, true
		case *conversation.WaitStarted:
			asked[r.Call] = r.Name
		case *conversation.ToolSettled:
			decided[asked[r.Call]] = true // also by an abort
			var got string
			if want, ok := heard[r.Call]; ok && !r.Failed && (json.Unmarshal(r.Output, &got) != nil || got != want) {
				w.trace.Violate(log.at.ID, "batch %d: call %s returns %s, it has heard %q", off, r.Call, r.Output, want)
			}
		}
	}
	now := conversation.TimeOf(time.Now())
	for name := range decided {
		w.trace.ViolateIf(log.state.Awaiting(name) != nil && log.state.Kept(name, now) != nil,
			log.at.ID, "somebody waits for %s, and a signal is kept for it", name)
	}
	for _, name := range w.tooLate[log.at] {
		w.trace.ViolateIf(!decided[name], log.at.ID, "a signal for %s was refused as late, and nothing has decided it", name)
	}
	for _, a := range w.acks {
		off := int64(a.receipt.Offset)
		_, signal := a.Delivery.Awaited()
		w.trace.ViolateIf(signal && a.Address == log.at && !slices.Contains(places[a.receipt.SubmissionID], off),
			a.Key, "was acknowledged at %d, and is neither heard nor kept", off)
	}
}

// untold names a reply that is there, and not told, "" if there is none; but for those to who is set
// aside.
func untold(s *conversation.State, aside []conversation.Key) conversation.SubmissionID {
	for _, o := range s.PendingReplies() {
		if o.Reply != nil && !slices.Contains(aside, o.To.Address.Key()) {
			return o.Submission
		}
	}
	return ""
}

// blocked counts the conversations that cannot come to rest: who waits for a reply of theirs is set
// aside.
func (w *world) blocked(ctx context.Context, aside []conversation.Key) (n int) {
	all := w.begun(ctx)
	for _, at := range w.addresses {
		all = append(all, begunRun{w.log(ctx, at), true})
	}
	for _, b := range all {
		if untold(b.state, nil) != untold(b.state, aside) {
			n++
		}
	}
	return n
}

// checkAsks checks that each reply is what its submission has come to, and that nobody waits for one
// that is there.
func (w *world) checkAsks(ctx context.Context) {
	outcomes := map[conversation.SubmissionID]conversation.Outcome{}
	asked := map[conversation.CallID]conversation.SubmissionID{}
	for _, at := range w.addresses {
		log := w.log(ctx, at)
		for _, r := range each[*conversation.SubmissionAdmitted](log) {
			outcomes[r.Submission] = log.settled[r.Submission].Outcome
			if call, _, ok := strings.Cut(r.Key, "/ask/"); ok { // The key of a question has the call in front.
				asked[conversation.CallID(call)] = r.Submission
			}
		}
	}
	for _, at := range w.addresses {
		log := w.log(ctx, at)
		if id := untold(log.state, nil); id != "" {
			w.trace.Violate(log.at.ID, "the reply to %s is there, and nobody was told", id)
		}
		for _, r := range each[*conversation.WaitStarted](log) {
			id := asked[r.Call]
			w.trace.ViolateIf(strings.HasPrefix(r.Name, replyName) && outcomes[id] != "" && log.state.Awaiting(r.Name) != nil,
				log.at.ID, "call %s waits for the reply to %s, which is settled", r.Call, id)
		}
		for _, r := range each[*conversation.WaitEnded](log) {
			if _, told, ok := toldOf(r); ok && strings.HasPrefix(r.Name, replyName) {
				w.trace.Did("reply heard")
				w.trace.ViolateIf(told.Submission != asked[r.Call] || told.Outcome != outcomes[told.Submission],
					log.at.ID, "call %s has heard %s, the submission has come to %s", r.Call, r.Value, outcomes[told.Submission])
			}
		}
	}
}

// begunRun is the log of a run that somebody has wanted to start. It is sure once who starts it has a record of its receipt:
// until then an abort may leave it to nobody.
type begunRun struct {
	*knownLog
	sure bool
}

// begun are the runs that logs say were to be started, and those that they have started.
func (w *world) begun(ctx context.Context) (out []begunRun) {
	var add func(log *knownLog)
	add = func(log *knownLog) {
		sure := map[string]bool{}
		for _, s := range each[*conversation.StepRecorded](log) {
			sure[string(s.Call)+" "+s.Name] = true
		}
		for _, s := range each[*conversation.WaitStarted](log) {
			if strings.HasPrefix(s.Name, runName) {
				call := string(s.Call) + " " + s.Name
				below := w.log(ctx, conversation.RunAddress(conversation.RunFor(jobName, log.at.ID+" "+call)))
				out = append(out, begunRun{below, sure[call+" asked"]})
				add(below)
			}
		}
	}
	for _, at := range w.addresses {
		if w.Profile == Runs {
			add(w.log(ctx, at))
		}
	}
	return out
}

// pendingRuns says what is still to be done for runs, "" if nothing is.
func (w *world) pendingRuns(ctx context.Context, aside []conversation.Key) string {
	for _, b := range w.begun(ctx) {
		if run := b.state.Run(); b.sure && (run == nil || run.Outcome == "") {
			return fmt.Sprintf("the run %s has not ended", b.at.ID)
		}
		if id := untold(b.state, aside); b.sure && id != "" {
			return fmt.Sprintf("nobody was told of the run %s", b.at.ID)
		}
	}
	return ""
}

// checkRuns checks that each run has come to what its log says of its steps, each recorded once, and that who started it has
// heard that.
func (w *world) checkRuns(ctx context.Context) {
	for _, b := range w.begun(ctx) {
		run := b.state.Run()
		switch {
		case b.err != nil:
			w.trace.Violate(b.at.ID, "the log of the run cannot be read: %v", b.err)
		case run != nil && run.Outcome != "":
			w.trace.Did("run " + string(run.Outcome))
			w.checkRun(b.knownLog, run)
		case b.sure:
			w.trace.Violate(b.at.ID, "the run has not ended")
		}
	}
}

func (w *world) checkRun(log *knownLog, run *conversation.Run) {
	var in job
	if err := json.Unmarshal(run.Input, &in); err != nil {
		w.trace.Violate(log.at.ID, "the run was given %s", run.Input)
	}
	want, settled := in.For, log.settled[run.Submission].times
	steps, heard := map[string]bool{}, map[string]string{}
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.StepRecorded:
			w.trace.ViolateIf(steps[r.Name], log.at.ID, "the step %s is recorded again at %d", r.Name, off)
			steps[r.Name] = true
			if strings.HasPrefix(r.Name, "step ") {
				want += " " + string(r.Output)
			}
		case *conversation.WaitEnded:
			heard[r.Name], _, _ = toldOf(r)
		}
	}
	for n := range in.Below {
		want += " (" + heard[fmt.Sprint(runName, n)] + ")"
	}
	var got string
	switch {
	case settled != 1:
		w.trace.Violate(log.at.ID, "the run is settled %d times", settled)
	case w.jobFails(in.For) != (run.Outcome == conversation.OutcomeFailed && run.Error.Message == jobFails):
		w.trace.Violate(log.at.ID, "the run has come to %s, %+v", run.Outcome, run.Error)
	case run.Outcome == conversation.OutcomeCompleted && (json.Unmarshal(run.Output, &got) != nil || got != want):
		w.trace.Violate(log.at.ID, "the run returned %s, its log makes %q", run.Output, want)
	}
}
