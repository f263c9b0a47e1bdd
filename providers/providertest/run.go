package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// Subject is a protocol under test, with the requests that the suite needs.
type Subject struct {
	Protocol providers.Protocol
	Model    providers.Model
	// Text gets a response with text only, the same text each time.
	Text providers.Request
	// Reasoning gets reasoning, then text. It may be empty for a protocol without reasoning.
	Reasoning providers.Request
	// Call gets at least one tool call.
	Call providers.Request
	// Long gets some text and then an unbounded stream, which ends only when the test aborts it.
	Long providers.Request
}

// Run verifies the guarantees of providers.Protocol. newSubject is called once for each subtest and
// may register cleanup functions.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	for name, rule := range map[string]func(*testing.T, Subject){
		"text":                             testText,
		"reasoning before text":            testReasoning,
		"tool call":                        testCall,
		"aborted before the start":         testAbortedBefore,
		"abort ends the stream":            testAbort,
		"break ends the stream":            testBreak,
		"streams are independent":          testConcurrent,
		"request is not changed":           testUnchanged,
		"nothing happens before the range": testLazy,
		"image cannot be read":             testImage,
	} {
		t.Run(name, func(t *testing.T) { rule(t, newSubject(t)) })
	}
}

func (s Subject) stream(ctx context.Context, req providers.Request) func(func(providers.Event, error) bool) {
	return s.Protocol.Stream(ctx, s.Model, req, providers.Options{APIKey: "key", ThinkingLevel: providers.ThinkingLow})
}

func (s Subject) mustFinish(t *testing.T, req providers.Request) []providers.Event {
	t.Helper()
	events, failure, broken := Collect(s.stream(t.Context(), req))
	if broken != nil {
		t.Fatal(broken)
	}
	if failure != nil {
		t.Fatalf("got error %v after %d events", failure, len(events))
	}
	return events
}

func testText(t *testing.T, s Subject) {
	events := s.mustFinish(t, s.Text)
	for _, e := range events[:len(events)-1] {
		if _, ok := e.(providers.TextDelta); !ok {
			t.Errorf("got %T, want text only", e)
		}
	}
	if len(events) < 2 {
		t.Error("got no text")
	}
	if done := events[len(events)-1].(providers.Done); done.StopReason != providers.StopStop {
		t.Errorf("stop reason %q, want %q", done.StopReason, providers.StopStop)
	}
}

func testReasoning(t *testing.T, s Subject) {
	if len(s.Reasoning.Messages) == 0 {
		return
	}
	events := s.mustFinish(t, s.Reasoning)
	if _, ok := events[0].(providers.ReasoningDelta); !ok {
		t.Errorf("got %T first, want reasoning", events[0])
	}
	if _, ok := events[len(events)-2].(providers.TextDelta); !ok {
		t.Errorf("got %T last, want text", events[len(events)-2])
	}
}

func testCall(t *testing.T, s Subject) {
	events := s.mustFinish(t, s.Call)
	if done := events[len(events)-1].(providers.Done); done.StopReason != providers.StopToolUse {
		t.Errorf("stop reason %q, want %q", done.StopReason, providers.StopToolUse)
	}
	for _, e := range events {
		if end, ok := e.(providers.ToolCallEnd); ok && (end.Malformed || end.Name == "" || end.ID == "") {
			t.Errorf("got invalid call %+v", end)
		}
	}
}

var errCause = errors.New("aborted by the test")

func checkAborted(t *testing.T, failure *providers.Error, broken error) {
	t.Helper()
	switch {
	case broken != nil:
		t.Error(broken)
	case failure == nil || failure.Kind != providers.KindAborted:
		t.Errorf("got error %v, want kind %s", failure, providers.KindAborted)
	case failure.Retryable():
		t.Error("got a retryable error of an abort")
	case !errors.Is(failure, errCause):
		t.Errorf("got error %v, want one that wraps the cause", failure)
	}
}

func testAbortedBefore(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	events, failure, broken := Collect(s.stream(ctx, s.Text))
	checkAborted(t, failure, broken)
	if len(events) > 0 {
		t.Errorf("got %d events", len(events))
	}
}

func testAbort(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := 0
	events, failure, broken := Collect(func(yield func(providers.Event, error) bool) {
		for e, err := range s.stream(ctx, s.Long) {
			if seen++; seen == 1 {
				cancel(errCause)
			}
			if !yield(e, err) {
				return
			}
		}
	})
	checkAborted(t, failure, broken)
	if len(events) != 1 {
		t.Errorf("got %d events, want none after the abort", len(events)-1)
	}
}

