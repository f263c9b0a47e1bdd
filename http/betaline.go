package http

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/parleyrun/parley/conversation"
)

// Beta serves the conversations of agents to clients of the beta line, as event streams, below its own
// path:
//
//	GET, HEAD {Path}/agents/:name/:id        the stream
//	POST      {Path}/agents/:name/:id        admission of {message, images}, or its result
//	POST      {Path}/agents/:name/:id/abort
//	GET, HEAD {Path}/runs/:id                the stream of a run; ?meta returns its status
//	POST      {Path}/workflows/:name         begin a run, or answer with its result
type Beta struct {
	// Path is like that of a [Mount]; "/" puts the routes at the root.
	Path string
	// Agents and Workflows are the names that are served, at least one of both. Runs of other
	// workflows are not found.
	Agents, Workflows []string
}

// betaLine serves the beta line of a handler.
type betaLine struct {
	eventLine
	prefix string // prefix of its routes, without a trailing slash
	agents []string
}

// mountBeta adds the routes of the beta line. They must not overlap those of mounts, because a client
// would get responses of either line.
func (h *Handler) mountBeta(o *Beta, mounts []Mount) error {
	events, ok := h.reader.(conversation.EventReader)
	switch {
	case !ok:
		return errors.New("beta line: the reader has no event streams")
	case len(o.Agents)+len(o.Workflows) == 0:
		return errors.New("beta line: no agents: list those that its clients may reach")
	}
	err := h.offChannels(o.Path)
	if err == nil {
		err = checkMountPath(o.Path)
	}
	if err != nil {
		return fmt.Errorf("beta line at %q: %w", o.Path, err)
	}
	if known, ok := h.dispatcher.(registry); ok {
		for _, a := range o.Agents {
			if !known.Serves(a) {
				return fmt.Errorf("beta line at %q: agent %q is not registered: register it with the runtime or omit it", o.Path, a)
			}
		}
	}
	b := &betaLine{eventLine: eventLine{h, events}, prefix: strings.TrimSuffix(o.Path, "/"), agents: o.Agents}
	runs, err := h.newRunLine(o.Path, o.Workflows)
	if err == nil {
		err = apart(b.paths(), mounts)
	}
	if err != nil {
		return fmt.Errorf("beta line at %q: %w", o.Path, err)
	}
	paths := b.paths()
	h.router.Handle(paths[0], b.route(methods{http.MethodGet: b.get, http.MethodHead: b.head, http.MethodPost: b.post}))
	h.router.Handle(paths[1], b.route(methods{http.MethodPost: h.abort}))
	runs.beta = true
	runs.route()
	return nil
}

func (b *betaLine) paths() []string {
	const agent = "/agents/{name:[^/]*}/{id:[^/]*}"
	return []string{b.prefix + agent, b.prefix + agent + "/abort", b.prefix + "/runs/{id:[^/]*}", b.prefix + "/workflows/{name:[^/]*}"}
}

// mountPaths returns the routes of a mount in the syntax of the router.
func mountPaths(m Mount) []string {
	path := strings.TrimSuffix(m.Path, "/") + "/{id:[^/]*}"
	return []string{path, path + "/abort", path + "/attachments/{attachment:[^/]+}"}
}

// overlap reports whether a path may match both routes.
func overlap(a, b string) bool {
	one, other := segments(a), segments(b)
	return len(one) == len(other) && !slices.ContainsFunc(one, func(s segment) bool {
		o := other[s.n]
		return !s.variable && !o.variable && s.text != o.text
	})
}

type segment struct {
	n        int
	text     string
	variable bool
}

func segments(path string) (out []segment) {
	path = strings.ReplaceAll(path, "[^/]", "") // pattern of a variable
	for s := range strings.SplitSeq(path, "/") {
		out = append(out, segment{len(out), s, strings.HasPrefix(s, "{")})
	}
	return out
}

// route serves one route for all agents of the line.
func (b *betaLine) route(serve methods) http.Handler {
	return b.allow(serve, func(w *response, r *http.Request, endpoint endpoint) error {
		if r.Method == http.MethodPost {
			if _, err := waits(parseQuery(r.URL.RawQuery)); err != nil {
				return err
			}
		}
		name, err := nameOf(mux.Vars(r)["name"], "agent name")
		if err != nil {
			return err
		}
		id, err := conversationID(mux.Vars(r)["id"])
		if err != nil {
			return err
		}
		if !slices.Contains(b.agents, name) {
			return conversation.Errorf(conversation.CodeAgentNotFound, "No agent %.80q is served here.", name)
		}
		return endpoint(w, r, conversation.Address{Agent: name, ID: id})
	})
}

// nameOf decodes the path segment of a name, once.
func nameOf(segment, kind string) (string, error) {
	name, err := url.PathUnescape(segment)
	if err != nil || strings.TrimFunc(name, isBlank) == "" {
		return "", invalid("The %s in the path must not be empty or blank, nor have an invalid escape.", kind)
	}
	return name, nil
}

// waits parses the query of an admission: wait=result, or nothing.
func waits(q url.Values) (bool, error) {
	if !q.Has("wait") {
		return false, nil
	}
	if v := q["wait"]; len(v) != 1 || v[0] != "result" {
		return false, invalid("The query parameter wait must occur once, with the value result.")
	}
	return true, nil
}
