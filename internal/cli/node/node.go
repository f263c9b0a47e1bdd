package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

const (
	// closeTimeout bounds the wait for requests that are still open at the end.
	closeTimeout = 2 * time.Second
)

// nodeConfig is what a node is made of: dev, serve and run each make one.
type nodeConfig struct {
	// bucket is where everything durable lives.
	bucket config.Bucket
	// memory replaces the bucket with one that ends with the node.
	memory    bool
	agents    []*agent.Agent
	providers *providers.Registry
	mounts    []parleyhttp.Mount
	// segmentBatches is that of actors.Options.
	segmentBatches int
	// reserveBytes is that of local.RoomOptions.
	reserveBytes int64
	// edge tunes the HTTP handler. Its Logger is log.
	edge parleyhttp.Options
	// listen is the address that serves the node; "" if none does.
	listen string
	// cluster lets the node share its bucket with others; nil serves it alone.
	cluster *actors.ClusterOptions
	// strictReads is that of actors.Options.
	strictReads bool
	// followerBytes is that of actors.Options.
	followerBytes int64
	// idleBytes is that of actors.Options.
	idleBytes int64
	// measure is put before the bucket; nil puts nothing there.
	measure func(storage.Bucket) storage.Bucket
	// events are where observability events go; the zero value is nowhere.
	events eventsConfig
	// memoryBytes is what the process may occupy; 0 finds it out.
	memoryBytes int64
	log         *slog.Logger
}

// backend is a node: everything between a client's request and the bucket's bytes.
// Its owner runs it once and closes it.
type backend struct {
	at      config.Bucket
	log     *slog.Logger
	store   *local.Store // nil over an endpoint
	bucket  storage.Bucket
	events  *destinations
	runtime *actors.Runtime
	handler *parleyhttp.Handler
	// data is the room for what clients send in the data folder, nil without one, and
	// spool that for bodies in temporary files.
	data, spool *local.Room
	// forget undoes what the budget of memory has told the collector.
	forget func()
}

// newBackend opens the bucket and builds the rest over it. Over an endpoint nothing
// is sent yet.
func newBackend(cfg nodeConfig) (_ *backend, err error) {
	budget, forget := newBudget(cfg.memoryBytes, os.DirFS("/"), cfg.log)
	b := &backend{at: cfg.bucket, log: cfg.log, forget: forget}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	opts := &actors.Options{
		Memory: budget,
		Agents: cfg.agents, Providers: cfg.providers, Logger: cfg.log, Address: cfg.listen,
		SegmentBatches: cfg.segmentBatches, Cluster: cfg.cluster, StrictReads: cfg.strictReads, FollowerBytes: cfg.followerBytes,
		IdleBytes: cfg.idleBytes,
	}
	switch {
	case cfg.memory:
		b.store = local.NewMemory()
		b.bucket = b.store
	case cfg.bucket.Endpoint != "":
		b.bucket, err = cfg.bucket.Open()
	case cfg.bucket.Dir == "":
		err = errors.New("open the data folder: no folder given; name one with --data")
	default:
		// A server has refused to start with fewer files than it needs.
		own, _ := divide(descriptorLimit())
		if b.store, err = local.Open(cfg.bucket.Dir, &local.Options{Logger: cfg.log, OpenTables: own.tables}); err != nil {
			err = fmt.Errorf("open the data folder: %w", err)
			break
		}
		b.bucket = b.store
	}
	if err != nil {
		return nil, err
	}
	if cfg.measure != nil {
		b.bucket = cfg.measure(b.bucket)
	}
	if b.events, err = openEvents(cfg.events, cfg.bucket, b.bucket, cfg.log); err != nil {
		return nil, err
	}
	opts.Events = b.events.options
	if b.runtime, err = actors.New(b.bucket, opts); err != nil {
		return nil, err
	}
	cfg.edge.Logger, cfg.edge.Memory = cfg.log, budget
	room := &local.RoomOptions{Logger: cfg.log, ReserveBytes: cfg.reserveBytes}
	b.spool = local.NewRoom(cmp.Or(cfg.edge.TempDir, os.TempDir()), room)
	cfg.edge.SpoolAllowed = b.spool.Allow
	var admits dispatcher = b.runtime
	if !cfg.memory && cfg.bucket.Endpoint == "" {
		b.data = local.NewRoom(cfg.bucket.Dir, room)
		admits = &admitting{b.runtime, b.data.Allow}
	}
	b.handler, err = parleyhttp.New(admits, b.runtime.Reader(), cfg.mounts, &cfg.edge)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// lockedOut gives the error of a start the exit code of a node that is kept from its
// folder by another one.
func lockedOut(err error) error {
	var locked *local.LockedError
	if errors.As(err, &locked) {
		return &cli.ExitError{Code: cli.ExitRefused, Err: err}
	}
	return err
}

// run serves the conversations until ctx ends.
func (b *backend) run(ctx context.Context) error {
	beside, end := context.WithCancel(ctx)
	var preparing sync.WaitGroup
	preparing.Go(func() { b.events.run(beside) })
	err := b.runtime.Run(ctx)
	end()
	preparing.Wait()
	var refused *actors.MemberError
	var unusable *actors.BucketError
	switch {
	case errors.As(err, &unusable):
		return b.at.Explain(unusable.Err)
	case errors.As(err, &refused):
		err = fmt.Errorf("%s: %w", b.at.Place(), err)
		if !refused.Replaced && !refused.Cluster {
			err = fmt.Errorf("%w; nodes that are to share a bucket have a section cluster in their files, each of them", err)
		}
		return &cli.ExitError{Code: cli.ExitRefused, Err: err}
	}
	return err
}

// close closes what the node has open. The node must not run any more.
func (b *backend) close() error {
	defer b.forget()
	err := b.events.close()
	if b.store == nil {
		return err
	}
	return errors.Join(err, b.store.Close())
}

// serveNode runs a node and its HTTP server until ctx ends or one of them fails,
// then stops both in order: conversations handed over to other nodes while requests
// are still taken, then no new requests, live streams ended, what is left released.
// handler is the node's behind its middleware. ready is called once requests are
// taken. It closes the node.
func serveNode(ctx context.Context, b *backend, handler http.Handler, l *connections, ready func()) error {
	g, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	serving, endServing := context.WithCancel(failed)
	running, endRunning := context.WithCancel(failed)
	g.Go(func() error {
		defer endServing()
		return b.run(running)
	})
	g.Go(func() error {
		defer endServing()
		select {
		case <-ctx.Done():
		case <-serving.Done():
			return nil
		}
		if err := b.runtime.HandOver(serving); err != nil && serving.Err() == nil {
			b.log.Warn("not everything was handed over; the other nodes take it over", "err", err)
		}
		return nil
	})
	g.Go(func() error {
		defer endRunning()
		select {
		case <-b.runtime.Ready():
		case <-serving.Done():
			return nil
		}
		ready()
		return serveHTTP(serving, l, handler, b.handler.Drain, b.log)
	})
	return errors.Join(g.Wait(), b.close())
}

// serveHTTP serves until ctx ends or the listener fails. Then drain is called,
// which must make live responses end, and open requests have closeTimeout. One that
// takes longer is cut off, which is no error: a client must not decide how a server
// ends.
func serveHTTP(ctx context.Context, l *connections, handler http.Handler, drain func(), log *slog.Logger) error {
	server := &http.Server{
		ConnState: l.changed,
		// Bodies and answers have the handler's limits; the last of these is for middleware.
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, WriteTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		drain()
		l.endSpare()
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
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	return g.Wait()
}
