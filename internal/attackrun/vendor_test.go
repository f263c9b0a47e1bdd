package attackrun_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/fakemodel"
)

// endlessDelta is the size of a delta of an endless model, in bytes.
const endlessDelta = 16 << 10

// endlessModels serves models that never end, with text or with the arguments of a call.
func endlessModels() http.Handler {
	body := strings.Repeat("on and ", endlessDelta/7)
	mux := http.NewServeMux()
	mux.HandleFunc("/text/", endless(fmt.Sprintf(`{"content":%q}`, body)))
	mux.HandleFunc("/arguments/", endless(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"utter","arguments":%q}}]}`, body)))
	return mux
}

// newVendor starts the vendor of the scripted models.
func newVendor(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("/v1/", fakemodel.New(&fakemodel.Options{MaxRequests: 1}))
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// endless repeats a delta until the caller disconnects.
func endless(delta string) http.HandlerFunc {
	event := "data: {\"choices\":[{\"delta\":" + delta + "}]}\n\n"
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
		}
	}
}
