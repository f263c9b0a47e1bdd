package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// TestPreflightOfEveryRoute checks that a preflight passes without a token on each route, those of programs included, and
// allows the method that the page asks for.
func TestPreflightOfEveryRoute(t *testing.T) {
	const page = "https://app.example.com"
	conf := &config.Server{CORS: config.CORS{Origins: []string{page}}, Auth: config.Auth{Bearer: "t"}}
	h := guarded(pageOf{conf: conf, how: manner{program: &cli.Program{}, dev: false}}, teapot())
	for path, methods := range map[string]string{
		"/agents/a/c1": "GET HEAD POST", "/agents/a/c1/abort": "POST", "/agents/a/c1/attachments/att_1": "GET", "/workflows/w": "POST",
		"/runs/run_1": "GET HEAD POST", "/runs/run_1/abort": "POST", "/beta/agents/a/c1": "GET HEAD POST", "/beta/runs/run_1": "GET",
		"/channels/shop/webhook": "POST", "/orders/1": "PUT PATCH DELETE", "/": "GET",
	} {
		for _, method := range strings.Fields(methods) {
			r := httptest.NewRequest(http.MethodOptions, path, nil)
			r.Header.Set("Origin", page)
			r.Header.Set("Access-Control-Request-Method", method)
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			allowed := strings.Split(w.Header().Get("Access-Control-Allow-Methods"), ", ")
			if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != page || !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+method+" ") {
				t.Errorf("OPTIONS %s for %s: got %d, allowed %q, want 204 and the method in it", path, method, w.Code, allowed)
			}
		}
	}
}
