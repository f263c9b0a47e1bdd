package http_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	parleyhttp "github.com/parleyrun/parley/http"
)

func TestUnavailable(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{0, "1"}, {time.Millisecond, "1"}, {time.Second, "1"}, {1500 * time.Millisecond, "2"}} {
		h := parleyhttp.Unavailable(tt.after)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/any/path?wait=1", strings.NewReader("{")))
			head := w.Header()
			if w.Code != http.StatusServiceUnavailable || head.Get("Retry-After") != tt.want {
				t.Errorf("%s after %v: %d, Retry-After %q; want 503 and %q", method, tt.after, w.Code, head.Get("Retry-After"), tt.want)
			}
			if head.Get("Content-Type") != "application/json" || head.Get("Cache-Control") != "no-store" || head.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: header %v", method, head)
			}
			if method == http.MethodHead {
				if w.Body.Len() != 0 {
					t.Errorf("HEAD has body %q", w.Body)
				}
				continue
			}
			var got struct {
				Error struct{ Type, Message, Details, Ref, Dev string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v: %q", method, err, w.Body)
			}
			if e := got.Error; e.Type != "runtime_unavailable" || e.Message == "" || e.Details == "" || e.Ref != "" || e.Dev != "" {
				t.Errorf("%s: got error %+v", method, e)
			}
		}
	}
}
