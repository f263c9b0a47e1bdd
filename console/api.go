package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Server is what the page begins with.
type Server struct {
	// Mode is "dev" or "serve".
	Mode    string `json:"mode"`
	Version string `json:"version"`
	// Folder tells that there are endpoints for what a node has.
	Folder bool    `json:"folder,omitempty"`
	Agents []Agent `json:"agents"`
	// Demo tells that the agent is the demo's.
	Demo bool `json:"demo,omitempty"`
	// File is the configuration that is served, and again when it changes; "" without one.
	File string `json:"file,omitempty"`
	// Headers are the names of request headers that cors of the configuration adds; copied
	// commands and programs send them, with values of environment variables.
	Headers []string `json:"headers,omitempty"`
	// Problems are what is wrong with the file as it is now, while what it said before serves.
	Problems []Problem `json:"problems,omitempty"`
}

// Agent is an agent that people can talk to.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model"`
	Mounts      []string `json:"mounts"`
	// InitialData is the JSON schema of what a conversation begins with.
	InitialData json.RawMessage `json:"initialData,omitempty"`
}

// Problem is a mistake in a configuration. Line and Column count from 1; 0 is nowhere in particular.
type Problem struct {
	Text   string `json:"text"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Endpoint answers a GET with a value, as JSON. An error that is an [*Error] says what the client is told; another
// one is answered with its text.
type Endpoint func(r *http.Request) (any, error)

// Error is an answer of an endpoint that is none.
type Error struct {
	Status           int
	Type             string
	Message, Details string
}

// Error implements error.
func (e *Error) Error() string { return e.Message + " " + e.Details }

// API serves endpoints by their names below Prefix + "api/", and everything else as next does. Whoever may use
// the server may call them, if no page of another origin does it in their name.
func API(next http.Handler, endpoints map[string]Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, Prefix+"api/")
		endpoint := endpoints[name]
		if !ok || endpoint == nil {
			next.ServeHTTP(w, r)
			return
		}
		v, err := answer(endpoint, r)
		reply(w, r, v, err)
	})
}

func answer(endpoint Endpoint, r *http.Request) (any, error) {
	if !own(r) {
		return nil, &Error{http.StatusForbidden, "forbidden", "The request is not allowed.", "It comes from a page of another origin."}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, &Error{http.StatusMethodNotAllowed, "method_not_allowed", "The route does not accept this method.", "This route accepts GET, HEAD."}
	}
	return endpoint(r)
}

// own reports whether a request is of the page itself, or of no page at all.
func own(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}

// reply writes a value, or an error in the form of the protocol.
func reply(w http.ResponseWriter, r *http.Request, v any, err error) {
	status := http.StatusOK
	if err != nil {
		var known *Error
		if !errors.As(err, &known) {
			known = &Error{http.StatusInternalServerError, "internal_error", "The server failed to answer the request.", err.Error()}
		}
		if status = known.Status; status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD")
		}
		v = map[string]any{"error": map[string]any{"type": known.Type, "message": known.Message, "details": known.Details}}
	}
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, fmt.Appendf(nil, `{"error":{"type":"internal_error","message":"The answer cannot be encoded.","details":%q}}`, err.Error())
	}
	h := w.Header()
	harden(h)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
