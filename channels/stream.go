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

// Messages posts to a platform with editable messages. Its errors are those of [Replies]. It may
// implement [Sized].
type Messages interface {
	// Post posts a text as the message of a reply, and returns the platform's name of the message and
	// the visible text. If a message with the reply's ID exists, Post does not post another.
	Post(ctx context.Context, r Reply, text string) (message, shown string, err error)
	// Edit replaces the text of a message. An unchanged text is no error. A message that is deleted or
	// no longer editable is [ErrNoMessage].
	Edit(ctx context.Context, r Reply, message, text string) error
}

// Sized measures texts in the platform's unit, see [Split].
type Sized interface {
	Size(text string) int
}

// ErrNoMessage reports a message that cannot be edited. Its text is posted as a new message.
var ErrNoMessage = errors.New("message is deleted or no longer editable")

// StreamedReplies is [Replies] for platforms with editable messages. It posts the first of the
// [Reply.Parts] after [outbox.DraftEvery], and edits it about as often until the reply is complete.
// Then it posts the other parts as messages of their own. Only the final text is durable; it is sent
// even if drafts fail. A message has at most so many characters, or units of [Sized].
//
// Drafts and the final reply share one ID, made of the submission, and so are one message, also after
// a crash. Later parts have that ID with their number. A retry in the same process continues with the
// part that failed. On a platform without message ids, a draft of a crashed process stays next to the
// complete reply.
func StreamedReplies(m Messages, most int) outbox.Target { return newStreamed(m, most) }

// PartReplies is [Replies] for platforms without editable messages, whose messages have a maximum
// size. It calls send for each of the [Reply.Parts] in order, with an ID of its own. A retry in the
// same process continues with the part that failed; another process begins with the first.
func PartReplies(most int, size func(text string) int, send func(ctx context.Context, r Reply, text string) error) outbox.Target {
	s := newStreamed(sender(send), most)
	s.size = size
	return Replies(s.whole)
}

// sender implements [Messages] without edits: a sent text is the visible text.
type sender func(ctx context.Context, r Reply, text string) error

func (send sender) Post(ctx context.Context, r Reply, text string) (message, shown string, err error) {
	return "sent", text, send(ctx, r, text)
}

func (sender) Edit(context.Context, Reply, string, string) error { return nil }

func newStreamed(m Messages, most int) *streamed {
	s := &streamed{messages: m, most: most, size: Characters, shown: map[string]message{}}
	if sized, ok := m.(Sized); ok {
		s.size = sized.Size
	}
	return s
}

// maxPrinted limits how many messages of incomplete replies are remembered. An evicted one is posted
// again under its ID.
const maxPrinted = 4096

// message is a posted message: its name, and the digest of its text if known.
type message struct {
	name  string
	text  [sha256.Size]byte
	until time.Time // end of the platform's rate limit
}

// streamed is safe for concurrent use, except for the same reply.
type streamed struct {
	messages Messages
	most     int
	size     func(string) int

	mu    sync.Mutex
	shown map[string]message // by reply ID
}

var (
	_ outbox.Live        = (*streamed)(nil)
	_ outbox.ReplyTarget = (*streamed)(nil)
)

func (*streamed) RepliesForChannel() {}

func (s *streamed) Show(ctx context.Context, d outbox.Draft) error {
	if err := checkChannel(d.Channel); err != nil {
		return err
	}
	r := Reply{
		ID: string(d.Submission), Agent: d.From.Agent, InstanceID: d.From.ID, Address: cmp.Or(d.ReplyAddress, d.From.ID),
		Submission: d.Submission, Text: d.Text, Truncated: d.Truncated,
	}
	return s.show(ctx, r, r.begin(s.most, s.size))
}

func (s *streamed) Deliver(ctx context.Context, p outbox.Post) error {
	r, err := replyOf(p)
	if err != nil {
		return err
	}
	r.ID = string(r.Submission)
	return s.whole(ctx, r)
}

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

// part returns a copy of the reply with the ID of a part.
func (r Reply) part(i int) Reply {
	if i > 0 {
		r.ID += "/" + strconv.Itoa(i)
	}
	return r
}

// show posts or edits a text, unless the platform rate-limits the message. The limit applies to drafts
// and final texts.
func (s *streamed) show(ctx context.Context, r Reply, text string) error {
	m := s.of(r.ID)
	if wait := time.Until(m.until); wait > 0 {
		return &outbox.LaterError{After: wait, Err: errors.New("draft rate-limited by the platform")}
	}
	err := s.write(ctx, r, m, text)
	if later := new(outbox.LaterError); errors.As(err, &later) {
		m = s.of(r.ID)
		m.until = time.Now().Add(later.After)
		s.know(r.ID, m)
	}
	return err
}

func (s *streamed) write(ctx context.Context, r Reply, m message, text string) error {
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
	s.know(r.ID, message{name: m.name}) // The edit may have succeeded although its response is lost.
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

// digest returns the digest of a text, equal for all forms in which platforms return it.
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
		if len(s.shown) < maxPrinted {
			break
		}
		delete(s.shown, old)
	}
	s.shown[id] = m
}
