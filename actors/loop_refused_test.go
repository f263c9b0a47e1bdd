package actors_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/edge"
)

// sizedBinding is an edge platform's binding that rejects requests above a byte limit with a status
// and a body, and answers others with a reply or a summary.
type sizedBinding struct {
	limit  *atomic.Int64
	status int
	body   string
	reply  string
}

const shortSummary = "They talked of much."

func (b sizedBinding) Run(ctx context.Context, _ string, inputs *providers.Body, _ providers.EdgeRunOptions) (*http.Response, error) {
	body := inputs.Open(ctx)
	defer body.Close()
	sent, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if int64(len(sent)) > b.limit.Load() {
		return &http.Response{StatusCode: b.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(b.body))}, nil
	}
	text := b.reply
	if strings.Contains(string(sent), "Write a summary") {
		text = shortSummary
	}
	stream := fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(stream))}, nil
}

// stream calls a model by the binding.
func (b sizedBinding) stream(ctx context.Context, req providers.Request, a *providers.Assembler) error {
	m := providers.Model{Provider: "test", ID: "model", Edge: &providers.Edge{Binding: b}}
	for e, err := range edge.New(nil).Stream(ctx, m, req, providers.Options{}) {
		if err != nil {
			return err
		}
		switch e := e.(type) {
		case providers.TextDelta:
			a.Text(e.Text)
		case providers.Done:
			a.Finish(e)
		}
	}
	return nil
}

// TestOverflowOfSmallRequests: a vendor may reject a request far smaller than the default tail that
// stays verbatim. The tail, the summary and the summarizer's prompt shrink to the rejected size, for
// any error text.
// covers: providers/148
func TestOverflowOfSmallRequests(t *testing.T) {
	const before, after = 1 << 20, 8600
	for name, refusal := range map[string]sizedBinding{
		"413 of the binding": {status: 413},
		"vendor's words":     {status: 400, body: `{"error":{"message":"prompt is too long: 1200 tokens > 1000 maximum"}}`},
		"a code":             {status: 400, body: `{"error":{"message":"m","code":"context_length_exceeded"}}`},
		"text generation":    {status: 422, body: "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096\"}"},
		"no shift":           {status: 500, body: `{"error":{"code":500,"message":"context shift is disabled"}}`},
	} {
		for sizes, tt := range map[string]struct {
			first int64 // limit of the first 12 messages
			limit int64 // limit of later ones
			chars int   // length of messages and replies
		}{
			"grows into it":    {after, after, 700},
			"a smaller model":  {before, after, 700},
			"a far smaller":    {before, 4000, 700},
			"replies are long": {before, after, 2500},
		} {
			t.Run(name+", "+sizes, func(t *testing.T) {
				inLoop(t, func(t *testing.T, l *loop) {
					b := refusal
					b.limit, b.reply = &atomic.Int64{}, strings.Repeat("r", tt.chars)
					b.limit.Store(tt.first)
					a := chatAgent() // keeps 8,000 tokens and writes its own summaries
					n := l.run(part{opts: agents(a), vendor: onlyModel(b.stream)})
					for i := 1; i <= 20; i++ {
						if i > 12 {
							b.limit.Store(tt.limit)
						}
						n.admit(chat("c"), fmt.Sprint(i), strings.Repeat("m", min(tt.chars, 700)))
						if s := l.settles(chat("c"), i)[i-1]; s.Outcome != conversation.OutcomeCompleted {
							t.Fatalf("message %d: got outcome %s with %+v", i, s.Outcome, s.Error)
						}
					}
					if len(only[*conversation.Compacted](l.records(chat("c")))) == 0 {
						t.Error("got no compaction")
					}
				})
			})
		}
	}
}

// TestOverflowOfOneMessage: a single message that is too long fails with that reason, first or later;
// the next one is answered.
// covers: providers/148
func TestOverflowOfOneMessage(t *testing.T) {
	for _, earlier := range []int{0, 3} {
		t.Run(fmt.Sprintf("behind %d", earlier), func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				b := sizedBinding{limit: &atomic.Int64{}, status: 413, reply: "yes"}
				b.limit.Store(8600)
				n := l.run(part{opts: agents(chatAgent()), vendor: onlyModel(b.stream)})
				for i := 1; i <= earlier; i++ {
					n.admit(chat("c"), fmt.Sprint(i), words("hello"))
					l.completes(chat("c"), i)
				}
				n.admit(chat("c"), "long", strings.Repeat("x", 9000))
				s := l.settles(chat("c"), earlier+1)[earlier]
				if s.Outcome != conversation.OutcomeFailed || s.Error.Type != conversation.CodeModelFailed || s.Error.Message != textMessageTooLong {
					t.Errorf("got outcome %s with %+v, want %q", s.Outcome, s.Error, textMessageTooLong)
				}
				n.admit(chat("c"), "next", words("hello"))
				if s := l.settles(chat("c"), earlier+2)[earlier+1]; s.Outcome != conversation.OutcomeCompleted {
					t.Errorf("next message: got outcome %s with %+v", s.Outcome, s.Error)
				}
			})
		})
	}
}

// TestCompactionOfASmallWindow: in a window smaller than the default tail, a shorter tail stays
// verbatim, so that a conversation is compacted before the vendor rejects it.
func TestCompactionOfASmallWindow(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		n := l.run(part{opts: agents(chatAgent()), vendor: onlyModel(repliesAt(words("yes"), much)), windows: window})
		for i := 1; i <= 8; i++ {
			n.admit(chat("c"), fmt.Sprint(i), strings.Repeat("m", 400))
			l.completes(chat("c"), i)
		}
		l.until("a compaction", func() bool { return len(only[*conversation.Compacted](l.records(chat("c")))) > 0 })
	})
}
