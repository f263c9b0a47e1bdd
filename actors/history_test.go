package actors_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// vendors serves models over HTTP and keeps the requests.
type vendors struct {
	fake *fakemodel.Model
	mu   sync.Mutex
	sent []string
}

func (v *vendors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	v.mu.Lock()
	v.sent = append(v.sent, string(b))
	v.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	v.fake.ServeHTTP(w, r)
}

// over makes an agent's model use HTTP.
func (v *vendors) over(tb testing.TB, o actors.Options, api string) actors.Options {
	server := httptest.NewServer(v)
	tb.Cleanup(server.Close)
	o.Providers = providers.NewRegistry(nil)
	protocols := map[string]*providers.HTTP{openaicompletions.API: openaicompletions.New(nil), anthropicmessages.API: anthropicmessages.New(nil)}
	url := server.URL
	if api == openaicompletions.API {
		url += "/v1"
	}
	for name, p := range protocols {
		tb.Cleanup(func() { _ = p.Close() })
		o.Providers.RegisterProtocol(name, p)
	}
	if err := o.Providers.RegisterProvider("test", providers.Registration{API: api, BaseURL: url, Reasoning: new(true)}); err != nil {
		tb.Fatal(err)
	}
	return o
}

// TestHistoryIsSentUnchanged: neither checkpoints that cut history nor restarts change a byte of the
// prompt.
func TestHistoryIsSentUnchanged(t *testing.T) {
	prompts := []string{
		"tokens=3", "reasoning=2 tokens=2", "tool=look {} then tokens=1", "tokens=1 status=400", `say="<b>& \u2028 größer"`, "tool=nothing tool=look {}",
	}
	rounds := sample.Of(4, 2)
	for _, api := range []string{openaicompletions.API, anthropicmessages.API} {
		t.Run(api, func(t *testing.T) {
			sent := func(checkpoint, restart int) []string {
				w, v := newWorld(t), &vendors{fake: fakemodel.New(nil)}
				look := agent.NewTool("look", "Look.", func(context.Context, struct{}) (string, error) { return "fog", nil }, nil)
				o := v.over(t, agents(chatAgent(look)), api)
				o.CheckpointBatches = checkpoint
				n := w.start(setup{opts: o})
				for i := range rounds * len(prompts) {
					n.admit(chat("c"), fmt.Sprint(i), fmt.Sprintf("%s note=%d", prompts[i%len(prompts)], i))
					w.untilSettled(chat("c"), i+1)
					if i%restart == restart-1 {
						if err := n.stop(); err != nil {
							t.Error(err)
						}
						n = w.start(setup{opts: o})
					}
				}
				return v.sent
			}
			want := sent(10_000, 10_000)
			if diff := cmp.Diff(want, sent(6, 9)); diff != "" {
				t.Errorf("(-without +with checkpoints):\n%s", diff)
			}
			if len(want) < rounds*len(prompts) {
				t.Errorf("got %d model calls", len(want))
			}
		})
	}
}

// BenchmarkTurnOverHTTP measures a short turn of a conversation with n earlier turns and a model over
// HTTP.
func BenchmarkTurnOverHTTP(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			w := newWorld(b)
			benchLong(b, w, turns)
			server := httptest.NewServer(http.HandlerFunc(instantly))
			defer server.Close()
			protocol := openaicompletions.New(nil)
			defer protocol.Close()
			o := agents(chatAgent())
			o.Providers = providers.NewRegistry(nil)
			o.Providers.RegisterProtocol(openaicompletions.API, protocol)
			if err := o.Providers.RegisterProvider("test", providers.Registration{API: openaicompletions.API, BaseURL: server.URL}); err != nil {
				b.Fatal(err)
			}
			n, i := w.start(setup{opts: o}), 0
			b.ReportAllocs()
			for b.Loop() {
				settleOn(b, n, chat("c"), n.admit(chat("c"), fmt.Sprint("b", i), "hello").Offset)
				i++
			}
			b.StopTimer()
			if err := n.stop(); err != nil {
				b.Error(err)
			}
		})
	}
}

func instantly(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for n := range 20 {
		fmt.Fprintf(w, `data: {"id":"r","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"w%d "},"finish_reason":null}]}`+"\n\n", n)
	}
	fmt.Fprint(w, `data: {"id":"r","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}
