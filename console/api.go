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

// Server is the initial data of the page.
type Server struct {
	// Mode is "dev" or "serve".
	Mode    string `json:"mode"`
	Version string `json:"version"`
	// Folder reports whether there are endpoints for the data of the node.
	Folder bool    `json:"folder,omitempty"`
	Agents []Agent `json:"agents"`
	// Demo reports whether the agent is the demo agent.
	Demo bool `json:"demo,omitempty"`
	// File is the served configuration, which is reloaded when it changes; "" without one.
	File string `json:"file,omitempty"`
	// Headers are the names of request headers that cors of the configuration adds. Copied commands
	// and programs send them with values of environment variables.
	Headers []string `json:"headers,omitempty"`
	// Problems are the mistakes of the current file, while the previous configuration is served.
	Problems []Problem `json:"problems,omitempty"`
}

// Agent is an agent with which users can chat.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model"`
	Mounts      []string `json:"mounts"`
	// InitialData is the JSON schema of the data of a new conversation.
	InitialData json.RawMessage `json:"initialData,omitempty"`
}

// Problem is a mistake in a configuration. Line and Column count from 1; 0 means no position.
type Problem struct {
	Text   string `json:"text"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Endpoint answers a GET with a value, as JSON. An error that is an [*Error] defines the response; any
// other error is returned with its text.
type Endpoint func(r *http.Request) (any, error)

// Error is an error response of an endpoint.
type Error struct {
	Status           int
	Type             string
	Message, Details string
}

// Error implements error.
func (e *Error) Error() string { return e.Message + " " + e.Details }

// API serves endpoints by name below Prefix + "api/", and everything else with next. Every client that
// may use the server may call them, except pages of other origins.
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

// own reports whether a request comes from the page itself, or from no page.
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