func testBreak(t *testing.T, s Subject) {
	for e, err := range s.stream(t.Context(), s.Long) {
		if err != nil {
			t.Fatalf("got %v, %v", e, err)
		}
		break // To continue would panic in the loop itself.
	}
}

func testConcurrent(t *testing.T, s Subject) {
	want := text(s.mustFinish(t, s.Text))
	results := make([]error, 8)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			events, failure, broken := Collect(s.stream(t.Context(), s.Text))
			switch got := text(events); {
			case broken != nil:
				results[i] = broken
			case failure != nil:
				results[i] = failure
			case got != want:
				results[i] = fmt.Errorf("got %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(results...); err != nil {
		t.Error(err)
	}
}

func text(events []providers.Event) string {
	s := ""
	for _, e := range events {
		if d, ok := e.(providers.TextDelta); ok {
			s += d.Text
		}
	}
	return s
}

// testUnchanged sends a history that needs many repairs.
func testUnchanged(t *testing.T, s Subject) {
	build := func() providers.Request {
		req := s.Text
		req.Messages = append([]providers.Message{
			{Role: providers.RoleUser, Parts: []providers.Part{
				providers.Text{Text: "look"}, providers.Image{MimeType: "image/png", Content: providers.Bytes{1, 2}},
			}},
			{Role: providers.RoleAssistant, Model: "other/model", Parts: []providers.Part{
				providers.Reasoning{Text: "hm", Signature: "s"}, providers.Text{},
				providers.ToolCall{ID: "a", Name: "n", Arguments: []byte(`[1]`)},
				providers.ToolCall{ID: "a", Name: "n", Arguments: []byte(`{}`)},
			}},
			{Role: providers.RoleTool, Parts: []providers.Part{
				providers.ToolResult{CallID: "a", Name: "n", Content: []providers.Part{providers.Image{MimeType: "image/png"}}},
				providers.ToolResult{CallID: "b", Name: "n"},
			}},
		}, s.Text.Messages...)
		return req
	}
	req := build()
	s.mustFinish(t, req)
	if diff := cmp.Diff(build(), req); diff != "" {
		t.Errorf("the stream modified the request (-before +after):\n%s", diff)
	}
}

// testLazy cancels the context between Stream and range. If the call began in Stream, text would
// arrive.
func testLazy(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stream := s.stream(ctx, s.Text)
	cancel(errCause)
	events, failure, broken := Collect(stream)
	checkAborted(t, failure, broken)
	if len(events) > 0 {
		t.Errorf("got %d events", len(events))
	}
}

// withheld is the content of an image whose reader fails.
type withheld struct {
	err    error
	opened atomic.Int32
	closed atomic.Int32
}

func (*withheld) Size() int64 { return 1 << 20 }

func (w *withheld) Open(context.Context) (io.ReadCloser, error) {
	w.opened.Add(1)
	return w, nil
}

func (w *withheld) Read([]byte) (int, error) { return 0, w.err }

func (w *withheld) Close() error {
	w.closed.Add(1)
	return nil
}

// testImage sends an image whose reader fails. A protocol that reads images reports the image, not the
// vendor. Protocols without images need not read it.
func testImage(t *testing.T, s Subject) {
	reason := errors.New("disk failed")
	for kind, err := range map[providers.ErrorKind]error{
		providers.KindImageUnreadable:  reason,
		providers.KindImageUnavailable: fmt.Errorf("%w: %w", providers.ErrUnavailable, reason),
	} {
		content := &withheld{err: err}
		req := s.Text
		req.Messages = append([]providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{
			providers.Text{Text: "look"}, providers.Image{MimeType: "image/png", Content: content},
		}}}, s.Text.Messages...)
		_, failure, broken := Collect(s.stream(t.Context(), req))
		switch {
		case broken != nil:
			t.Error(broken)
		case content.opened.Load() == 0 && failure == nil:
		case failure == nil || failure.Kind != kind || !errors.Is(failure, reason):
			t.Errorf("got error %v, want kind %s", failure, kind)
		case failure.Retryable() != errors.Is(err, providers.ErrUnavailable):
			t.Errorf("error of kind %s: got retryable %v", kind, failure.Retryable())
		}
		if opened, closed := content.opened.Load(), content.closed.Load(); opened != closed {
			t.Errorf("got %d opens and %d closes of the image", opened, closed)
		}
	}
}
