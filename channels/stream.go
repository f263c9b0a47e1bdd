package channels

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"html"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/outbox"
)

// Messages are those of a platform that lets them be edited. Errors are those of [Replies]. Messages that implement
// [Sized], too, have a unit of their own.
type Messages interface {
	// Post shows a text as the message of a reply, and returns what the platform calls it. If one was shown under
	// the reply's ID before, nothing more is. The text that is shown now is returned, too.
	Post(ctx context.Context, r Reply, text string) (message, shown string, err error)
	// Edit has the message say another text. One that says it already is no error; one that is deleted, or can be
	// edited no longer, is [ErrNoMessage].
	Edit(ctx context.Context, r Reply, message, text string) error
}

// Sized measures texts in the unit in which a platform limits its messages, see [Split].
type Sized interface {
	Size(text string) int
}

// ErrNoMessage reports a message that cannot be edited. Its text is posted as another.
var ErrNoMessage = errors.New("the message is deleted, or can be edited no longer")

// StreamedReplies is [Replies] to a platform where a reply can be read while it is being said: the first of its
// [Reply.Parts] is shown after [outbox.DraftEvery], and edited about as often until the reply is whole. Then the other
// parts follow, each a message of its own. Only what comes last is durable, and is shown whatever becomes of drafts.
// A message has at most so many characters, or what [Sized] measures.
//
// Drafts and the reply have one ID, made of the submission, under which they are one message, also over a death; the
// parts after the first have that ID with their number. A process that tries again continues with the part that has
// failed. A platform that takes no id keeps what a process that died has shown beside the whole reply.
func StreamedReplies(m Messages, most int) outbox.Target { return newStreamed(m, most) }

// PartReplies is [Replies] to a platform whose messages cannot be edited and have at most so much text, as size measures
// it: send is called for each of the [Reply.Parts], in their order, with an ID of its own. A process that tries again
// continues with the part that has failed; another one begins with the first.
func PartReplies(most int, size func(text string) int, send func(ctx context.Context, r Reply, text string) error) outbox.Target {
	s := newStreamed(sender(send), most)
	s.size = size
	return Replies(s.whole)
}

// sender implements [Messages] without edits: what is sent is known to be shown.
type sender func(ctx context.Context, r Reply, text string) error

// Post implements [Messages].
func (send sender) Post(ctx context.Context, r Reply, text string) (message, shown string, err error) {
	return "sent", text, send(ctx, r, text)
}

// Edit implements [Messages].
func (sender) Edit(context.Context, Reply, string, string) error { return nil }

func newStreamed(m Messages, most int) *streamed {
	s := &streamed{messages: m, most: most, size: Characters, shown: map[string]message{}}
	if sized, ok := m.(Sized); ok {
		s.size = sized.Size
	}
	return s
}

// maxShown bounds how many messages are known whose replies are not whole. One that is not known is posted again,
// under its ID.
const maxShown = 4096

// message is one that is shown: its name, and the digest of its text if that is known.
type message struct {
	name  string
	text  [sha256.Size]byte
	until time.Time // the platform wants it to be left alone
}

// streamed is safe for concurrent use, though not for one reply.
type streamed struct {
	messages Messages
	most     int
	size     func(string) int

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
	r := Reply{
		ID: string(d.Submission), Agent: d.From.Agent, InstanceID: d.From.ID, Address: cmp.Or(d.ReplyAddress, d.From.ID),
		Submission: d.Submission, Text: d.Text, Cut: d.Cut,
	}
	return s.show(ctx, r, r.begin(s.most, s.size))
}

// Deliver implements [outbox.Target].
func (s *streamed) Deliver(ctx context.Context, p outbox.Post) error {
	r, err := replyOf(p)
	if err != nil {
		return err
	}
	r.ID = string(r.Submission)
	return s.whole(ctx, r)
}

// whole shows all parts of a reply.
func (s *streamed) whole(ctx context.Context, r Reply) error {
	parts := r.Parts(s.most, s.size)
	for i, text := range parts {
		if err := s.show(ctx, r.part(i), text); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range max(1, len(parts)) {
		delete(s.shown, r.part(i).ID)
	}
	return nil
}

// part returns the reply under the ID of one of its parts.
func (r Reply) part(i int) Reply {
	if i > 0 {
		r.ID += "/" + strconv.Itoa(i)
	}
	return r
}

// show shows a text, unless the platform wants the message to be left alone: it does not know drafts from what comes last.
func (s *streamed) show(ctx context.Context, r Reply, text string) error {
	m := s.of(r.ID)
	if wait := time.Until(m.until); wait > 0 {
		return &outbox.LaterError{After: wait, Err: errors.New("a draft was limited")}
	}
	err := s.say(ctx, r, m, text)
	if later := new(outbox.LaterError); errors.As(err, &later) {
		m = s.of(r.ID)
		m.until = time.Now().Add(later.After)
		s.know(r.ID, m)
	}
	return err
}

func (s *streamed) say(ctx context.Context, r Reply, m message, text string) error {
	if text == "" {
		return nil
	}
	if m.name == "" {
		name, shown, err := s.messages.Post(ctx, r, text)
		if err != nil {
			return err
		}
		m = message{name: name, text: digest(shown)}
		s.know(r.ID, m)
	}
	if m.text == digest(text) {
		return nil
	}
	s.know(r.ID, message{name: m.name}) // The edit may happen though its answer is lost.
	err := s.messages.Edit(ctx, r, m.name, text)
	if errors.Is(err, ErrNoMessage) {
		again := r
		again.ID += "/again"
		m.name, _, err = s.messages.Post(ctx, again, text)
	}
	if err != nil {
		return err
	}
	s.know(r.ID, message{name: m.name, text: digest(text)})
	return nil
}

// digest returns that of a text, the same for all forms in which platforms give a text back.
func digest(text string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.TrimSpace(html.UnescapeString(text))))
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
