package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
)

// closeTimeout bounds the wait for open requests at shutdown.
const closeTimeout = 2 * time.Second

// Options are the optional parts of a [Server]. Nil and every zero field are valid.
type Options struct {
	// Logger gets failures of requests. Nil discards them.
	Logger *slog.Logger
	// Version is the program's version, for parley_info.
	Version string
	// Meter adds bucket metrics. Nil adds none.
	Meter *Meter
	// Agents adds metrics of agents and requests. Nil adds none.
	Agents *Agents
	// Process is called for each scrape, and must be safe for concurrent use. Nil adds no process
	// metrics.
	Process func() Process
	// Profiles also serves Go's profiles of the process.
	Profiles bool
}

// Server serves the admin listener. It is safe for concurrent use.
type Server struct {
	log     *slog.Logger
	handler http.Handler
}

// New returns a server for a node's status. status must be safe for concurrent use, at any time from
// start to end, and must not block.
func New(status func() actors.Status, opts *Options) (*Server, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	all := []prometheus.Collector{
		newCollector(status, o.Version), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if o.Meter != nil {
		all = append(all, o.Meter.seconds, o.Meter.inFlight)
	}
	if o.Agents != nil {
		all = append(all, o.Agents.collectors()...)
	}
	if o.Process != nil {
		all = append(all, newProcessCollector(o.Process))
	}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	pages := "/healthz  the process lives\n/readyz   the node should get requests\n/metrics  for Prometheus"
	if o.Profiles {
		pages += "\n/debug/pprof/  for go tool pprof"
		addProfiles(mux)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, pages) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, text := readiness(status())
		respond(w, code, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4,
	}))
	return &Server{log: o.Logger, handler: mux}, nil
}

// readiness returns the response of /readyz.
func readiness(s actors.Status) (code int, text string) {
	if s.Ready {
		return http.StatusOK, "ready"
	}
	reason := strings.Join(strings.Fields(s.Reason), " ")
	if reason == "" {
		reason = "unknown reason"
	}
	return http.StatusServiceUnavailable, "not ready: " + reason
}

// respond writes lines of text.
func respond(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a failed write means that the client left
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve serves l until ctx ends or the listener fails, and closes l. Open requests get two seconds at
// shutdown.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := server.Shutdown(shut); err != nil {
			return server.Close() // A slow reader must not delay the shutdown.
		}
		return nil
	})
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve admin: %w", err)
		}
		return nil
	})
	return g.Wait()
}
