package providertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// Ask returns a request with one user message.
func Ask(text string) providers.Request {
	return providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}}}
}

// Asking returns the Subject of a vendor that responds to the messages "text", "reasoning", "call" and
// "long".
func Asking(p providers.Protocol, m providers.Model) Subject {
	return Subject{Protocol: p, Model: m, Text: Ask("text"), Reasoning: Ask("reasoning"), Call: Ask("call"), Long: Ask("long")}
}

// Answer sends the response with the requested name. The one named "long" ends only when the client
// leaves.
func Answer(w http.ResponseWriter, r *http.Request, asked string, responses map[string]string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, responses[asked]) // the client may be gone
	w.(http.Flusher).Flush()
	if asked == "long" {
		<-r.Context().Done()
	}
}

// Serve starts a vendor and returns its address. At the end of the test it is closed after the
// protocol.
func Serve(t *testing.T, p io.Closer, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// Starter starts a vendor and returns a protocol and a model for it.
type Starter[P providers.Protocol] func(*testing.T, http.HandlerFunc) (P, providers.Model)

// Refused returns the error of a call to which the vendor responds with a status. It verifies the
// status and the body.
func Refused[P providers.Protocol](t *testing.T, start Starter[P], status int, header map[string]string, body string) *providers.Error {
	t.Helper()
	p, m := start(t, func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	_, e, broken := Collect(p.Stream(t.Context(), m, Ask("x"), providers.Options{}))
	if broken != nil || e == nil {
		t.Fatalf("got %v, %v, want an error", e, broken)
	}
	if e.Status != status || e.Provider != m.Provider || string(e.Body) != body {
		t.Errorf("got %+v", e)
	}
	return e
}

// RunBroken verifies that a connection that breaks after a part with one event yields that event and a
// retryable error.
func RunBroken[P providers.Protocol](t *testing.T, start Starter[P], part string) {
	t.Helper()
	p, m := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, part)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	events, e, broken := Collect(p.Stream(t.Context(), m, Ask("x"), providers.Options{}))
	if broken != nil || e == nil || !e.Retryable() || len(events) != 1 {
		t.Errorf("got %d events, %v, %v, want one and a retryable error", len(events), e, broken)
	}
}
