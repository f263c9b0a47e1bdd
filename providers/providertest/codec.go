package providertest

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// Recording is a complete response of a vendor.
type Recording struct {
	Codec providers.Codec
	// Body is the response. Server-sent events have LF line ends, and a blank line after each event.
	Body []byte
	// Framing is the framing of events; nil means SSE.
	Framing Framing
	// Complete is the number of bytes after which the response is complete. If the stream ends there
	// or later, the codec may report Done.
	Complete int
}

// RunCodec verifies that the response decodes the same in each framing, and that a truncated response
// is never reported as complete.
func RunCodec(t *testing.T, r Recording) {
	want, err := decode(r.Codec, bytes.NewReader(r.Body))
	if err != nil {
		t.Fatalf("recording: %v", err)
	}
	if err := Check(want, nil); err != nil {
		t.Fatalf("recording: %v", err)
	}
	t.Run("framing", func(t *testing.T) { testFraming(t, r, want) })
	t.Run("cut anywhere", func(t *testing.T) { testCut(t, r, want) })
	t.Run("broken connection", func(t *testing.T) { testBroken(t, r) })
}

func decode(c providers.Codec, src io.Reader) ([]providers.Event, error) {
	var events []providers.Event
	a := providers.NewAssembler(func(e providers.Event) bool {
		events = append(events, e)
		return true
	})
	err := c.Decode(src, a)
	return events, err
}

func testFraming(t *testing.T, r Recording, want []providers.Event) {
	sources := map[string]io.Reader{
		"byte by byte":              iotest.OneByteReader(bytes.NewReader(r.Body)),
		"error comes with the last": iotest.DataErrReader(bytes.NewReader(r.Body)),
	}
	for name, body := range framingOr(r.Framing).Variants(r.Body) {
		sources[name] = bytes.NewReader(body)
		sources[name+", byte by byte"] = iotest.OneByteReader(bytes.NewReader(body))
	}
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			got, err := decode(r.Codec, src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// testCut ends the stream cleanly after each byte, as a proxy does that times out.
func testCut(t *testing.T, r Recording, want []providers.Event) {
	for n := range r.Body {
		// Each cut uses a new source and the whole path of a stream.
		stream := providers.NewStream(t.Context(), providers.Model{Provider: "p"}, func(a *providers.Assembler) error {
			return r.Codec.Decode(bytes.NewReader(r.Body[:n]), a)
		})
		events, failure, broken := Collect(stream)
		if broken != nil {
			t.Fatalf("cut at %d: %v", n, broken)
		}
		if failure == nil {
			if n < r.Complete {
				t.Fatalf("cut at %d of %d: Done", n, r.Complete)
			}
			continue
		}
		if failure.Kind != providers.KindTruncated {
			t.Fatalf("cut at %d: error %v, want kind %s", n, failure, providers.KindTruncated)
		}
		begun := append([]providers.Event(nil), want[:min(len(events), len(want))]...)
		if diff := cmp.Diff(begun, events); diff != "" {
			t.Fatalf("cut at %d: not a prefix of the complete events (-want +got):\n%s", n, diff)
		}
	}
}

// testBroken breaks the connection after each byte before the response is complete.
func testBroken(t *testing.T, r Recording) {
	reset := errors.New("connection reset")
	for n := range r.Complete {
		src := io.MultiReader(bytes.NewReader(r.Body[:n]), iotest.ErrReader(reset))
		events, err := decode(r.Codec, src)
		if !errors.Is(err, reset) {
			t.Fatalf("broken at %d: got %v, want the connection error", n, err)
		}
		for _, e := range events {
			if _, ok := e.(providers.Done); ok {
				t.Fatalf("broken at %d: Done", n)
			}
		}
	}
}
