package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// postPauses are the pauses before repeated delivery attempts. A post becomes a dead letter after one
// more failure. It also does once it has failed and is older than maxPostAge, even while it waits for
// earlier posts.
var postPauses = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 9 * time.Hour,
}

// maxPostAge is the longest outage of a receiver that posts survive, in milliseconds.
const maxPostAge = conversation.Time(24 * time.Hour / time.Millisecond)

const maxPostHint = 4 * time.Hour

type posting struct {
	post         conversation.PostID
	attempts     int
	reason       string
	took         time.Duration
	deadLettered bool                // a dead letter is being stored
	of           conversation.Offset // offset of the post's batch, which the dead letter names
	at           conversation.Offset // offset of the batch with the outcome, 0 until then
}

// postsFull reports whether the outbox has no room for a post of the given size.
func (m *Machine) postsFull(bytes int) bool {
	return len(m.state.Posts()) >= conversation.MaxPosts || m.state.PostBytes()+bytes > conversation.MaxPostsBytes
}

// postsOverfull reports whether notices, which are always enqueued, have overfilled the outbox. Failed
// posts then make room.
func (m *Machine) postsOverfull() bool {
	return len(m.state.Posts()) > conversation.MaxPosts || m.state.PostBytes() > conversation.MaxPostsBytes
}

// post enqueues the post of a running call, in one batch with the step of a durable call.
func (m *Machine) post(in Post) {
	w := m.workOf(in.Gen)
	p := in.Enqueued
	switch {
	case w == nil || w.phase != phaseTools || !m.running(w, p.Call):
		m.emit(Reply{in.To, Moved{}})
	case m.postsFull(len(p.Body)) && m.state.Post(p.Post) == nil:
		m.emit(Reply{in.To, PostFull{}})
	case in.Step != "" && m.state.CallBytes(w.submission)+len(in.Output) > m.limits().MaxCallBytes:
		m.emit(Reply{in.To, StepTooMuch{}})
	default:
		var records []conversation.Record
		if m.state.Post(p.Post) == nil {
			p.Must, p.Submission, p.At = true, m.work.submission, m.env.Wall
			records = append(records, &p)
		}
		if in.Step != "" {
			records = append(records, &conversation.StepRecorded{Call: p.Call, Name: in.Step, Output: in.Output})
		}
		m.enqueue(true, records...)
		m.reply(in.To, PostKept{}, false)
	}
}

// NoticeTarget is a target that gets the notice of a settlement. Channel is the channel for which it replies,
// empty for none. Address is the address of the reply, see [conversation.State.ReplyChannel].
type NoticeTarget struct{ Target, Channel, Address string }

// NoticeTargets returns the distinct targets for the notice of a submission's settlement: those of its agent
// and the one named by its sender. A target that replies for a channel is included only for
// submissions of that channel.
func (m *Machine) NoticeTargets(sub *conversation.Submission) (notified []NoticeTarget) {
	targets := slices.Concat(sub.Notify, m.limits().Notify)
	slices.Sort(targets)
	for _, target := range slices.Compact(targets) {
		channel, address := m.state.ReplyChannel(sub, target)
		if !repliesByAddress() {
			address = ""
		}
		if channel != "" || !m.replies(target) || !repliesByChannel() {
			notified = append(notified, NoticeTarget{target, channel, address})
		}
	}
	return notified
}

func (m *Machine) notices(sub *conversation.Submission, r *conversation.SubmissionSettled) (posts []conversation.Record) {
	notified := m.NoticeTargets(sub)
	if len(notified) == 0 {
		return nil
	}
	body, err := m.state.Notice(r)
	if err != nil { // cannot fail: it has a JSON form and its submission exists
		return nil
	}
	for _, to := range notified {
		posts = append(posts, &conversation.PostEnqueued{
			Must: true, Post: conversation.PostID(m.ids.next("post_")), Submission: sub.ID, Target: to.Target, Body: body, Channel: to.Channel, ReplyAddress: to.Address, At: r.At,
		})
	}
	return posts
}

// postIsPending reports whether a post is due or being delivered.
func (m *Machine) postIsPending() bool {
	return staysForPost() && slices.ContainsFunc(m.state.NextPosts(), func(p *conversation.Post) bool { return p.Until <= m.now() })
}

// postTimer returns the timer of the deferred posts. ok is false if there are none or if one is due.
func (m *Machine) postTimer() (alarm StoreTimer, ok bool) {
	until, at, ok := m.state.PostsDue()
	return StoreTimer{At: at, Until: until}, ok && until > m.now()
}

