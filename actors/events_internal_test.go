package actors

import (
	"context"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// TestShippedByTheCheckpoint: where shipping continues after a log is read. A checkpoint of another
// version still has the position; one without a position was stored while no sink was configured.
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
		"no sinks":            {openedLog{restored: &follower.Restored{Checkpoint: at(nil)}}, 70},
		"of another version":  {openedLog{older: at(new(int64(64)))}, 64},
		"of another, no sink": {openedLog{older: at(nil)}, 70},
	} {
		if got := test.log.shipped(); got != test.want {
			t.Errorf("%s: got shipped up to %d, want %d", name, got, test.want)
		}
	}
}

// named is a sink with a name that accepts nothing.
type named string

func (n named) Name() string { return string(n) }

func (named) Write(context.Context, []observability.Event) error { return nil }

// TestSinksHaveNames: sinks with equal names are indistinguishable.
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
		err := (&Options{Events: EventOptions{Sinks: test.sinks, Observers: test.observers}}).checkSinks()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
