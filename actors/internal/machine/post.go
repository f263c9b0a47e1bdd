package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Pauses before the attempts to deliver a post, with each failure the next. What has failed once
// more is given up, and so is what has failed at all and waits for longer than a day, be it
// behind others.
var postPauses = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 9 * time.Hour,
}

// maxPostAge is how long receivers are expected to be away.
const maxPostAge = conversation.Time(24 * time.Hour / time.Millisecond)

// maxPostHint bounds the pause that a receiver asks for.
const maxPostHint = 4 * time.Hour

// posting is what is under way for a target.
type posting struct {
	post     conversation.PostID
	attempts int
	reason   string
	took     time.Duration
	buried   bool                // a dead letter is being stored
	of       conversation.Offset // of the batch that the letter names
	at       conversation.Offset // of the batch that says what has come of it, 0 until then
}

// postsFull reports whether the conversation takes no more posts of so many bytes.
func (m *Machine) postsFull(bytes int) bool {
	return len(m.state.Posts()) >= conversation.MaxPosts || m.state.PostBytes()+bytes > conversation.MaxPostsBytes
}

// postsCrowd reports whether there are more posts than that: notices are enqueued all the same, and
// what has failed makes room for them.
func (m *Machine) postsCrowd() bool {
	return len(m.state.Posts()) > conversation.MaxPosts || m.state.PostBytes() > conversation.MaxPostsBytes
}

