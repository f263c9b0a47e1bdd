package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/internal/contain"
)

const (
	// closeTimeout bounds the shutdown wait for open requests.
	closeTimeout = 2 * time.Second
	// headerTimeout and restTimeout bound a request's header, and the time between two.
	headerTimeout = 10 * time.Second
	restTimeout   = 2 * time.Minute
	// writeTimeout bounds the writes of handlers other than [Handler], which has its own limits.
	writeTimeout = 30 * time.Second
)

// Runtime processes a handler's requests. An actors.Runtime implements it.
type Runtime interface {
	// Run serves conversations until ctx ends or it fails.
	Run(ctx context.Context) error
	// Ready is closed once requests are served.
	Ready() <-chan struct{}
	// HandOver transfers conversations to other nodes while requests are still served. It bounds its
	// own time.
	HandOver(ctx context.Context) error
}

// Serve runs a runtime and serves a handler on a listener until ctx ends or one of the three fails. It
// returns when both have ended. Order and limits are those of [Server.Run].
func Serve(ctx context.Context, l net.Listener, h http.Handler, rt Runtime) error {
	s := &Server{Handler: h}
	return s.Run(ctx, l, rt, nil)
}

// Server serves HTTP for conversations. It bounds headers, idle time and connections, and ends live
// responses of every [Handler], also behind middleware. It does not wait for stalled clients. A Server
// serves once. Its fields must not change afterwards.
type Server struct {
	// Handler answers the requests.
	Handler http.Handler
	// Logger receives operational messages. Nil discards them.
	Logger *slog.Logger
	// MaxConnections bounds the open connections, of which each uses a file descriptor. When all are
	// in use, a new one replaces the one that has been idle for longest, or waits in the accept queue.
	// Zero means no bound.
	MaxConnections int
	// DrainDelay is the time for which [Server.Run] still serves requests after its context has ended,
	// so that load balancers notice the unready node. Zero means no delay.
	DrainDelay time.Duration

	clients  atomic.Pointer[connections]
	live     live
	draining atomic.Bool
}

// Run runs a runtime and serves over it. It accepts requests once the runtime is ready, and then calls
// ready unless it is nil.
//
// When ctx ends, [Server.Draining] reports true and conversations are handed over while requests are
// still served, for at least DrainDelay; each response closes its connection. Then Run stops
// accepting, ends live responses, closes spare and idle connections, gives open requests two seconds,
// and ends the runtime. If the runtime fails, serving ends, and vice versa. Run returns the failure,
// or nil. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener, rt Runtime, ready func()) error {
	defer l.Close()
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	serving, endServing := context.WithCancel(failed)
	running, endRunning := context.WithCancel(failed)
	defer endServing()
	defer endRunning()
	g.Go(func() error {
		defer endServing()
		return rt.Run(running)
	})
	g.Go(func() error {
		defer endServing()
		select {
		case <-ctx.Done():
		case <-serving.Done():
			return nil
		}
		s.drain(serving, rt)
		return nil
	})
	g.Go(func() error {
		defer endRunning()
		select {
		case <-rt.Ready():
		case <-serving.Done():
			return nil
		}
		if ready != nil {
			ready()
		}
		return s.Serve(serving, l)
	})
	return g.Wait()
}

// drain makes the node unready. It returns once conversations are handed over and DrainDelay is over,
// or serving has ended. A runtime that was never ready has nothing to hand over.
func (s *Server) drain(serving context.Context, rt Runtime) {
	s.draining.Store(true)
	delay := s.DrainDelay
	select {
	case <-rt.Ready():
	default:
		delay = 0
	}
	over := time.NewTimer(delay)
	defer over.Stop()
	if err := rt.HandOver(serving); err != nil && serving.Err() == nil {
		s.logger().Warn("handover incomplete; other nodes take over", "err", err)
	}
	select {
	case <-over.C:
	case <-serving.Done():
	}
}

// Draining reports whether the context of [Server.Run] has ended: load balancers should send no more
// requests. It is safe for concurrent use.
func (s *Server) Draining() bool { return s.draining.Load() }

// closing asks clients to close their connections during a drain, so that no connection is closed
// while a request arrives.
func (s *Server) closing(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	s.Handler.ServeHTTP(w, r)
}

// Serve serves without a runtime until ctx ends or the listener fails, with the shutdown of Run. A
// request that takes longer than two seconds to end is aborted, which is not an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	log := s.logger()
	clients := newConnections(l, s.MaxConnections, log)
	s.clients.Store(clients)
	server := &http.Server{
		ConnState: clients.changed, Handler: http.HandlerFunc(s.closing),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: restTimeout, WriteTimeout: writeTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), liveKey{}, &s.live)
		},
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		s.live.drain()
		clients.endSpare()
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err := server.Shutdown(shut)
		if err == nil {
			return nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			log.Warn("requests still open")
			err = nil
		}
		return errors.Join(err, server.Close())
	})
	g.Go(func() error {
		if err := server.Serve(clients); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// Connections returns the number of open connections. It is safe for concurrent use.
func (s *Server) Connections() int {
	if clients := s.clients.Load(); clients != nil {
		return clients.count()
	}
	return 0
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return contain.Logger(s.Logger)
}

// liveKey is the context key of the live responses of a [Server].
type liveKey struct{}

// enterLive registers a live response at the handler and at its [Server], if there is one. See
// [live.enter].
func (h *Handler) enterLive(parent context.Context) (context.Context, func(), error) {
	ctx, leave, err := h.live.enter(parent)
	server, ok := parent.Value(liveKey{}).(*live)
	if err != nil || !ok {
		return ctx, leave, err
	}
	ctx, leaveServer, err := server.enter(ctx)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return ctx, func() { leaveServer(); leave() }, nil
}
