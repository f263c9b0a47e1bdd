package conversation_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// covers: channels/167
func TestReplyChannel(t *testing.T) {
	admission := func(n int, change func(*conversation.SubmissionAdmitted)) *conversation.SubmissionAdmitted {
		r := admitted(n).(*conversation.SubmissionAdmitted)
		change(r)
		return r
	}
	caller := func(*conversation.SubmissionAdmitted) {}
	of := func(channel string) func(*conversation.SubmissionAdmitted) {
		return func(r *conversation.SubmissionAdmitted) { r.Channel, r.Dispatched = channel, true }
	}
	program := func(r *conversation.SubmissionAdmitted) { r.Dispatched = true }
	tool := func(r *conversation.SubmissionAdmitted) { r.DispatchDepth = 1 }
	for name, c := range map[string]struct {
		first, last func(*conversation.SubmissionAdmitted)
		named       string // by the first
		target      string
		want        string
	}{
		"its name":                    {caller, of("slack"), "", "slack", "slack"},
		"its name in a configuration": {caller, of("bot"), "", "channels.bot", "bot"},
		"another":                     {caller, of("slack"), "", "channels.bot", ""},
		"named by a delivery before":  {of("mine"), of("mine"), "slack", "slack", "mine"},
		"named by another's delivery": {of("mine"), of("other"), "slack", "slack", ""},
		"a caller":                    {of("slack"), caller, "slack", "slack", ""},
		"a caller without deliveries": {caller, caller, "slack", "slack", ""},
		"the program":                 {of("slack"), program, "", "slack", "slack"},
		"a tool":                      {of("mine"), tool, "slack", "slack", "mine"},
		"the program, not delivered":  {caller, program, "slack", "slack", ""},
		"the program in a program's":  {program, program, "slack", "slack", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := conversation.NewState()
			apply(t, s, created(), admission(1, c.first))
			if c.named != "" {
				apply(t, s, &conversation.NoticeAsked{Must: true, Submission: "sub_1", Target: c.named})
			}
			apply(t, s, admission(2, c.last))
			for range 2 {
				if got, _ := s.ReplyChannel(s.Submission("sub_2"), c.target); got != c.want {
					t.Errorf("%s: got reply channel %q, want %q", c.target, got, c.want)
				}
				s = restored(t, s)
			}
			apply(t, s, &conversation.ConversationDeleted{At: at})
			if s.Replies(c.target) {
				t.Error("channels survived a deletion")
			}
		})
	}
	t.Run("bound", func(t *testing.T) {
		s := conversation.NewState()
		apply(t, s, created())
		for n := range conversation.MaxReplyPaths + 3 {
			apply(t, s, admission(n+1, of(fmt.Sprintf("c%d", n))))
		}
		if s.Replies("c2") || !s.Replies("c3") {
			t.Errorf("got replies %v for c2, %v for c3, want the newest %d paths", s.Replies("c2"), s.Replies("c3"), conversation.MaxReplyPaths)
		}
		// Pending submissions keep their channel, however many come after them.
		if got, _ := s.ReplyChannel(s.Submission("sub_1"), "c0"); got != "c0" {
			t.Errorf("got reply channel %q for sub_1, want c0", got)
		}
	})
}

// covers: channels/194
func TestReplyAddress(t *testing.T) {
	type delivery struct{ channel, address string } // dispatched by the program if channel is empty
	for name, c := range map[string]struct {
		deliveries []delivery
		want       string // channel and address of the reply to the last
	}{
		"its own":                       {[]delivery{{"bot", "a"}}, "bot a"},
		"none":                          {[]delivery{{"bot", ""}}, "bot "},
		"two senders":                   {[]delivery{{"bot", "a"}, {"bot", "b"}}, "bot b"},
		"the first again":               {[]delivery{{"bot", "a"}, {"bot", "b"}, {"bot", "a"}}, "bot a"},
		"none after another":            {[]delivery{{"bot", "a"}, {"bot", ""}}, "bot "},
		"the program, one address":      {[]delivery{{"bot", "a"}, {"bot", "a"}, {"", ""}}, "bot a"},
		"the program, no address":       {[]delivery{{"bot", ""}, {"bot", ""}, {"", ""}}, "bot "},
		"the program, several":          {[]delivery{{"bot", "a"}, {"bot", "b"}, {"", ""}}, " "},
		"the program, several at first": {[]delivery{{"bot", "a"}, {"bot", "b"}, {"bot", "b"}, {"", ""}}, " "},
		"the program, one and none":     {[]delivery{{"bot", "a"}, {"bot", ""}, {"", ""}}, " "},
		"the program, none and one":     {[]delivery{{"bot", ""}, {"bot", "a"}, {"", ""}}, " "},
		"the program, of another":       {[]delivery{{"other", "b"}, {"bot", "a"}, {"other", "c"}, {"", ""}}, "bot a"},
	} {
		s := conversation.NewState()
		apply(t, s, created())
		var last conversation.SubmissionID
		for i, d := range c.deliveries {
			r := admitted(i + 1).(*conversation.SubmissionAdmitted)
			r.Channel, r.Dispatched = d.channel, true
			batch := records{r}
			if d.address != "" {
				batch = append(batch, &conversation.ReplyAddressed{Must: true, Submission: r.Submission, Channel: d.channel, Address: d.address})
			}
			apply(t, s, batch...)
			last, s = r.Submission, restored(t, s)
		}
		channel, address := s.ReplyChannel(s.Submission(last), "channels.bot")
		if got := channel + " " + address; got != c.want {
			t.Errorf("%s: got channel and address %q, want %q", name, got, c.want)
		}
		b, err := conversation.EncodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		want := 18
		if c.want[len(c.want)-1] != ' ' || len(c.deliveries) > 1 && c.deliveries[0].address+c.deliveries[1].address != "" {
			want = 20
		}
		if got, err := conversation.ReducerOf(b); err != nil || got != want {
			t.Errorf("%s: got reducer %d, %v, want %d", name, got, err, want)
		}
	}
}
