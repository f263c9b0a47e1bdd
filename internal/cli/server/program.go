package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyrun/parley/channels"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/contain"
)

// extended adds the handlers and the middleware of the program before a node's handler.
func extended(p *cli.Program, mounts *http.ServeMux, next http.Handler) http.Handler {
	if len(p.Mounts) > 0 {
		next = serveMounts(mounts, next)
	}
	for i, wrap := range slices.Backward(p.Middleware) {
		next = wrapped(fmt.Sprintf("Middleware[%d] of the program", i), wrap, next)
	}
	return next
}

// wrapped applies a middleware of the program. If the middleware cannot be created, every request
// fails, because it may authenticate callers.
func wrapped(desc string, wrap func(http.Handler) http.Handler, next http.Handler) http.Handler {
	h, err := contain.Do(desc, func() (http.Handler, error) { return wrap(next), nil })
	if err != nil || h == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			failed(w, r, fmt.Errorf("%s made no handler: %w", desc, err))
		})
	}
	return contained(desc, h)
}

// muxOf returns a mux with the handlers of a program.
func muxOf(mounts map[string]http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range mounts {
		mux.Handle(pattern, contained("Mounts["+pattern+"] of the program", h))
	}
	return mux
}

// serveMounts serves the patterns of mounts, and all other paths with next. next gets the original path,
// which a ServeMux would clean.
func serveMounts(mounts *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mounts.Handler(r); pattern != "" {
			mounts.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// provesSender reports whether a request is handled by a route of a channel, also through another
// ServeMux. Such a route verifies each delivery.
func provesSender(h http.Handler, r *http.Request) bool {
	switch h := h.(type) {
	case *containedHandler:
		return provesSender(h.next, r)
	case channels.Route, *channels.Route:
		return true
	case *http.ServeMux:
		next, pattern := h.Handler(r)
		return pattern != "" && provesSender(next, r)
	}
	return false
}

// checkMounts rejects patterns that are invalid or conflict, and those that would take the webhooks of
// a listed channel.
func checkMounts(mounts map[string]http.Handler, listed map[string]channels.Channel) error {
	if err := usable(mounts); err != nil {
		return fmt.Errorf("mounts of the program: %w", err)
	}
	for _, pattern := range slices.Sorted(maps.Keys(mounts)) {
		mux := muxOf(map[string]http.Handler{pattern: mounts[pattern]})
		method, host, _ := splitPattern(pattern)
		for name, c := range listed {
			routes, err := channels.RoutesOf(c)
			if err != nil {
				return fmt.Errorf("channel %q of the program: %w", name, err)
			}
			for _, rt := range routes {
				path := parleyhttp.ChannelPath(name, rt)
				for _, m := range []string{rt.Method, cmp.Or(method, rt.Method)} {
					r := &http.Request{Method: m, Host: host, URL: &url.URL{Path: path}}
					if _, taken := mux.Handler(r); taken != "" {
						return fmt.Errorf("the mount %q of the program takes %s, which belongs to the channel %q; remove one of them", pattern, path, name)
					}
				}
			}
		}
	}
	return nil
}

// usable returns the panic of a ServeMux for invalid patterns as an error.
func usable(mounts map[string]http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	muxOf(mounts)
	return nil
}

// splitPattern splits a pattern of [http.ServeMux]; method and host may be empty.
func splitPattern(pattern string) (method, host, path string) {
	method, rest, ok := strings.Cut(pattern, " ")
	if !ok {
		method, rest = "", pattern
	}
	rest = strings.TrimLeft(rest, " \t")
	host, path, _ = strings.Cut(rest, "/")
	return method, host, "/" + path
}

// webhooksOf lists the webhooks of the program, which the configuration does not name: channels that
// it lists and routes that it mounts. It is empty if there are none.
func webhooksOf(p *cli.Program, h *parleyhttp.Handler, conf *config.Server, at net.Addr) (lines []string) {
	base, text := localURL(at), &strings.Builder{}
	for _, w := range h.Webhooks() {
		if !slices.ContainsFunc(conf.Channels, func(c config.Channel) bool { return c.Name == w.Channel }) {
			fmt.Fprintf(text, "\n  %s  %s, channel %q", base+w.Path, w.Method, w.Channel)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.Mounts)) {
		method, host, path := splitPattern(pattern)
		if _, ok := p.Mounts[pattern].(channels.Route); !ok {
			continue
		}
		fmt.Fprintf(text, "\n  %s  %s, mounted", cmp.Or(host, base)+path, cmp.Or(method, "any method"))
	}
	if text.Len() == 0 {
		return nil
	}
	return []string{"Webhooks of the program:" + text.String()}
}

// containedHandler is a handler of the program whose panic fails only its own request. The client gets
// a 500, or a broken connection if the response has begun.
type containedHandler struct {
	desc string
	next http.Handler
}

func contained(desc string, h http.Handler) http.Handler { return &containedHandler{desc, h} }

// ServeHTTP implements [http.Handler].
func (h *containedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, err := contain.Handle(h.desc, w, func(w http.ResponseWriter) error { h.next.ServeHTTP(w, r); return nil })
	switch {
	case err == nil:
	case sent:
		if !errors.Is(err, http.ErrAbortHandler) {
			logFailure(r, err)
		}
		panic(http.ErrAbortHandler)
	default:
		failed(w, r, err)
	}
}

// failure is the error envelope of the protocol for a failed handler of the program.
const failure = `{"error":{"type":"internal_error","message":"The server failed to answer the request.",` +
	`"details":"The failure was logged."}}`

func failed(w http.ResponseWriter, r *http.Request, err error) {
	logFailure(r, err)
	refuse(w, r, http.StatusInternalServerError, failure)
}

// logFailure logs to the error log of the request's server, as package net/http does.
func logFailure(r *http.Request, err error) {
	s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || s.ErrorLog == nil {
		return
	}
	s.ErrorLog.Printf("serve %s %s: %v", r.Method, r.URL.Path, contain.Logged(err))
}
