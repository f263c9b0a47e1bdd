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

// officeName is the target of all posts. The office outlives the nodes.
const officeName = "office"

// outbox returns the routes of a node's posts. Only the Posts profile has any.
func (w *world) outbox(l *link) outbox.Routes {
	if w.Profile != Posts {
		return outbox.Routes{}
	}
	return outbox.Routes{Targets: map[string]outbox.Target{officeName: outbox.Func(func(ctx context.Context, p outbox.Post) error {
		return w.receive(ctx, l, p)
	})}}
}

// receive takes a post. It may fail before or after it has recorded the post.
func (w *world) receive(ctx context.Context, l *link, p outbox.Post) error {
	d := schedule.Draw(w.Seed, "post", p.ID, p.Attempt)
	if err := schedule.Sleep(ctx, schedule.Between(d, time.Millisecond, 800*time.Millisecond)); err != nil {
		return err
	}
	fails := p.Attempt < 3 && d%4 == 0
	if l.killed.Load() {
		return errKilled
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

// checkPosts checks that the office has exactly the posts of the log, in order, and that every
// settlement was posted.
func (w *world) checkPosts(log *knownLog) {
	var got, want []conversation.PostID
	bodies := map[conversation.PostID]string{}
	for _, p := range w.posts {
		old, again := bodies[p.ID]
		bodies[p.ID] = string(p.Body)
		switch {
		case p.From != log.at:
		case !again:
			got = append(got, p.ID)
		case old != string(p.Body):
			w.trace.Violate(officeName, "post %s repeated with another body: first %s, then %s", p.ID, old, p.Body)
		default:
			w.trace.Did("posted again")
		}
	}
	posted := map[conversation.SubmissionID]bool{}
	for _, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			_, posted[r.Submission] = r.Delivery.Awaited() // Signals are not posted.
		case *conversation.PostEnqueued:
			want = append(want, r.Post)
			posted[r.Submission] = posted[r.Submission] || r.Call == ""
		case *conversation.PostDone:
			w.trace.Did("posted")
			if _, ok := bodies[r.Post]; !ok || r.End != conversation.PostDelivered {
				w.trace.Violate(log.at.ID, "log has post %s as %s, received: %v", r.Post, r.End, ok)
			}
		}
	}
	for id := range log.settled {
		w.trace.ViolateIf(!posted[id], log.at.ID, "settlement of %s was not posted", id)
	}
	for _, p := range log.state.Posts() {
		w.trace.Violate(log.at.ID, "%s is not delivered", p.ID)
	}
	w.trace.ViolateIf(!slices.Equal(got, want), log.at.ID, "office got %v, want %v as in the log", got, want)
}

// checkWaits checks that every call has returned the value in its log, and that every acknowledged
// signal was delivered or is kept.
func (w *world) checkWaits(log *knownLog) {
	bodies := map[conversation.SubmissionID]string{}
	received := map[conversation.CallID]string{}
	decided := map[string]bool{}
	asked := map[conversation.CallID]string{}
	first := map[string]conversation.SubmissionID{}   // the signal by name
	places := map[conversation.SubmissionID][]int64{} // offsets at which a signal is delivered or kept
	take := func(off int64, name string, id conversation.SubmissionID) {
		if old, ok := first[name]; ok && old != id {
			w.trace.Violate(log.at.ID, "batch %d uses signal %s for %s, already decided by %s", off, id, name, old)
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
			value, body := timedOut, bodies[r.Signal]
			if r.Signal != "" {
				take(off, r.Name, r.Signal)
			}
			if text, _, ok := replyOf(r); ok {
				value = text
			} else if r.Reason == conversation.EndedBySignal && (json.Unmarshal(r.Value, &value) != nil || value != body) {
				w.trace.Violate(log.at.ID, "batch %d ends the wait for %s with %s, want the signal's %q", off, r.Name, r.Value, body)
			}
			received[r.Call], decided[r.Name] = value, true
		case *conversation.WaitStarted:
			asked[r.Call] = r.Name
		case *conversation.ToolSettled:
			decided[asked[r.Call]] = true // also by an abort
			var got string
			if want, ok := received[r.Call]; ok && !r.Failed && (json.Unmarshal(r.Output, &got) != nil || got != want) {
				w.trace.Violate(log.at.ID, "batch %d: call %s returns %s, want %q", off, r.Call, r.Output, want)
			}
		}
	}
	now := conversation.TimeOf(time.Now())
	for name := range decided {
		w.trace.ViolateIf(log.state.Awaiting(name) != nil && log.state.Kept(name, now) != nil,
			log.at.ID, "a call waits for %s although a signal is kept for it", name)
	}
	for _, name := range w.tooLate[log.at] {
		w.trace.ViolateIf(!decided[name], log.at.ID, "a signal for %s was refused as late, but its wait is undecided", name)
	}
	for _, a := range w.acks {
		off := int64(a.receipt.Offset)
		_, signal := a.Delivery.Awaited()
		w.trace.ViolateIf(signal && a.Address == log.at && !slices.Contains(places[a.receipt.SubmissionID], off),
			a.Key, "signal acknowledged at %d is neither delivered nor kept", off)
	}
}

