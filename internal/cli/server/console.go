package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"

	"github.com/parleyrun/parley/console"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/folder"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// pageOf is the console of a node, if it is served.
type pageOf struct {
	conf *config.Server
	how  manner
	// on reports whether the console is served.
	on bool
	// local reports whether the listener has a loopback address.
	local bool
	// folder is the content of the node; nil shows the chat only.
	folder *folder.Folder
}

// newPage returns the console of a configuration. By default, dev serves it on a loopback address.
func newPage(conf *config.Server, at net.Addr, how manner) pageOf {
	local := isLoopback(at)
	return pageOf{conf: conf, how: how, local: local, on: console.Included() && (how.dev && local || !how.dev && conf.Console)}
}

// over adds the content of a dev node that uses a folder, where polling every few seconds is cheap.
func (p pageOf) over(n *backend) pageOf {
	if p.on && p.how.dev && n.store != nil {
		events := folder.Events{File: n.events.file}
		if db := n.events.database; db != nil {
			events.Database = func(ctx context.Context) (*clickhouse.Database, error) {
				opened, err := db.read(ctx)
				return opened, p.how.secrets.Hidden(err)
			}
		}
		p.folder = folder.New(n.bucket, events)
	}
	return p
}

// checkConsole rejects a console without authentication on a public address.
func checkConsole(file string, conf *config.Server, at net.Addr) error {
	switch {
	case !conf.Console:
		return nil
	case !console.Included():
		return fmt.Errorf("%s: console: this program was built without it (-tags noconsole); remove the key", file)
	case conf.Auth.Bearer == "" && !isLoopback(at):
		return fmt.Errorf("%s: console: %s is open to everyone; set auth: {bearerEnv: PARLEY_TOKEN}, or listen on 127.0.0.1", file, at)
	}
	return nil
}

// page serves the page before next. A handler that the program mounts at "/" takes precedence.
func (p pageOf) page(next http.Handler) http.Handler {
	if !p.on {
		return next
	}
	return console.Page(next, p.path() == "/")
}

// takesRoot reports whether the program mounts a handler at "/".
func takesRoot(p *cli.Program) bool {
	mux := http.NewServeMux()
	for pattern, h := range p.Mounts {
		mux.Handle(pattern, h)
	}
	r, err := http.NewRequest(http.MethodGet, "http://localhost/", nil)
	if err != nil {
		return false
	}
	_, pattern := mux.Handler(r)
	return pattern != ""
}

// invitation returns the banner line with the URL of the page, if it is served.
func (p pageOf) invitation(at net.Addr) []string {
	if !p.on {
		return nil
	}
	return []string{"Chat in a browser: " + localURL(at) + p.path()}
}

// path returns the path of the page.
func (p pageOf) path() string {
	if takesRoot(p.how.program) {
		return console.Prefix
	}
	return "/"
}

// api serves the requests of the page before next.
func (p pageOf) api(next http.Handler) http.Handler {
	if !p.on {
		return next
	}
	endpoints := map[string]console.Endpoint{"server": func(*http.Request) (any, error) { return p.server(), nil }}
	if p.folder != nil {
		maps.Copy(endpoints, p.folder.Endpoints())
	}
	return console.API(next, endpoints)
}

// server returns the initial data of the page.
func (p pageOf) server() console.Server {
	s := console.Server{Mode: "serve", Version: cli.Version(), Folder: p.folder != nil, Agents: []console.Agent{}, Headers: addedHeaders(p.conf.CORS.Headers)}
	if p.how.dev {
		s.Mode, s.File, s.Demo = "dev", p.how.file, p.how.file == "" && !p.how.program.HasOwn()
		if p.how.refused != nil {
			s.Problems = problemsOf(p.how.refused())
		}
	}
	for _, a := range p.conf.Agents {
		if len(a.Mounts) == 0 {
			continue
		}
		shown := console.Agent{Name: a.Agent.Name, Description: a.Agent.Description, Model: a.Agent.Model, Mounts: a.Mounts}
		if a.Agent.InitialData != nil {
			shown.InitialData = a.Agent.InitialData.JSON()
		}
		s.Agents = append(s.Agents, shown)
	}
	return s
}

// problemsOf returns the mistakes of a configuration with their positions.
func problemsOf(err error) []console.Problem {
	if err == nil {
		return nil
	}
	var mistakes *config.Error
	if !errors.As(err, &mistakes) {
		return []console.Problem{{Text: err.Error()}}
	}
	var all []console.Problem
	for _, m := range mistakes.Mistakes {
		all = append(all, console.Problem{Text: fmt.Sprintf("%s: %s; %s", m.Key, m.Problem, m.Remedy), Line: m.Line, Column: m.Column})
	}
	return all
}
