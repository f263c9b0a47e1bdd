package providers_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestBodyDeterminesFormat reads responses with the wrong media type.
// covers: providers/209
func TestBodyDeterminesFormat(t *testing.T) {
	stream := providertest.Payloads(`{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`, "[DONE]")
	const document = `{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`
	const fault = `{"error":{"message":"m","code":"rate_limit_exceeded"}}`
	page := &providers.StreamTypeError{}
	for _, tt := range []struct {
		name, contentType, body string
		kind                    providers.ErrorKind
		cause                   any
	}{
		{"stream", "text/event-stream", stream, "", nil},
		{"stream as JSON", "application/json", stream, "", nil},
		{"stream as text", "text/plain; charset=utf-8", stream, "", nil},
		{"stream as a page", "text/html", stream, "", nil},
		{"stream behind a comment as JSON", "application/json", ": hello\n\n" + stream, "", nil},
		{"stream behind a byte order mark as JSON", "application/json", "\ufeff" + stream, "", nil},
		{"stream without a type", "", stream, "", nil},
		{"document", "application/json", document, "", nil},
		{"document as a stream", "text/event-stream", document, "", nil},
		{"document as a page", "text/html", "\n" + document, "", nil},
		{"documents in lines", "application/x-ndjson", `{"choices":[{"delta":{"content":"H"}}]}` + "\n" + `{"choices":[{"delta":{"content":"i"},"finish_reason":"stop"}]}` + "\n", "", nil},
		{"error", "application/json", fault, providers.KindRateLimit, nil},
		{"error as a stream", "text/event-stream", fault, providers.KindRateLimit, nil},
		{"error in a stream as JSON", "application/json", "data: " + fault + "\n\n", providers.KindRateLimit, nil},
		{"error at the top", "application/json", `{"message":"Too many requests","code":429}`, providers.KindRateLimit, nil},
		{"no answer", "application/json", `{"status":"ok"}`, providers.KindProtocol, nil},
		{"no object", "application/json", `[1,2]`, providers.KindProtocol, nil},
		{"cut document", "application/json", document[:40], providers.KindTruncated, nil},
		{"page", "text/html", "<html>", providers.KindProtocol, &page},
		{"page as a stream", "text/event-stream", "\n<!doctype html>", providers.KindProtocol, &page},
		{"text as a page", "text/html", "upstream is away", providers.KindProtocol, &page},
		{"nothing", "application/json", "", providers.KindTruncated, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
				}
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			p := openaicompletions.New(nil)
			defer p.Close()
			m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL}
			events, failure, broken := providertest.Collect(p.Stream(t.Context(), m, providertest.Ask("x"), providers.Options{}))
			switch {
			case broken != nil:
				t.Fatal(broken)
			case tt.kind == "" && (failure != nil || providertest.MessageOf("p/m", events).Parts[0] != providers.Part(providers.Text{Text: "Hi"})):
				t.Errorf("%s %q: got %v, %v, want Hi", tt.contentType, tt.body, events, failure)
			case tt.kind != "" && (failure == nil || failure.Kind != tt.kind || tt.cause != nil && !errors.As(failure, tt.cause)):
				t.Errorf("%s %q: got %v, want kind %s", tt.contentType, tt.body, failure, tt.kind)
			}
		})
	}
}

// TestOddities checks that each kind is reported once and without secrets.
func TestOddities(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, providertest.Payloads(`{"id":7,"choices":[{"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":"?"}}`,
			`{"id":7,"choices":[{"delta":{},"finish_reason":"sk-very-secret"}],"usage":{"prompt_tokens":"?"}}`, "[DONE]"))
	}))
	defer server.Close()
	r := providers.NewRegistry(nil)
	p := openaicompletions.New(nil)
	defer p.Close()
	r.RegisterProtocol(openaicompletions.API, p)
	if err := r.RegisterProvider("p", providers.Registration{API: openaicompletions.API, BaseURL: server.URL, APIKey: "sk-very-secret"}); err != nil {
		t.Fatal(err)
	}
	var got []providers.Oddity
	o := providers.Options{Odd: func(o providers.Oddity) { got = append(got, o) }}
	if _, failure, broken := providertest.Collect(r.Stream(t.Context(), "p/m", providertest.Ask("x"), o)); failure != nil || broken != nil {
		t.Fatal(failure, broken)
	}
	want := []providers.Oddity{{Kind: "id"}, {Kind: "usage.prompt_tokens"}, {Kind: "end", Word: "[secret]"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
