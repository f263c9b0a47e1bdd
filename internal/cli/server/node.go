package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/readsocket"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// nodeConfig configures a node; dev, serve and run each create one.
type nodeConfig struct {
	// bucket stores all durable data.
	bucket config.Bucket
	// memory replaces the bucket by one that ends with the node.
	memory    bool
	agents    []*agent.Agent
	providers *providers.Registry
	mounts    []parleyhttp.Mount
	// segmentBatches is a field of actors.Options.
	segmentBatches int
	// reserveBytes is a field of local.RoomOptions.
	reserveBytes int64
	// edge configures the HTTP handler. Its Logger is log.
	edge parleyhttp.Options
	// channels makes the webhook channels; nil makes none.
	channels func(conversation.Dispatcher) (map[string]channels.Channel, error)
	// listen is the address of the HTTP listener; "" if there is none.
	listen string
	// cluster lets the node share its bucket; nil serves it alone.
	cluster *actors.ClusterOptions
	// strictReads is a field of actors.Options.
	strictReads bool
	// followerBytes is a field of actors.Options.
	followerBytes int64
	// idleBytes is a field of actors.Options.
	idleBytes int64
	// measure decorates the bucket; nil does not.
	measure func(storage.Bucket) storage.Bucket
	// events are the destinations of observability events; the zero value has none.
	events eventsConfig
	// webhooks and targets are the targets of posts, of the file and of the program.
	webhooks config.Webhooks
	targets  map[string]outbox.Target
	// memoryBytes is the memory limit of the process; 0 detects it.
	memoryBytes int64
	log         *slog.Logger
}

// backend is a node: everything between a client's request and the bucket. The owner runs it once and
// closes it.
type backend struct {
	at      config.Bucket
	log     *slog.Logger
	store   *local.Store // nil for an endpoint
	bucket  storage.Bucket
	readers *readsocket.Server // nil without a folder or a socket
	events  *destinations
	runtime *actors.Runtime
	handler *parleyhttp.Handler
	// data is the free space for client data in the data folder, nil without one. spool is that for
	// request bodies in temporary files.
	data, spool *local.Room
	// endPosts closes the connections to targets of posts.
	endPosts func()
	// reset removes the collector limit that the memory budget has set.
	reset func()
}

// newBackend opens the bucket and builds the node. It sends no request to an endpoint yet.
func newBackend(ctx context.Context, cfg nodeConfig) (_ *backend, err error) {
	budget, reset := newBudget(cfg.memoryBytes, os.DirFS("/"), cfg.log)
	b := &backend{at: cfg.bucket, log: cfg.log, reset: reset, endPosts: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	opts := &actors.Options{
		Memory: budget,
		Agents: cfg.agents, Providers: cfg.providers, Logger: cfg.log, VendorMessages: cfg.events.dev || cfg.edge.Dev, Address: cfg.listen, Version: cli.SoftwareVersion(),
		SegmentBatches: cfg.segmentBatches, Cluster: cfg.cluster, StrictReads: cfg.strictReads, FollowerBytes: cfg.followerBytes,
		IdleBytes: cfg.idleBytes, EventStreams: cfg.edge.Beta != nil || cfg.edge.Runs != nil,
	}
	switch {
	case cfg.memory:
		b.store = local.NewMemory()
		b.bucket = b.store
	case cfg.bucket.Endpoint != "":
		b.bucket, err = cfg.bucket.Open()
	case cfg.bucket.Dir == "":
		err = errors.New("open the data folder: no folder given; name one with --data")
	case isFile(cfg.bucket.Dir):
		err = fmt.Errorf("open the data folder: %s is a file; name a folder with --data, or in the configuration file", cfg.bucket.Dir)
	default:
		err = b.openFolder(cfg.bucket.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := checkStamp(ctx, b.bucket); err != nil {
		return nil, b.at.Explain(err)
	}
	if cfg.measure != nil {
		b.bucket = cfg.measure(b.bucket)
	}
	if b.events, err = openEvents(cfg.events, cfg.bucket, b.bucket, cfg.log); err != nil {
		return nil, err
	}
	opts.Events = b.events.options
	if opts.Outbox, b.endPosts, err = outboxOf(cfg.webhooks, cfg.targets); err != nil {
		return nil, err
	}
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
	if cfg.channels != nil {
		if cfg.edge.Channels, err = cfg.channels(admits); err != nil {
			return nil, fmt.Errorf("make the channels: %w", err)
		}
	}
	b.handler, err = parleyhttp.New(admits, b.runtime.Reader(), cfg.mounts, &cfg.edge)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// openFolder opens a data folder and serves it read-only to other commands.
func (b *backend) openFolder(dir string) error {
	// divide only fails below the minimum, with which a server does not start.
	own, _ := divide(descriptorLimit())
	var err error
	if b.store, err = local.Open(dir, &local.Options{Logger: b.log, OpenTables: own.tables}); err != nil {
		return cli.FolderError(dir, err)
	}
	b.bucket = b.store
	if b.readers, err = readsocket.Serve(dir, b.store, b.log); err != nil {
		b.log.Warn("read socket unavailable", "folder", dir, "err", err, "remedy", "commands that read this folder need the server stopped; set TMPDIR to a short writable path")
	}
	return nil
}

// checkStamp reads the format stamp of a bucket before any function of the author's program is called.
// A bucket of another version, or an unreadable one, runs none.
func checkStamp(ctx context.Context, b storage.Bucket) error {
	if !storage.IsExclusive(b) {
		var cancel context.CancelFunc
		ctx, cancel = storage.WithFirstAnswer(ctx)
		defer cancel()
	}
	_, err := storage.CheckFormat(ctx, b)
	return err
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// run serves the conversations until ctx ends.
func (b *backend) run(ctx context.Context) error {
	background, end := context.WithCancel(ctx)
	var preparing sync.WaitGroup
	preparing.Go(func() { b.events.run(background) })
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
			err = fmt.Errorf("%w; to share a bucket, each node needs a section cluster in its file", err)
		}
		return &cli.ExitError{Code: cli.ExitRefused, Err: err}
	}
	return err
}

// close releases the resources of the node, which must not run any more.
func (b *backend) close() error {
	defer b.reset()
	defer b.endPosts()
	err := b.events.close()
	if b.readers != nil {
		err = errors.Join(err, b.readers.Close())
	}
	if b.store == nil {
		return err
	}
	return errors.Join(err, b.store.Close())
}

// Run implements parleyhttp.Runtime.
func (b *backend) Run(ctx context.Context) error { return b.run(ctx) }

// Ready implements parleyhttp.Runtime.
func (b *backend) Ready() <-chan struct{} { return b.runtime.Ready() }

// HandOver implements parleyhttp.Runtime.
func (b *backend) HandOver(ctx context.Context) error { return b.runtime.HandOver(ctx) }

// serveNode runs a node and serves its handler with its middleware until ctx ends or one of them
// fails. Then it closes the node. ready is called once requests are accepted.
func serveNode(ctx context.Context, b *backend, handler http.Handler, l *publicListener, ready func()) error {
	l.server.Handler = handler
	return errors.Join(l.server.Run(ctx, l, b, ready), b.close())
}
