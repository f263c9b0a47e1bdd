package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// shop is a channel and the target that replies for it.
const shop = "shop"

// receivers receives the posts of a world.
type receivers struct {
	sending     []*conversation.Post      // under way
	burying     []machine.StoreDeadLetter // dead letters being stored
	got         map[conversation.PostID]bool
	deadLetters map[conversation.PostID]bool
	shop        bool // a channel delivers to the conversation
}

func addressOf(key string) string {
	return []string{"", "here", "there"}[int(key[len(key)-1])%3]
}

func (w *world) postTo(c *runningTool) {
	name := fmt.Sprintf("post%d", w.r.IntN(3))
	if c.steps[name] {
		return
	}
	w.caller++
	in := machine.Post{To: w.caller, Gen: c.Gen, Enqueued: conversation.PostEnqueued{
		Post: conversation.PostID("post_" + string(c.Call) + name), Call: c.Call, Target: []string{"ledger", "desk"}[w.r.IntN(2)], Body: json.RawMessage(`{}`),
	}}
	if c.durable {
		in.Step, in.Output = name, json.RawMessage(`1`)
	}
	w.callers[in.To] = in
	c.asks, c.asked = in.To, name
	w.note("post %s of %s", name, c.Call)
	w.do(in)
}

func (w *world) posted(asked machine.Post, v machine.Answer) {
	_, kept := v.(machine.PostKept)
	if kept && asked.Step != "" && !slices.ContainsFunc(w.log, func(e entry) bool {
		return slices.ContainsFunc(e.batch.Records, func(r conversation.Record) bool {
			p, ok := r.(*conversation.PostEnqueued)
			return ok && p.Post == asked.Enqueued.Post
		})
	}) {
		violate("%s is acknowledged but not durable", asked.Enqueued.Post)
	}
	w.stepped(asked.To, kept)
}

func (w *world) sendPost(e machine.SendPost) {
	p := w.durable.Post(e.Post.ID)
	if p == nil || !slices.Contains(w.durable.NextPosts(), p) {
		violate("%s is sent before the previous post is done", e.Post.ID)
	}
	if p.Until > w.clock() {
		violate("%s is sent at %s, want not before %s", p.ID, w.clock(), p.Until)
	}
	if slices.ContainsFunc(w.receivers.sending, func(other *conversation.Post) bool { return other.Target == p.Target }) {
		violate("two posts to %s are in flight", p.Target)
	}
	w.receivers.sending = append(w.receivers.sending, p)
}

// postArrives delivers a post or fails its target.
func (w *world) postArrives() {
	o := &w.receivers
	p := o.sending[0]
	o.sending = o.sending[1:]
	in := machine.PostTried{Post: p.ID, Reason: "answered 503"}
	switch n := w.r.IntN(100); {
	case n < 50 || w.calm && p.Attempts > 2:
		o.got[p.ID], in.Delivered, in.Reason = true, true, ""
	case n < 55:
		in.Gone = true
	case n < 65:
		o.got[p.ID] = true // the acknowledgement is lost
	case n < 75:
		in.RetryAfter = time.Minute
	}
	w.note("post %s delivered=%v gone=%v", p.ID, in.Delivered, in.Gone)
	w.do(in)
}

func (w *world) deadLetterStored() {
	e := w.receivers.burying[0]
	w.receivers.burying = w.receivers.burying[1:]
	w.receivers.deadLetters[e.Post.ID] = true
	w.seen["dead letter"]++
	w.note("dead letter of %s", e.Post.ID)
	w.do(machine.DeadLetterStored{Post: e.Post.ID})
}

func (w *world) deferredUntil(at conversation.Offset) (conversation.Time, bool) {
	until, by, ok := w.durable.PostsDue()
	return until, ok && by == at && until > 0
}

// postsFound reports whether there are no posts, or a stored timer finds them.
func (w *world) postsFound() bool {
	until, at, ok := w.durable.PostsDue()
	stored, timed := w.storedTimers[at]
	return !ok || until > 0 && timed && stored == until
}

func (w *world) checkPosts(b conversation.Batch) {
	suspends, defers := false, false
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.Suspended:
			suspends = true
			continue
		case *conversation.ReplyAddressed:
			if !admits(b, r.Submission) {
				violate("the reply address of %s is not in the batch of its admission", r.Submission)
			}
		case *conversation.NoticeAsked:
		case *conversation.PostEnqueued:
			if sub := w.ahead.Submission(r.Submission); r.Call == "" && r.Target == shop {
				if sub == nil || sub.Channel != shop {
					violate("the reply to %s goes to a channel that did not deliver it", r.Submission)
				}
				if sub != nil && r.ReplyAddress != addressOf(sub.Key) {
					violate("the reply to %s goes to the address %q, want %q", r.Submission, r.ReplyAddress, addressOf(sub.Key))
				}
				w.seen["reply by channel"]++
			}
			if r.Call == "" && !settles(b, r.Submission) {
				violate("the notice of %s is not in the batch of its settlement", r.Submission)
			}
		case *conversation.PostDeferred:
			defers = true
		case *conversation.PostDone:
			defers = true
			w.seen["post "+string(r.End)]++
			if r.End == conversation.PostDelivered && !w.receivers.got[r.Post] || r.End == conversation.PostDead && !w.receivers.deadLetters[r.Post] {
				violate("%s is recorded as %s but is not", r.Post, r.End)
			}
		default:
			continue
		}
		w.seen[string(r.Type())]++
	}
	if suspends && defers {
		violate("batch %d has two timers", int64(b.Offset))
	}
}

func (w *world) verifyPosts() {
	for _, p := range w.durable.Posts() {
		if w.acked[p.Submission] {
			violate("post %s of %s is left", p.ID, p.Submission)
		}
	}
}

func (w *world) hasPosts(id conversation.SubmissionID) bool {
	return slices.ContainsFunc(w.durable.Posts(), func(p *conversation.Post) bool { return p.Submission == id })
}
