package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

func textMessage(role providers.Role, text string) providers.Message {
	return providers.Message{Role: role, Parts: []providers.Part{providers.Text{Text: text}}}
}

// joined is the encoding of the tests, a type of its own like that of a codec.
type joined string

type encodings struct {
	n    int
	size int64
}

func (e *encodings) of(b *providers.Block, m providers.Model, fits bool) (joined, error) {
	return providers.EncodeBlock(b, m, func(joined) bool { return fits }, func(messages []providers.Message) (joined, int64, error) {
		e.n++
		return joined(fmt.Sprint(len(messages), messages[0].Parts)), e.size, nil
	})
}

func TestBlockIsEncodedOnce(t *testing.T) {
	b := providers.NewBlock([]providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{
		providers.Text{Text: "see"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("x")},
	}}})
	reads := providers.Model{Provider: "p", ID: "m"}
	sees := providers.Model{Provider: "p", ID: "m", Input: []string{providers.InputText, providers.InputImage}}
	other := providers.Model{Provider: "p", ID: "other"}
	e := &encodings{size: 7}
	for i, step := range []struct {
		m     providers.Model
		fits  bool
		again bool
	}{
		{m: reads, fits: true, again: true},
		{m: reads, fits: true},
		{m: reads, fits: false, again: true},
		{m: sees, fits: true, again: true},
		{m: other, fits: true, again: true},
		{m: other, fits: true},
	} {
		before := e.n
		got, err := e.of(b, step.m, step.fits)
		if err != nil {
			t.Fatal(err)
		}
		if (e.n > before) != step.again {
			t.Errorf("step %d: got another encoding: %v, want %v", i, e.n > before, step.again)
		}
		if placed := strings.Contains(string(got), "left out"); placed == (step.m.Input != nil) {
			t.Errorf("step %d: got %s", i, got)
		}
	}
	if _, err := providers.EncodeBlock(b, other, func(string) bool { return true }, func([]providers.Message) (string, int64, error) {
		return "", 9, nil
	}); err != nil || b.EncodedBytes() != 9 {
		t.Errorf("other codec: got %d bytes, %v, want 9", b.EncodedBytes(), err)
	}
	b.Evict()
	if n := b.EncodedBytes(); n != 0 {
		t.Errorf("got %d bytes after Evict", n)
	}
	failure := errors.New("failure")
	if _, err := providers.EncodeBlock(b, other, func(string) bool { return true }, func([]providers.Message) (string, int64, error) {
		return "half", 4, failure
	}); err != failure || b.EncodedBytes() != 0 {
		t.Errorf("got %v and %d bytes, want nothing kept of a failure", err, b.EncodedBytes())
	}
}

func TestBlockIsSafeForConcurrentUse(t *testing.T) {
	b := providers.NewBlock([]providers.Message{textMessage(providers.RoleUser, "x")})
	var calls sync.WaitGroup
	for n := range 8 {
		calls.Go(func() {
			e := &encodings{size: 1}
			m := providers.Model{Provider: "p", ID: fmt.Sprint(n % 2)}
			if got, err := e.of(b, m, true); err != nil || got != "1 [{x }]" {
				t.Errorf("got %q, %v", got, err)
			}
			b.Evict()
		})
	}
	calls.Wait()
}

// listener is a protocol without support for history.
type listener struct{ got providers.Request }

// Stream implements providers.Protocol.
func (l *listener) Stream(ctx context.Context, m providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		l.got = req
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

func TestHistoryIsOneListForOtherProtocols(t *testing.T) {
	r, l := providers.NewRegistry(nil), &listener{}
	r.RegisterProtocol("test", l)
	if err := r.RegisterProvider("p", providers.Registration{API: "test", BaseURL: "test:"}); err != nil {
		t.Fatal(err)
	}
	one, two, three := textMessage(providers.RoleUser, "1"), textMessage(providers.RoleAssistant, "2"), textMessage(providers.RoleUser, "3")
	req := providers.Request{
		System: "s", Messages: []providers.Message{three},
		History: []*providers.Block{providers.NewBlock([]providers.Message{one, two}), providers.NewBlock(nil)},
	}
	for _, err := range r.Stream(t.Context(), "p/m", req, providers.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := providers.Request{System: "s", Messages: []providers.Message{one, two, three}}
	if diff := cmp.Diff(want, l.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBodiesWithinABody places bodies next to images.
func TestBodiesWithinABody(t *testing.T) {
	inner := body(t, "inner", providers.Bytes("first"))
	cut := inner.Inner(1, len("}\n"))
	var e providers.BodyEncoder
	got, err := e.Encode(map[string]any{
		"a": e.Place(providers.NewBody("{"), cut, providers.NewBody("}")),
		"b": e.Base64(providers.Image{Content: providers.Bytes("second")}),
		"c": e.Place(providers.NewBody(`"<>"`)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":{"text":"inner","images":["data:image/png;base64,Zmlyc3Q="]},"b":"c2Vjb25k","c":"<>"}` + "\n"
	r := got.Open(t.Context())
	defer r.Close()
	b, err := io.ReadAll(r)
	if string(b) != want || err != nil || got.Size() != int64(len(want)) {
		t.Errorf("got %s and %d, %v; want %s and %d", b, got.Size(), err, want, len(want))
	}
	if text := int64(len(want) - len("Zmlyc3Q=") - len("c2Vjb25k")); got.TextBytes() != text {
		t.Errorf("%d bytes in memory, want %d", got.TextBytes(), text)
	}
	if cut.Size() != inner.Size()-3 {
		t.Errorf("inner part: got size %d, want %d", cut.Size(), inner.Size()-3)
	}
}

// TestReadReturnsAvailableBytes checks that a Read merges small parts and does not wait for an image.
func TestReadReturnsAvailableBytes(t *testing.T) {
	var e providers.BodyEncoder
	image := &content{size: 3, bytes: strings.NewReader("abc")}
	b, err := e.Encode([]any{e.Place(providers.NewBody("1,"), providers.NewBody("2,"), providers.NewBody("3")), e.Base64(providers.Image{Content: image})})
	if err != nil {
		t.Fatal(err)
	}
	r := b.Open(t.Context())
	defer r.Close()
	p := make([]byte, 100)
	n, err := r.Read(p)
	if got := string(p[:n]); got != `[1,2,3,"` || err != nil {
		t.Errorf("first read: got %q, %v", got, err)
	}
}
