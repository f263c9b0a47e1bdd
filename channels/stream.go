package channels

import (
	"context"
	"errors"
	"html"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/outbox"
)

// Messages are those of a platform that lets them be edited. Errors are those of [Replies].
type Messages interface {
	// Post shows a text as the message of a reply, and returns what the platform calls it. If one was shown under
	// the reply's ID before, nothing more is. The text that is shown now is returned, too.
	Post(ctx context.Context, r Reply, text string) (message, shown string, err error)
	// Edit has the message say another text. One that says it already is no error.
	Edit(ctx context.Context, r Reply, message, text string) error
}

// StreamedReplies is [Replies] to a platform where a reply can be read while it is being said: its [Reply.Words], at
// most so many characters, are shown after [outbox.DraftEvery], and edited about as often until the reply is whole.
// Only the last is durable, and is shown whatever becomes of those before.
//
// Drafts and the reply have one ID, made of the submission, under which they are one message, also over a death. A
// platform that takes no id keeps what a process that died has shown beside the whole reply.
func StreamedReplies(m Messages, most int) outbox.Target {
	return &streamed{messages: m, most: most, shown: map[string]message{}}
}

// maxShown bounds how many messages are known whose replies are not whole. One that is not known is posted again,
// under its ID.
const maxShown = 4096

// message is one that is shown: its name, and its text if that is known.
type message struct {
	name, text string
	until      time.Time // the platform wants it to be left alone
}

// streamed is safe for concurrent use, though not for one reply.
type streamed struct {
	messages Messages
	most     int

	mu    sync.Mutex
	shown map[string]message // by the IDs of their replies
}

var (
	_ outbox.Live        = (*streamed)(nil)
	_ outbox.ReplyTarget = (*streamed)(nil)
)

// RepliesForChannel implements [outbox.ReplyTarget].
func (*streamed) RepliesForChannel() {}

// Show implements [outbox.Live].
func (s *streamed) Show(ctx context.Context, d outbox.Draft) error {
	if err := checkChannel(d.Channel); err != nil {
		return err
	}
	return s.show(ctx, Reply{
		ID: string(d.Submission), Agent: d.From.Agent, InstanceID: d.From.ID, Submission: d.Submission, Text: d.Text, Cut: d.Cut,
	})
}

// Deliver implements [outbox.Target].
func (s *streamed) Deliver(ctx context.Context, p outbox.Post) error {
	r, err := replyOf(p)
	if err != nil {
		return err
	}
	r.ID = string(r.Submission)
	if err := s.show(ctx, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shown, r.ID)
	return nil
}

// show shows a reply, unless the platform wants it to be left alone: it does not know drafts from what comes last.
func (s *streamed) show(ctx context.Context, r Reply) error {
	m := s.of(r.ID)
	if wait := time.Until(m.until); wait > 0 {
		return &outbox.LaterError{After: wait, Err: errors.New("a draft was limited")}
	}
	err := s.say(ctx, r, m)
	if later := new(outbox.LaterError); errors.As(err, &later) {
		m = s.of(r.ID)
		m.until = time.Now().Add(later.After)
		s.know(r.ID, m)
	}
	return err
}

func (s *streamed) say(ctx context.Context, r Reply, m message) (err error) {
	text := r.Words(s.most)
	if m.name == "" && text != "" {
		if m.name, m.text, err = s.messages.Post(ctx, r, text); err != nil {
			return err
		}
		s.know(r.ID, m)
	}
	if text == "" || alike(m.text, text) {
		return nil
	}
	s.know(r.ID, message{name: m.name}) // It may be edited though nobody hears of it.
	if err := s.messages.Edit(ctx, r, m.name, text); err != nil {
		return err
	}
	s.know(r.ID, message{name: m.name, text: text})
	return nil
}

// alike reports whether a text is another as platforms give it back.
func alike(shown, text string) bool {
	return strings.TrimSpace(html.UnescapeString(shown)) == strings.TrimSpace(html.UnescapeString(text))
}

func (s *streamed) of(id string) message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[id]
}

func (s *streamed) know(id string, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.shown {
		if len(s.shown) < maxShown {
			break
		}
		delete(s.shown, old)
	}
	s.shown[id] = m
}