// sendPosts starts the delivery of each target's next due post once its record and the outcome of the
// previous post are durable.
func (m *Machine) sendPosts() {
	if m.draining || len(m.state.Posts()) == 0 && len(m.posting) == 0 {
		return
	}
	for target, s := range m.posting {
		if s.at != 0 && s.at <= m.durable {
			delete(m.posting, target)
		}
	}
	overfull := m.postsOverfull() && !m.burying()
	for _, p := range m.postsToSend() {
		if m.posting[p.Target] != nil || p.Offset > m.durable {
			continue
		}
		s := &posting{post: p.ID}
		switch {
		case overfull && p.Attempts > 0:
			overfull = false // only the oldest: other targets may still accept posts that failed once
			m.posting[p.Target] = s
			s.attempts, s.reason = p.Attempts, textPostsFull
			m.storeDeadLetter(p, s)
		case p.Until <= m.now():
			m.posting[p.Target] = s
			m.emit(SendPost{p})
		}
	}
}

func (m *Machine) burying() bool {
	for _, s := range m.posting {
		if s.deadLettered {
			return true
		}
	}
	return false
}

// postsToSend returns the posts without a predecessor for their target.
func (m *Machine) postsToSend() []*conversation.Post {
	if !postsInOrder() {
		return slices.Clone(m.state.Posts())
	}
	return m.state.NextPosts()
}

func (m *Machine) postTried(in PostTried) {
	p := m.state.Post(in.Post)
	if p == nil || m.draining {
		return
	}
	s := m.posting[p.Target]
	if s == nil || s.post != in.Post || s.at != 0 || s.deadLettered {
		return
	}
	s.attempts, s.reason, s.took = p.Attempts+1, in.Reason, in.Took
	switch {
	case in.Delivered || !endsDelivered():
		m.postDone(s, conversation.PostDelivered)
	case in.Gone || s.attempts > len(postPauses) || m.now()-p.At > maxPostAge:
		m.storeDeadLetter(p, s)
	default:
		m.deferPost(p, s, in.RetryAfter)
	}
}

func (m *Machine) deferPost(p *conversation.Post, s *posting, hint time.Duration) {
	pause := postPauses[s.attempts-1]
	pause = max(pause-pause*time.Duration(m.env.Seed[0])/2048, min(hint, maxPostHint))
	m.recordPostOutcome(s, &conversation.PostDeferred{
		Must: true, Post: p.ID, Attempts: s.attempts, Reason: s.reason, DurationMs: s.took.Milliseconds(),
		Until: m.now() + conversation.Time(pause/time.Millisecond), At: m.env.Wall,
	})
}

// recordPostOutcome records the outcome of an attempt. A batch holds one timer, so the record of a deferred
// post does not share a batch with a suspension.
func (m *Machine) recordPostOutcome(s *posting, r conversation.Record) {
	m.pending.split = slices.ContainsFunc(m.suspended(), func(sub *conversation.Submission) bool { return sub.SuspendedAt > m.durable })
	m.enqueue(true, r)
	s.at = m.nextOffset()
}

// storeDeadLetter stores the dead letter before the record that ends the post.
func (m *Machine) storeDeadLetter(p *conversation.Post, s *posting) {
	s.deadLettered, s.of = true, p.Offset
	m.emit(StoreDeadLetter{Post: p, Attempts: s.attempts, Reason: s.reason})
}

func (m *Machine) postDeadLettered(in DeadLetterStored) {
	p := m.state.Post(in.Post)
	if p == nil || m.draining {
		return
	}
	switch s := m.posting[p.Target]; {
	case s == nil || s.post != in.Post || !s.deadLettered || s.at != 0:
	case s.of != p.Offset: // It was enqueued again from its dead letter.
		delete(m.posting, p.Target)
	default:
		m.postDone(s, conversation.PostDead)
	}
}

func (m *Machine) postDone(s *posting, end conversation.PostEnd) {
	m.recordPostOutcome(s, &conversation.PostDone{
		Must: true, Post: s.post, End: end, Attempts: s.attempts, Reason: s.reason, DurationMs: s.took.Milliseconds(), At: m.env.Wall,
	})
}

// postAgain enqueues the post of a dead letter on a signal, which settles at once.
func (m *Machine) postAgain(in Admit, hash string) {
	p := in.DeadLetter
	switch {
	case p == nil:
		m.refuse(in, conversation.Errorf(conversation.CodeInvalidRequest, textNoDeadLetter, conversation.SignalOutbox))
		return
	case m.postsFull(len(p.Body)):
		m.emit(Reply{in.To, Refused{overloaded(textPostsWait, len(m.state.Posts()))}})
		return
	case in.Precheck:
		m.reply(in.To, Clear{}, false)
		return
	}
	admitted := m.record(in, hash, m.settleAtOnce(in), func(*conversation.SubmissionAdmitted) conversation.Record {
		return &conversation.PostEnqueued{Must: true, Post: p.Post, Submission: p.Submission, Call: p.Call, Target: p.Target, Body: p.Body, Channel: p.Channel, ReplyAddress: p.ReplyAddress, At: m.env.Wall}
	})
	receipt := m.receiptOf(admitted)
	m.ensureListed()
	m.reply(in.To, receipt, true)
}

func (m *Machine) hasPosts(id conversation.SubmissionID) bool {
	return slices.ContainsFunc(m.state.Posts(), func(p *conversation.Post) bool { return p.Submission == id })
}
