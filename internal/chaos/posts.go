package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/outbox"
)

// officeName is the target of all that is posted.
const officeName = "office"

// office is who gets the posts of a world, which outlives its nodes.
type office struct {
	mu    sync.Mutex
	first map[conversation.Address][]conversation.PostID // in the order in which they came first
	got   map[conversation.PostID]string                 // what was said
}

// outbox returns where a node posts: to nobody, but in schedules of posts.
func (w *world) outbox(l *link) outbox.Routes {
	if w.profile != Posts {
		return outbox.Routes{}
	}
	return outbox.Routes{Targets: map[string]outbox.Target{officeName: outbox.Func(func(ctx context.Context, p outbox.Post) error {
		return w.receive(ctx, l, p)
	})}}
}

// notified are the targets that are told of settlements.
func (p Profile) notified() []string {
	if p != Posts {
		return nil
	}
	return []string{officeName}
}

// receive takes a post, or fails: before it has it, or after.
func (w *world) receive(ctx context.Context, l *link, p outbox.Post) error {
	d := schedule.Draw(w.seed, "post", p.ID, p.Attempt)
	if err := schedule.Sleep(ctx, schedule.Between(d, time.Millisecond, 800*time.Millisecond)); err != nil {
		return err
	}
	fails := p.Attempt < 3 && d%4 == 0
	switch {
	case l.isDead():
		return errors.New("the process is gone")
	case fails && d%8 == 0:
		w.shown.Add(didPostFail)
		return errors.New("the office is closed")
	}
	w.office.take(w, p)
	if fails {
		w.shown.Add(didPostFail)
		return errors.New("the office did not answer")
	}
	return nil
}

func (o *office) take(w *world, p outbox.Post) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.got == nil {
		o.first, o.got = map[conversation.Address][]conversation.PostID{}, map[conversation.PostID]string{}
	}
	said, again := o.got[p.ID]
	switch {
	case !again:
		o.first[p.From] = append(o.first[p.From], p.ID)
		o.got[p.ID] = string(p.Body)
	case said != string(p.Body):
		w.trace.Violate(officeName, "%s said %s, and now says %s", p.ID, said, p.Body)
	default:
		w.shown.Add(didPostAgain)
	}
}

// post posts what a call has heard, in schedules of posts.
func (a *author) post(ctx context.Context, heard string) error {
	if a.world.profile != Posts {
		return nil
	}
	for n := range 2 {
		if _, err := agent.Post(ctx, agent.Outgoing{Target: officeName, Body: fmt.Sprint(heard, " ", n)}); err != nil {
			return err
		}
	}
	return nil
}

// unposted names a post that is not done, "" if there is none.
func unposted(s *conversation.State) conversation.PostID {
	for _, p := range s.Posts() {
		return p.ID
	}
	return ""
}

// checkPosts checks that all that a log says is posted has come, in order, and nothing else, and that
// every settlement was told.
func (w *world) checkPosts(at conversation.Address, log *knownLog) {
	if w.profile != Posts {
		return
	}
	var want []conversation.PostID
	told, settled, direct := map[conversation.SubmissionID]bool{}, []conversation.SubmissionID{}, map[conversation.SubmissionID]bool{}
	for _, b := range log.batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.PostEnqueued:
				want = append(want, r.Post)
				told[r.Submission] = told[r.Submission] || r.Call == ""
			case *conversation.PostDone:
				w.shown.Add(didPost)
				if _, ok := w.office.got[r.Post]; !ok || r.End != conversation.PostDelivered {
					w.trace.Violate(at.ID, "%s is said to be %s, and the office has it: %v", r.Post, r.End, ok)
				}
			case *conversation.SubmissionAdmitted:
				_, signal := r.Delivery.Awaited()
				direct[r.Submission] = !signal
			case *conversation.SubmissionSettled:
				if direct[r.Submission] {
					settled = append(settled, r.Submission)
				}
			}
		}
	}
	for _, id := range settled {
		if !told[id] {
			w.trace.Violate(at.ID, "nobody is told of the settlement of %s", id)
		}
	}
	if id := unposted(log.state); id != "" {
		w.trace.Violate(at.ID, "%s is not delivered", id)
	}
	if got := w.office.first[at]; fmt.Sprint(got) != fmt.Sprint(want) {
		w.trace.Violate(at.ID, "the office got %v, the log has %v", got, want)
	}
}

func wantedOfPosts() map[schedule.Deed]int {
	out := wantedOfWaits()
	for deed := range out {
		out[deed] /= 2
	}
	out[didPost], out[didPostFail], out[didPostAgain] = 3000, 500, 200
	return out
}
