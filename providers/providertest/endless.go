package providertest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// endlessLimits are small, so that the amount read reveals a codec that buffers too much.
var endlessLimits = providers.Limits{ReplyBytes: 256 << 10, ArgumentBytes: 64 << 10, Calls: 32}

// maxEndless is the maximum number of bytes read before a limit applies. A codec that stores one byte
// of an event is charged the cost of the whole event.
const maxEndless = 32 << 20

// RunEndless verifies that endless responses are cut off. The stream ends with KindTooLong after a
// bounded number of events, by the limit that is the key of the response. A response returns the data
// of its i-th event, from 0. f is the framing; nil means SSE.
func RunEndless(t *testing.T, c providers.Codec, f Framing, responses map[providers.Limited]map[string]func(i int) string) {
	for desc, events := range responses {
		for name, event := range events {
			t.Run(name, func(t *testing.T) { testEndless(t, c, desc, &endlessSource{event: event, framing: framingOr(f)}) })
		}
	}
}

func testEndless(t *testing.T, c providers.Codec, desc providers.Limited, src *endlessSource) {
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
	if diff := cmp.Diff(desc, over.Quantity); diff != "" {
		t.Errorf("limit (-want +got):\n%s", diff)
	}
	if over.Got <= over.Limit {
		t.Errorf("%d of %d are not too many", over.Got, over.Limit)
	}
}

var errTooMuch = errors.New("the codec reads on and on")

// endlessSource is the body of an endless response, up to maxEndless.
type endlessSource struct {
	event   func(int) string
	framing Framing
	n       int
	rest    []byte
	read    int
}

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
