package http

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/parleyrun/parley/conversation"
)

// Runs serves workflows and their runs, below a path:
//
//	POST            {Path}/workflows/:name   begin a run, or answer with its result
//	GET, HEAD       {Path}/runs/:id          the event stream; ?meta returns the status
//	POST            {Path}/runs/:id          a signal
//	POST            {Path}/runs/:id/abort
type Runs struct {
	// Path is like that of a [Mount]; "/" puts the routes at the root.
	Path string
	// Workflows are the served names, at least one. Runs of other workflows are not found.
	Workflows []string
}

// runLine serves workflows and runs, for clients of Parley or of the beta line.
type runLine struct {
	eventLine
	prefix    string // prefix of its routes, without a trailing slash
	workflows []string
	runs      conversation.RunReader // nil without workflows
	beta      bool                   // beta line: without signals and aborts of runs
}

// newRunLine validates the workflows. Without workflows the routes exist and know no run.
func (h *Handler) newRunLine(path string, workflows []string) (*runLine, error) {
	l := &runLine{eventLine: eventLine{Handler: h}, prefix: strings.TrimSuffix(path, "/"), workflows: workflows}
	if err := checkMountPath(path); err != nil || len(workflows) == 0 {
		return l, err
	}
	var events, runs bool
	l.events, events = h.reader.(conversation.EventReader)
	if l.runs, runs = h.reader.(conversation.RunReader); !events || !runs {
		return nil, errors.New("the reader has no runs")
	}
	if known, ok := h.dispatcher.(registry); ok {
		for _, w := range workflows {
			if !known.Serves(conversation.WorkflowAgent(w)) {
				return nil, fmt.Errorf("workflow %q is not registered: register it with the runtime or omit it", w)
			}
		}
	}
	return l, nil
}

// mountRuns adds the routes of workflows and runs, which must not overlap others.
func (h *Handler) mountRuns(o *Runs, mounts []Mount) error {
	if len(o.Workflows) == 0 {
		return fmt.Errorf("runs at %q: no workflows: list those that clients may reach", o.Path)
	}
	if err := h.offChannels(o.Path); err != nil {
		return fmt.Errorf("runs at %q: %w", o.Path, err)
	}
	l, err := h.newRunLine(o.Path, o.Workflows)
	if err == nil {
		err = apart(l.paths(), mounts)
	}
	if b := h.opts.Beta; err == nil && b != nil {
		for _, path := range (&betaLine{prefix: strings.TrimSuffix(b.Path, "/")}).paths() {
			for _, own := range l.paths() {
				if overlap(own, path) {
					err = fmt.Errorf("its route %s and %s of the beta line at %q overlap: give one of them another path", own, path, b.Path)
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("runs at %q: %w", o.Path, err)
	}
	l.route()
	return nil
}

// offChannels rejects a path at or below that of channels.
func (h *Handler) offChannels(path string) error {
	if len(h.opts.Channels) > 0 && (path == channelsPath || strings.HasPrefix(path, channelsPath+"/")) {
		return errors.New("channels are served there")
	}
	return nil
}

// apart rejects routes that overlap those of mounts, because a client would get responses of either.
func apart(paths []string, mounts []Mount) error {
	for _, path := range paths {
		for _, m := range mounts {
			for _, other := range mountPaths(m) {
				if overlap(path, other) {
					return fmt.Errorf("its route %s and %s of the mount %q overlap: give one of them another path", path, other, m.Path)
				}
			}
		}
	}
	return nil
}

func (l *runLine) paths() []string {
	const run = "/runs/{id:[^/]*}"
	return []string{l.prefix + "/workflows/{name:[^/]*}", l.prefix + run, l.prefix + run + "/abort"}
}

// route adds the routes.
func (l *runLine) route() {
	paths := l.paths()
	run := methods{http.MethodGet: l.get, http.MethodHead: l.head}
	if !l.beta {
		run[http.MethodPost] = l.signal
		l.router.Handle(paths[2], l.ofRun(methods{http.MethodPost: l.abort}))
	}
	l.router.Handle(paths[0], l.ofWorkflow())
	l.router.Handle(paths[1], l.ofRun(run))
}

// ofWorkflow serves the route of a workflow.
func (l *runLine) ofWorkflow() http.Handler {
	return l.allow(methods{http.MethodPost: l.begin}, func(w *response, r *http.Request, endpoint endpoint) error {
		if _, err := waits(parseQuery(r.URL.RawQuery)); err != nil {
			return err
		}
		name, err := nameOf(mux.Vars(r)["name"], "workflow name")
		if err != nil {
			return err
		}
		if !slices.Contains(l.workflows, name) {
			return conversation.Errorf(conversation.CodeWorkflowNotFound, "No workflow %.80q is served here.", name)
		}
		return endpoint(w, r, conversation.Address{Agent: conversation.WorkflowAgent(name)})
	})
}

// ofRun serves a route of runs. An invalid query takes precedence over an unknown run. Runs of
// unserved workflows are indistinguishable from unknown runs.
func (l *runLine) ofRun(serve methods) http.Handler {
	return l.allow(serve, func(w *response, r *http.Request, endpoint endpoint) error {
		segment, err := nameOf(mux.Vars(r)["id"], "run id")
		if q := parseQuery(r.URL.RawQuery); err == nil && r.Method == http.MethodGet && !q.Has("meta") {
			_, err = parseRead(q)
		}
		if err != nil {
			return err
		}
		id := conversation.RunID(segment)
		if _, _, err := l.known(r, id); err != nil {
			return err
		}
		if err = endpoint(w, r, conversation.RunAddress(id)); conversation.CodeOf(err) == conversation.CodeStreamNotFound {
			return noRun(id) // deleted since
		}
		return err
	})
}

// known returns a run of a served workflow.
func (l *runLine) known(r *http.Request, id conversation.RunID) (workflow string, run *conversation.Run, err error) {
	if l.runs == nil || !id.Valid() {
		return "", nil, noRun(id)
	}
	workflow, run, err = l.runs.ReadRun(r.Context(), id)
	if conversation.CodeOf(err) == conversation.CodeRunNotFound || err == nil && !slices.Contains(l.workflows, workflow) {
		return "", nil, noRun(id)
	}
	return workflow, run, err
}

func noRun(id conversation.RunID) error {
	return conversation.Errorf(conversation.CodeRunNotFound, "No run %.80q is known here.", string(id))
}
