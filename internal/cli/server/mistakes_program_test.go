package server

import (
	"bytes"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
)

// A handler or a middleware of the program that panics or exits fails only its request, with a 500 if
// the response has not begun.
func TestMistakesOfHandlers(t *testing.T) {
	type handler = func(http.ResponseWriter, *http.Request)
	for name, c := range map[string]struct {
		act    handler
		status int // 0 for a broken connection
	}{
		"panics":              {func(http.ResponseWriter, *http.Request) { panic("a defect") }, 500},
		"exits":               {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 500},
		"panics after a hint": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); panic("a defect") }, 500},
		"panics in mid-reply": {func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic("a defect")
		}, 0},
		"aborts":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"answers": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, 202},
	} {
		for as, p := range map[string]*cli.Program{
			"mount":      {Mounts: map[string]http.Handler{"GET /x": http.HandlerFunc(c.act)}},
			"middleware": {Middleware: []func(http.Handler) http.Handler{func(http.Handler) http.Handler { return http.HandlerFunc(c.act) }}},
			"next":       {Middleware: []func(http.Handler) http.Handler{func(next http.Handler) http.Handler { return next }}},
		} {
			var logged bytes.Buffer
			s := httptest.NewUnstartedServer(extended(p, muxOf(p.Mounts), http.HandlerFunc(c.act)))
			s.Config.ErrorLog = log.New(&logged, "", 0)
			s.Start()
			resp, err := http.Get(s.URL + "/x")
			status := 0
			if err == nil {
				body := new(bytes.Buffer)
				_, err = body.ReadFrom(resp.Body)
				resp.Body.Close()
				if status = resp.StatusCode; status == 500 && !strings.Contains(body.String(), `"type":"internal_error"`) {
					t.Errorf("a %s that %s: got the body %s, want an error envelope", as, name, body)
				}
			}
			s.Close()
			if broken := c.status == 0; broken != (err != nil) || !broken && status != c.status {
				t.Errorf("a %s that %s: got status %d, %v, want %d", as, name, status, err, c.status)
			}
			if has := strings.Contains(logged.String(), "of the program"); has != (c.status == 500 || name == "panics in mid-reply") {
				t.Errorf("a %s that %s: the log has %q", as, name, logged.String())
			}
		}
	}
}

// Every request fails, because the middleware may authenticate callers.
func TestMiddlewareThatCannotBeMade(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"panics": func(http.Handler) http.Handler { panic("a defect") }, "exits": func(http.Handler) http.Handler { runtime.Goexit(); return nil },
		"returns nil": func(http.Handler) http.Handler { return nil },
	} {
		h := extended(&cli.Program{Middleware: []func(http.Handler) http.Handler{wrap}}, nil, teapot())
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != http.StatusInternalServerError {
			t.Errorf("a middleware that %s: got %d, want 500", name, w.Code)
		}
	}
}