// post enqueues what a running call posts. That a durable one has done so stands in the same batch.
func (m *Machine) post(in Post) {
	w := m.workOf(in.Gen)
	p := in.Enqueued
	switch {
	case w == nil || w.phase != phaseTools || !m.running(w, p.Call):
		m.emit(Reply{in.To, Moved{}})
	case m.postsFull(len(p.Body)) && m.state.Post(p.Post) == nil:
		m.emit(Reply{in.To, PostFull{}})
	case in.Step != "" && m.state.Brought(w.submission)+len(in.Output) > m.limits().MaxBrought:
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

// Told is a target that gets the notice of a settlement. Channel is the channel on whose behalf, empty for none, and
// Address the address of the reply, see [conversation.State.ReplyChannel].
type Told struct{ Target, Channel, Address string }

// Told returns the targets that get the notice of a submission's settlement, each once: those of its agent, and the one
// that its sender named. A target that replies for a channel is included only for submissions of that channel.
func (m *Machine) Told(sub *conversation.Submission) (told []Told) {
	targets := slices.Concat(sub.Notify, m.limits().Notify)
	slices.Sort(targets)
	for _, target := range slices.Compact(targets) {
		channel, address := m.state.ReplyChannel(sub, target)
		if !repliesByAddress() {
			address = ""
		}
		if channel != "" || !m.replies(target) || !repliesByChannel() {
			told = append(told, Told{target, channel, address})
		}
	}
	return told
}

// notices are the posts that tell of a settlement.
func (m *Machine) notices(sub *conversation.Submission, r *conversation.SubmissionSettled) (posts []conversation.Record) {
	told := m.Told(sub)
	if len(told) == 0 {
		return nil
	}
	body, err := m.state.Notice(r)
	if err != nil { // it has a JSON form, and its submission is there
		return nil
	}
	for _, to := range told {
		posts = append(posts, &conversation.PostEnqueued{
			Must: true, Post: conversation.PostID(m.ids.next("post_")), Submission: sub.ID, Target: to.Target, Body: body, Channel: to.Channel, ReplyAddress: to.Address, At: r.At,
		})
	}
	return posts
}

// postIsPending reports whether a post is due, or under way.
func (m *Machine) postIsPending() bool {
	return staysForPost() && slices.ContainsFunc(m.state.NextPosts(), func(p *conversation.Post) bool { return p.Until <= m.now() })
}

// postAlarm is the timer of the posts that are deferred. It is not ok if there are none, or if one is due.
func (m *Machine) postAlarm() (alarm StoreTimer, ok bool) {
	until, at, ok := m.state.PostsDue()
	return StoreTimer{At: at, Until: until}, ok && until > m.now()
}

// sendPosts has the next post of each target delivered that is due, once its record is durable, and so
// is what has come of the one before.
func (m *Machine) sendPosts() {
	if m.draining || len(m.state.Posts()) == 0 && len(m.posting) == 0 {
		return
	}
	for target, s := range m.posting {
		if s.at != 0 && s.at <= m.durable {
			delete(m.posting, target)
		}
	}
	crowd := m.postsCrowd() && !m.burying()
	for _, p := range m.postsToSend() {
		if m.posting[p.Target] != nil || p.Offset > m.durable {
			continue
		}
		s := &posting{post: p.ID}
		switch {
		case crowd && p.Attempts > 0:
			crowd = false // the oldest alone: of other targets what has failed once may be taken yet
			m.posting[p.Target] = s
			s.attempts, s.reason = p.Attempts, sayPostsFull
			m.bury(p, s)
		case p.Until <= m.now():
			m.posting[p.Target] = s
			m.emit(SendPost{p})
		}
	}
}

// burying reports whether a dead letter is being stored.
func (m *Machine) burying() bool {
	for _, s := range m.posting {
		if s.buried {
			return true
		}
	}
	return false
}

// postsToSend are the posts of which none has to be done before.
func (m *Machine) postsToSend() []*conversation.Post {
	if !postsInOrder() {
		return slices.Clone(m.state.Posts())
	}
	return m.state.NextPosts()
}

// postTried records what has come of an attempt.
func (m *Machine) postTried(in PostTried) {
	p := m.state.Post(in.Post)
	if p == nil || m.draining {
		return
	}
	s := m.posting[p.Target]
	if s == nil || s.post != in.Post || s.at != 0 || s.buried {
		return
	}
	s.attempts, s.reason, s.took = p.Attempts+1, in.Reason, in.Took
	switch {
	case in.Delivered || !endsDelivered():
		m.postDone(s, conversation.PostDelivered)
	case in.Gone || s.attempts > len(postPauses) || m.now()-p.At > maxPostAge:
		m.bury(p, s)
	default:
		m.deferPost(p, s, in.RetryAfter)
	}
}

// deferPost records that the next attempt is made later.
func (m *Machine) deferPost(p *conversation.Post, s *posting, hint time.Duration) {
	pause := postPauses[s.attempts-1]
	pause = max(pause-pause*time.Duration(m.env.Seed[0])/2048, min(hint, maxPostHint))
	m.postSays(s, &conversation.PostDeferred{
		Must: true, Post: p.ID, Attempts: s.attempts, Reason: s.reason, DurationMs: s.took.Milliseconds(),
		Until: m.now() + conversation.Time(pause/time.Millisecond), At: m.env.Wall,
	})
}

// postSays records what has come of a post. A batch names a timer, so that one which says when posts
// are due parks no submission.
func (m *Machine) postSays(s *posting, r conversation.Record) {
	m.pending.split = slices.ContainsFunc(m.suspended(), func(sub *conversation.Submission) bool { return sub.SuspendedAt > m.durable })
	m.enqueue(true, r)
	s.at = m.nextOffset()
}

// bury has a dead letter stored, before the record that ends the post.
func (m *Machine) bury(p *conversation.Post, s *posting) {
	s.buried, s.of = true, p.Offset
	m.emit(BuryPost{Post: p, Attempts: s.attempts, Reason: s.reason})
}

// postBuried records that a post is given up, once its letter is stored.
func (m *Machine) postBuried(in PostBuried) {
	p := m.state.Post(in.Post)
	if p == nil || m.draining {
		return
	}
	switch s := m.posting[p.Target]; {
	case s == nil || s.post != in.Post || !s.buried || s.at != 0:
	case s.of != p.Offset: // It was sent again meanwhile, by its letter.
		delete(m.posting, p.Target)
	default:
		m.postDone(s, conversation.PostDead)
	}
}

func (m *Machine) postDone(s *posting, end conversation.PostEnd) {
	m.postSays(s, &conversation.PostDone{
		Must: true, Post: s.post, End: end, Attempts: s.attempts, Reason: s.reason, DurationMs: s.took.Milliseconds(), At: m.env.Wall,
	})
}

// postAgain enqueues a post that was given up, as a signal asks for that is settled at once.
func (m *Machine) postAgain(in Admit, hash string) {
	p := in.Dead
	switch {
	case p == nil:
		m.refuse(in, conversation.Errorf(conversation.CodeInvalidRequest, sayNoLetter, conversation.SignalOutbox))
		return
	case m.postsFull(len(p.Body)):
		m.emit(Reply{in.To, Refused{crowded(sayPostsWait, len(m.state.Posts()))}})
		return
	case in.Precheck:
		m.reply(in.To, Clear{}, false)
		return
	}
	admitted := m.record(in, hash, m.settledAtOnce(in), func(*conversation.SubmissionAdmitted) conversation.Record {
		return &conversation.PostEnqueued{Must: true, Post: p.Post, Submission: p.Submission, Call: p.Call, Target: p.Target, Body: p.Body, Channel: p.Channel, ReplyAddress: p.ReplyAddress, At: m.env.Wall}
	})
	receipt := m.receiptOf(admitted)
	m.ensureListed()
	m.reply(in.To, receipt, true)
}

// hasPosts reports whether posts of a submission are not delivered yet.
func (m *Machine) hasPosts(id conversation.SubmissionID) bool {
	return slices.ContainsFunc(m.state.Posts(), func(p *conversation.Post) bool { return p.Submission == id })
}
