package actors

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/outage"
)

func TestLogNames(t *testing.T) {
	names := events.NewAddresses()
	at := conversation.Address{Agent: "support", ID: "o-1"}
	known, unknown := string(names.Put(at)), string(conversation.Address{Agent: "support", ID: "o-2"}.Key())
	for _, c := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"attribute of the record", func(l *slog.Logger) { l.Warn("m", "conversation", known, "n", 1) }, "conversation=" + known + " n=1 agent=support id=o-1"},
		{"attribute of the logger", func(l *slog.Logger) { l.With("conversation", known).Warn("m", "n", 1) }, "conversation=" + known + " n=1 agent=support id=o-1"},
		{"named already", func(l *slog.Logger) { l.Warn("m", "conversation", known, "agent", "a", "id", "b") }, "conversation=" + known + " agent=a id=b"},
		{"named by the logger", func(l *slog.Logger) { l.With("id", "b").Warn("m", "conversation", known) }, "id=b conversation=" + known},
		{"another conversation", func(l *slog.Logger) { l.Warn("m", "conversation", unknown) }, "conversation=" + unknown},
		{"no conversation", func(l *slog.Logger) { l.Warn("m", "n", 1) }, "n=1"},
		{"in a group", func(l *slog.Logger) { l.With("conversation", known).WithGroup("g").Warn("m", "n", 1) }, "conversation=" + known + " g.n=1"},
		{"not a string", func(l *slog.Logger) { l.Warn("m", "conversation", 7) }, "conversation=7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, filtered := range []bool{false, true} {
				var out bytes.Buffer
				var base slog.Handler = slog.NewTextHandler(&out, nil)
				if filtered {
					base = outage.NewHandler(base)
				}
				c.log(withNames(slog.New(base), names))
				if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=m "); got != c.want {
					t.Errorf("got %q, want %q (filtered: %t)", got, c.want, filtered)
				}
			}
		})
	}
}
