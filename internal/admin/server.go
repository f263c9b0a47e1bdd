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

// closeTimeout bounds the wait for requests that are open at the end.
const closeTimeout = 2 * time.Second

// Options are the optional parts of a [Server]. Nil and every zero field work.
type Options struct {
	// Logger gets what goes wrong with requests. Nil discards it.
	Logger *slog.Logger
	// Version of the program, for parley_info.
	Version string
	// Meter's measurements are shown. Nil shows none.
	Meter *Meter
	// Agents' measurements are shown. Nil shows none.
	Agents *Agents
	// Process is read for each scrape, and must be safe for concurrent use. Nil shows
	// nothing of it.
	Process func() Process
	// Profiles serves Go's profiles of the process, too.
	Profiles bool
}

// Server answers on the admin listener. It is safe for concurrent use.
type Server struct {
	log     *slog.Logger
	handler http.Handler
}

// New returns a server that reads a node's status. status must be safe for
// concurrent use, at any time of the node's life, and must not block.
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
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, pages) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, text := readiness(status())
		say(w, code, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4,
	}))
	return &Server{log: o.Logger, handler: mux}, nil
}

// readiness is the answer of /readyz.
func readiness(s actors.Status) (code int, text string) {
	if s.Ready {
		return http.StatusOK, "ready"
	}
	reason := strings.Join(strings.Fields(s.Reason), " ")
	if reason == "" {
		reason = "no reason given"
	}
	return http.StatusServiceUnavailable, "not ready: " + reason
}

// say answers with lines of text.
func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // Who hung up does not need it.
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers on l until ctx ends or the listener fails, and closes l. Requests
// that are open at the end have two seconds.
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
			return server.Close() // Who is still reading must not hold up the end.
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