// unsentReply returns a reply that exists and was not sent, "" if there is none. Replies to quarantined
// conversations are ignored.
func unsentReply(s *conversation.State, quarantined []conversation.Key) conversation.SubmissionID {
	for _, o := range s.PendingReplies() {
		if o.Reply != nil && !slices.Contains(quarantined, o.To.Address.Key()) {
			return o.Submission
		}
	}
	return ""
}

// blocked counts the conversations that cannot become idle because a reply of theirs goes to a
// quarantined conversation.
func (w *world) blocked(ctx context.Context, quarantined []conversation.Key) (n int) {
	all := w.begun(ctx)
	for _, at := range w.addresses {
		all = append(all, begunRun{w.log(ctx, at), true})
	}
	for _, b := range all {
		if unsentReply(b.state, nil) != unsentReply(b.state, quarantined) {
			n++
		}
	}
	return n
}

// checkAsks checks that each reply equals the settlement of its submission, and that no call waits for
// a reply that exists.
func (w *world) checkAsks(ctx context.Context) {
	outcomes := map[conversation.SubmissionID]conversation.Outcome{}
	asked := map[conversation.CallID]conversation.SubmissionID{}
	for _, at := range w.addresses {
		log := w.log(ctx, at)
		for _, r := range each[*conversation.SubmissionAdmitted](log) {
			outcomes[r.Submission] = log.settled[r.Submission].Outcome
			if call, _, ok := strings.Cut(r.Key, "/ask/"); ok { // The key of a question begins with the call.
				asked[conversation.CallID(call)] = r.Submission
			}
		}
	}
	for _, at := range w.addresses {
		log := w.log(ctx, at)
		if id := unsentReply(log.state, nil); id != "" {
			w.trace.Violate(log.at.ID, "the reply to %s exists and was not sent", id)
		}
		for _, r := range each[*conversation.WaitStarted](log) {
			id := asked[r.Call]
			w.trace.ViolateIf(strings.HasPrefix(r.Name, replyName) && outcomes[id] != "" && log.state.Awaiting(r.Name) != nil,
				log.at.ID, "call %s waits for the reply to %s, which has settled", r.Call, id)
		}
		for _, r := range each[*conversation.WaitEnded](log) {
			if _, reply, ok := replyOf(r); ok && strings.HasPrefix(r.Name, replyName) {
				w.trace.Did("reply received")
				w.trace.ViolateIf(reply.Submission != asked[r.Call] || reply.Outcome != outcomes[reply.Submission],
					log.at.ID, "call %s got the reply %s, want outcome %s", r.Call, r.Value, outcomes[reply.Submission])
			}
		}
	}
}

// begunRun is the log of a run that a call wanted to start. It is sure once the caller has a record of
// the receipt; until then an abort may orphan it.
type begunRun struct {
	*knownLog
	sure bool
}

// begun returns the runs that logs want started, and their child runs.
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

// pendingRuns describes pending work of runs, "" if there is none.
func (w *world) pendingRuns(ctx context.Context, quarantined []conversation.Key) string {
	for _, b := range w.begun(ctx) {
		if run := b.state.Run(); b.sure && (run == nil || run.Outcome == "") {
			return fmt.Sprintf("the run %s has not ended", b.at.ID)
		}
		if id := unsentReply(b.state, quarantined); b.sure && id != "" {
			return fmt.Sprintf("the result of run %s was not sent", b.at.ID)
		}
	}
	return ""
}

// checkRuns checks that the result of each run follows from its recorded steps, each recorded once,
// and that its caller received it.
func (w *world) checkRuns(ctx context.Context) {
	for _, b := range w.begun(ctx) {
		run := b.state.Run()
		switch {
		case b.err != nil:
			w.trace.Violate(b.at.ID, "read log of run: %v", b.err)
		case run != nil && run.Outcome != "":
			w.trace.Did("run " + string(run.Outcome))
			w.checkRun(b.knownLog, run)
		case b.sure:
			w.trace.Violate(b.at.ID, "run has not ended")
		}
	}
}

func (w *world) checkRun(log *knownLog, run *conversation.Run) {
	var in job
	if err := json.Unmarshal(run.Input, &in); err != nil {
		w.trace.Violate(log.at.ID, "decode run input %s", run.Input)
	}
	want, settled := in.For, log.settled[run.Submission].times
	steps, received := map[string]bool{}, map[string]string{}
	for off, r := range each[conversation.Record](log) {
		switch r := r.(type) {
		case *conversation.StepRecorded:
			w.trace.ViolateIf(steps[r.Name], log.at.ID, "step %s is recorded again at %d", r.Name, off)
			steps[r.Name] = true
			if strings.HasPrefix(r.Name, "step ") {
				want += " " + string(r.Output)
			}
		case *conversation.WaitEnded:
			received[r.Name], _, _ = replyOf(r)
		}
	}
	for n := range in.Below {
		want += " (" + received[fmt.Sprint(runName, n)] + ")"
	}
	var got string
	switch {
	case settled != 1:
		w.trace.Violate(log.at.ID, "run is settled %d times", settled)
	case w.jobFails(in.For) != (run.Outcome == conversation.OutcomeFailed && run.Error.Message == jobFails):
		w.trace.Violate(log.at.ID, "run ended with unexpected %s, %+v", run.Outcome, run.Error)
	case run.Outcome == conversation.OutcomeCompleted && (json.Unmarshal(run.Output, &got) != nil || got != want):
		w.trace.Violate(log.at.ID, "run returned %s, want %q from its log", run.Output, want)
	}
}
