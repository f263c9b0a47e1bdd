package actors

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// TestShippedByTheCheckpoint: where shipping goes on after a log is read. A checkpoint that
// only another version can read still says it; one that says nothing was stored when
// nobody wanted events.
func TestShippedByTheCheckpoint(t *testing.T) {
	at := func(exported *int64) *storage.Checkpoint {
		return &storage.Checkpoint{At: storage.Position{Seq: 70}, Exported: exported}
	}
	for name, test := range map[string]struct {
		log  openedLog
		want int64
	}{
		"no checkpoint":       {openedLog{}, -1},
		"of this version":     {openedLog{restored: &follower.Restored{Checkpoint: at(new(int64(64)))}}, 64},
		"nothing is shipped":  {openedLog{restored: &follower.Restored{Checkpoint: at(new(int64(-1)))}}, -1},
		"nobody wanted any":   {openedLog{restored: &follower.Restored{Checkpoint: at(nil)}}, 70},
		"of another version":  {openedLog{older: at(new(int64(64)))}, 64},
		"of another, no sink": {openedLog{older: at(nil)}, 70},
	} {
		if got := test.log.shipped(); got != test.want {
			t.Errorf("%s: shipped up to %d, want %d", name, got, test.want)
		}
	}
}

// TestCursorsAreCarried: a node without sinks keeps what others have shipped.
func TestCursorsAreCarried(t *testing.T) {
	w := witness{events: &events{}, carried: new(int64(7))}
	if got := w.exported(); got == nil || *got != 7 {
		t.Errorf("a node without sinks stores the cursor %v, want 7", got)
	}
	w.carried = nil
	if got := w.exported(); got != nil {
		t.Errorf("a node without sinks stores the cursor %d of nobody", *got)
	}
}

// named is a sink of a name that takes nothing.
type named string

func (n named) Name() string { return string(n) }

func (named) Write(context.Context, []observability.Event) error { return nil }

// TestSinksHaveNames: two of one name could not be told apart.
func TestSinksHaveNames(t *testing.T) {
	for name, test := range map[string]struct {
		sinks, observers []observability.Sink
		want             string
	}{
		"apart":            {[]observability.Sink{named("a")}, []observability.Sink{named("b")}, ""},
		"two sinks":        {[]observability.Sink{named("a"), named("a")}, nil, `named "a"`},
		"sink, observer":   {[]observability.Sink{named("a")}, []observability.Sink{named("a")}, `named "a"`},
		"without a name":   {nil, []observability.Sink{named("")}, `named ""`},
		"nothing in place": {[]observability.Sink{nil}, nil, "is nil"},
	} {
		err := (&Options{Sinks: test.sinks, Observers: test.observers}).checkSinks()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestShownInput: the newest message is shown however long the instructions are, and what
// is left out is told.
func TestShownInput(t *testing.T) {
	user := func(text string) providers.Message {
		return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}
	}
	long := strings.Repeat("ü", observability.DefaultContentBytes)
	for name, test := range map[string]struct {
		system   string
		messages []providers.Message
		want     []int // the length of each message that is shown
		cut      bool
	}{
		"nothing":           {"", nil, nil, false},
		"all":               {"Be kind.", []providers.Message{user("hello"), user("again")}, []int{5, 5}, false},
		"long instructions": {long, []providers.Message{user("hello"), user("again")}, []int{5, 5}, true},
		"long message":      {"Be kind.", []providers.Message{user("hello"), user(long)}, []int{observability.DefaultContentBytes}, true},
		"long history":      {"Be kind.", []providers.Message{user("hello"), user(long), user("again")}, []int{5}, true},
	} {
		req := providers.Request{System: test.system, Messages: test.messages}
		_, raw, cut := inputOf(req, observability.ProjectOptions{Content: true})
		var in shownInput
		if err := json.Unmarshal(raw, &in); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range in.Messages {
			got = append(got, len(m.Text))
		}
		if !slices.Equal(got, test.want) || cut != test.cut {
			t.Errorf("%s: messages of %d bytes are shown, cut is %t, want %d and %t", name, got, cut, test.want, test.cut)
		}
		if len(raw) > 2*observability.DefaultContentBytes+256 {
			t.Errorf("%s: %d bytes", name, len(raw))
		}
		if _, raw, cut := inputOf(req, observability.ProjectOptions{}); raw != nil || cut {
			t.Errorf("%s: %s is shown without content", name, raw)
		}
	}
}
