package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
)

// API is the slug of the protocol.
const API = "demo"

// DefaultPace is the time per word, about that of a vendor's model.
const DefaultPace = 30 * time.Millisecond

// MaxLong is the highest number the model counts to.
const MaxLong = 10_000

// Registration returns the registration of the demo provider.
func Registration() providers.Registration {
	return providers.Registration{
		API:           API,
		BaseURL:       "demo:", // required; there is no endpoint
		ContextWindow: new(1_000_000),
		MaxTokens:     new(100_000),
		Reasoning:     new(true),
		Input:         []string{providers.InputText, providers.InputImage},
	}
}

// Demo is the protocol.
type Demo struct{ pace time.Duration }

// New returns a Demo that waits pace before each word. 0 or less means no delay.
func New(pace time.Duration) *Demo { return &Demo{pace: pace} }

// Register registers the model as demo/parrot, or any other id of the provider, with a pause before
// each word.
func Register(r *providers.Registry, pace time.Duration) error {
	r.RegisterProtocol(API, New(pace))
	return r.RegisterProvider("demo", Registration())
}

// Stream implements providers.Protocol.
func (d *Demo) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		treq, _ := providers.Transform(m, req, o)
		s := &emitter{out: a, pause: func() error { return pause(ctx, d.pace) }}
		s.answer(treq)
		if s.err != nil {
			return s.err
		}
		reason := providers.StopStop
		if s.called {
			reason = providers.StopToolUse
		}
		a.Finish(providers.Done{
			StopReason:    reason,
			Usage:         providers.Usage{Input: countWords(treq), Output: s.words, Reasoning: s.thought},
			ResponseID:    responseID(treq),
			ResponseModel: m.ID,
		})
		return nil
	})
}

// emitter streams one response word by word. After an error it streams nothing.
type emitter struct {
	out *providers.Assembler
	// pause waits before a word; its error ends the response.
	pause func() error

	answered bool
	called   bool
	words    int64
	thought  int64
	err      error
}

// emit streams text word by word, separated by spaces from earlier text.
func (s *emitter) emit(text string) {
	for i, word := range strings.SplitAfter(text, " ") {
		if i == 0 && s.answered {
			word = " " + word
		}
		if !s.wait() {
			return
		}
		s.words++
		s.answered = true
		s.out.Text(word)
	}
}

func (s *emitter) think(text string) {
	for _, word := range strings.SplitAfter(text, " ") {
		if !s.wait() {
			return
		}
		s.words++
		s.thought++
		s.out.Reasoning(word, "demo")
	}
}

func (s *emitter) call(id, name string) {
	if s.wait() {
		s.called = true
		s.out.CallArguments(s.out.StartCall(id, name), "{}")
	}
}

// wait pauses and reports whether to continue.
func (s *emitter) wait() bool {
	if s.err == nil && !s.out.Stopped() {
		s.err = s.pause()
	}
	return s.err == nil && !s.out.Stopped()
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// responseID returns a hash of all readable content of a request.
func responseID(req providers.Request) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q", req.System)
	for _, t := range req.Tools {
		fmt.Fprintf(h, "%q%q", t.Name, t.Description)
	}
	for _, m := range req.Messages {
		fmt.Fprintf(h, "%s%q", m.Role, textOf(m.Parts))
	}
	return fmt.Sprintf("demo_%016x", h.Sum64())
}

func countWords(req providers.Request) int64 {
	n := len(strings.Fields(req.System))
	for _, t := range req.Tools {
		n += len(strings.Fields(t.Name + " " + t.Description))
	}
	for _, m := range req.Messages {
		n += len(strings.Fields(textOf(m.Parts)))
	}
	return int64(n)
}

// textOf joins the readable content of parts.
func textOf(parts []providers.Part) string {
	var texts []string
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			texts = append(texts, p.Text)
		case providers.Image:
			texts = append(texts, "(an image)")
		case providers.ToolCall:
			texts = append(texts, p.Name+string(p.Arguments))
		case providers.ToolResult:
			texts = append(texts, textOf(p.Content))
		}
	}
	return strings.Join(texts, " ")
}
