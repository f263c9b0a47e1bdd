package http_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	parleyhttp "github.com/parleyrun/parley/http"
)

// TestNoRoute checks that a developer gets the agents' paths, and other callers do not.
func TestNoRoute(t *testing.T) {
	for _, dev := range []bool{true, false} {
		h, err := parleyhttp.New(nil, nil, []parleyhttp.Mount{{Path: "/agents/echo", Agent: "echo"}, {Path: "/desk", Agent: "desk"}}, &parleyhttp.Options{Dev: dev})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/agents/ecco/x", nil))
		if named := strings.Contains(w.Body.String(), "Agents are at /agents/echo/<id>, /desk/<id>."); w.Code != http.StatusNotFound || named != dev {
			t.Errorf("dev %v: got status %d, body %s", dev, w.Code, w.Body)
		}
	}
}
