package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// wall is a fake platform with one message per id.
type wall struct {
	calls []string
	shown map[string]string
	err   error // error of a call
	after int   // successful calls before it
}

func (w *wall) called(format string, args ...any) error {
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
	if w.after > 0 {
		w.after--
		return nil
	}
	err := w.err
	w.err = nil
	return err
}

func (w *wall) Post(_ context.Context, r channels.Reply, text string) (message, shown string, err error) {
	if err := w.called("post %s", text); err != nil {
		return "", "", err
	}
	if _, ok := w.shown[r.ID]; !ok {
		w.shown[r.ID] = text
	}
	return "m-" + r.ID, w.shown[r.ID], nil
}

func (w *wall) Edit(_ context.Context, r channels.Reply, message, text string) error {
	if message != "m-"+r.ID {
		return errors.New("unknown message")
	}
	if err := w.called("edit %s", text); err != nil {
		return err
	}
	w.shown[r.ID] = text
	return nil
}

// TestStreamedReplies verifies the platform calls of a target that has posted drafts and of a fresh
// one.
// covers: channels/161, channels/177
func TestStreamedReplies(t *testing.T) {
	type step struct {
		draft, reply string
		outcome      string
		err          error // error of the platform
		at           int   // successful calls before the error
		fine         bool  // the reply succeeds nevertheless
		fresh        bool  // another process sends the reply
	}
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		steps []step
		want  []string
		shown string
	}{
		"no draft":           {[]step{{reply: "Hi."}}, []string{"post Hi."}, "Hi."},
		"drafts":             {[]step{{draft: "A"}, {draft: "A b"}, {reply: "A b c"}}, []string{"post A…", "edit A b…", "edit A b c"}, "A b c"},
		"nothing new":        {[]step{{draft: "A"}, {draft: "A"}, {reply: "A…"}}, []string{"post A…"}, "A…"},
		"too long":           {[]step{{draft: "0123456789"}, {draft: "0123456789 and more"}, {reply: "0123456789 and more"}}, []string{"post 0123456…", "edit 01234567", "post 89 and", "post more"}, "01234567"},
		"too long, broken":   {[]step{{reply: "one two three", err: lost, at: 1}, {reply: "one two three"}}, []string{"post one two", "post three", "post three"}, "one two"},
		"too long, crashed":  {[]step{{reply: "one two three", err: lost, at: 1}, {reply: "one two three", fresh: true}}, []string{"post one two", "post three", "post one two", "post three"}, "one two"},
		"deleted":            {[]step{{draft: "A"}, {reply: "A b", err: channels.ErrNoMessage, fine: true}}, []string{"post A…", "edit A b", "post A b"}, "A…"},
		"a death":            {[]step{{draft: "A"}, {reply: "A b", fresh: true}}, []string{"post A…", "post A b", "edit A b"}, "A b"},
		"a death after all":  {[]step{{reply: "A"}, {reply: "A", fresh: true}}, []string{"post A", "post A"}, "A"},
		"a lost edit":        {[]step{{draft: "A"}, {draft: "A b", err: lost}, {reply: "A"}}, []string{"post A…", "edit A b…", "edit A"}, "A"},
		"a lost post":        {[]step{{draft: "A", err: lost}, {reply: "A b"}}, []string{"post A…", "post A b"}, "A b"},
		"limited":            {[]step{{draft: "A", err: &outbox.LaterError{After: time.Minute, Err: lost}}, {reply: "A b", err: lost}}, []string{"post A…"}, ""},
		"failed":             {[]step{{draft: "A"}, {outcome: "failed"}}, []string{"post A…", "edit Sorry, that went wrong. Please try again."}, "Sorry, that went wrong. Please try again."},
		"aborted":            {[]step{{draft: "A"}, {outcome: "aborted"}}, []string{"post A…"}, "A…"},
		"aborted at once":    {[]step{{outcome: "aborted"}}, nil, ""},
		"text with entities": {[]step{{draft: "a<b"}, {draft: "a&lt;b"}}, []string{"post a<b…"}, "a<b…"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wall{shown: map[string]string{}}
				target := channels.StreamedReplies(w, 8)
				for _, s := range c.steps {
					if s.fresh {
						target = channels.StreamedReplies(w, 8)
					}
					w.err, w.after = s.err, s.at
					var err error
					if s.draft != "" {
						err = target.(outbox.Live).Show(t.Context(), outbox.Draft{Submission: "sub_1", Channel: "bot", Text: s.draft})
					} else {
						if s.outcome == "" {
							s.outcome = "completed"
						}
						body, encodeErr := conversation.EncodeJSON(conversation.Notice{Type: conversation.NoticeSettled, Data: conversation.NoticeData{
							Agent: "a", ID: "i", SentReply: &conversation.SentReply{Submission: "sub_1", Outcome: conversation.Outcome(s.outcome), Text: s.reply},
						}})
						if encodeErr != nil {
							t.Fatal(encodeErr)
						}
						err = target.Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: "bot", Body: body})
					}
					if (err == nil) != (s.err == nil || s.fine) {
						t.Errorf("%+v: %v", s, err)
					}
				}
				if !slices.Equal(w.calls, c.want) || w.shown["sub_1"] != c.shown {
					t.Errorf("got calls %q, want %q; got text %q, want %q", w.calls, c.want, w.shown["sub_1"], c.shown)
				}
			})
		})
	}
	var gone *outbox.GoneError
	if err := channels.StreamedReplies(&wall{}, 8).Deliver(t.Context(), outbox.Post{Channel: "bot", Body: []byte("{}")}); !errors.As(err, &gone) {
		t.Errorf("invalid notice: got %v", err)
	}
}
