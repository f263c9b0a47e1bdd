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
	// closeTimeout bounds the wait for requests that are still open at the end.
	closeTimeout = 2 * time.Second
	// headerTimeout and restTimeout bound a request's header, and the time between two.
	headerTimeout = 10 * time.Second
	restTimeout   = 2 * time.Minute
	// writeTimeout bounds what handlers other than [Handler] write, which has its own limits.
	writeTimeout = 30 * time.Second
)

// Runtime is what answers a handler's requests and lives as long as it is run; of package
// actors, a Runtime is one.
type Runtime interface {
	// Run serves conversations until ctx ends or it fails.
	Run(ctx context.Context) error
	// Ready is closed when requests are answered.
	Ready() <-chan struct{}
	// HandOver lets others take over what they can, while requests are still answered. It
	// bounds itself.
	HandOver(ctx context.Context) error
}

// Serve runs a runtime and serves a handler over it on a listener, until ctx ends or one of
// the three fails, and returns when both have ended. The order is that of [Server.Run], and
// so are the limits.
func Serve(ctx context.Context, l net.Listener, h http.Handler, rt Runtime) error {
	s := &Server{Handler: h}
	return s.Run(ctx, l, rt, nil)
}

// Server serves HTTP as conversations need it: it bounds headers and idle time, has a bound
// of connections, ends live responses of every [Handler], whatever middleware is before it,
// and waits neither for clients that say nothing nor for those that do not read. A Server
// serves once. Its fields do not change then.
type Server struct {
	// Handler answers the requests.
	Handler http.Handler
	// Logger gets what operators need to know. Nil discards it.
	Logger *slog.Logger
	// MaxConnections bounds the connections at a time, of which each holds a descriptor of
	// the process. Who comes when all are in use takes the place of the one that has been
	// idle for longest, or waits in the system's queue. Zero is no bound.
	MaxConnections int
	// DrainDelay is for how long [Server.Run] serves requests as before once its context has
	// ended: load balancers need a while to see that the node is not ready. Zero is no delay.
	DrainDelay time.Duration

	clients  atomic.Pointer[connections]
	live     live
	draining atomic.Bool
}

// Run runs a runtime and serves over it. Requests are taken once it is ready: then ready is
// called, unless it is nil. When ctx ends, [Server.Draining] reports true, and conversations
// are handed over to others while requests are still taken, for DrainDelay at least; each
// answer then closes its connection. Then no connection is accepted, live responses end,
// spare and idle connections are closed, requests under way have two seconds, and the runtime
// ends, which releases what is left. If the runtime fails, serving ends too, and the other way
// round. What it returns is what has failed, nil if nothing has. The listener is closed.
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

// drain makes the node unready and returns once its conversations are handed over and
// DrainDelay is over, or serving has ended. A runtime that was not ready yet was never sent a
// request.
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
		s.logger().Warn("not everything was handed over; the other nodes take it over", "err", err)
	}
	select {
	case <-over.C:
	case <-serving.Done():
	}
}

// Draining reports whether the end of the context of [Server.Run] was seen: load balancers are
// to send no more requests. It is safe for concurrent use.
func (s *Server) Draining() bool { return s.draining.Load() }

// closing makes clients leave their connections while the server drains, so that none is
// closed in the moment in which a request comes.
func (s *Server) closing(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	s.Handler.ServeHTTP(w, r)
}

// Serve serves without a runtime of its own until ctx ends or the listener fails, as Run
// does between ready and the end of the requests. One that takes longer than two seconds
// to end is cut off, which is no error: a client must not decide how a server ends.
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
			log.Warn("requests are still open")
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

// Connections returns how many connections are open. It is safe for concurrent use.
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

// liveKey is where the context of a request has the live responses of its [Server].
type liveKey struct{}

// enterLive registers a live response at the handler, and at its server if that is one of
// this package. It is [live.enter] for both.
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
