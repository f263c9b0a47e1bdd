package providertest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// endlessLimits are small, so that a codec which keeps more than it may is found by
// what it reads.
var endlessLimits = providers.Limits{ReplyBytes: 256 << 10, ArgumentBytes: 64 << 10, Calls: 32}

// maxEndless is how much of a response is read before one of the limits, in bytes:
// a codec that keeps a byte of an event keeps all of the event's cost.
const maxEndless = 32 << 20

// RunEndless checks that responses which never end are cut off: the stream ends with
// KindTooLong after a bounded number of events, by the limit that they stand under. A response
// returns the data of its i-th event, counted from 0. f is how the format frames events; nil
// means SSE.
func RunEndless(t *testing.T, c providers.Codec, f Framing, responses map[providers.Limited]map[string]func(i int) string) {
	for what, events := range responses {
		for name, event := range events {
			t.Run(name, func(t *testing.T) { testEndless(t, c, what, &endlessSource{event: event, framing: framingOr(f)}) })
		}
	}
}

func testEndless(t *testing.T, c providers.Codec, what providers.Limited, src *endlessSource) {
	_, failure, broken := Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"}, func(a *providers.Assembler) error {
		a.Bound(endlessLimits)
		return c.Decode(src, a)
	}))
	if broken != nil {
		t.Fatal(broken)
	}
	var over *providers.LimitError
	if failure == nil || failure.Kind != providers.KindTooLong || !errors.As(failure, &over) {
		t.Fatalf("after %d bytes: %v, want kind %s", src.read, failure, providers.KindTooLong)
	}
	if diff := cmp.Diff(what, over.What); diff != "" {
		t.Errorf("what ended it (-want +got):\n%s", diff)
	}
	if over.Got <= over.Limit {
		t.Errorf("%d of %d are not too many", over.Got, over.Limit)
	}
}

var errTooMuch = errors.New("the codec reads on and on")

// endlessSource is the body of a response that never ends, until that is enough.
type endlessSource struct {
	event   func(int) string
	framing Framing
	n       int
	rest    []byte
	read    int
}

// Read implements io.Reader.
func (s *endlessSource) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.read > maxEndless {
			return 0, errTooMuch
		}
		s.rest = s.framing.Frame(s.event(s.n))
		s.n++
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	s.read += n
	return n, nil
}
