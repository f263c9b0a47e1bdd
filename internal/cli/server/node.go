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
	// channels makes the ways in from platforms; nil makes none.
	channels func(conversation.Dispatcher) (map[string]channels.Channel, error)
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
	// webhooks and targets are where posts go, of the file and of the program.
	webhooks config.Webhooks
	targets  map[string]outbox.Target
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
	readers *readsocket.Server // nil without a folder, or a socket
	events  *destinations
	runtime *actors.Runtime
	handler *parleyhttp.Handler
	// data is the room for what clients send in the data folder, nil without one, and
	// spool that for bodies in temporary files.
	data, spool *local.Room
	// endPosts ends the connections to those who get posts.
	endPosts func()
	// forget undoes what the budget of memory has told the collector.
	forget func()
}

// newBackend opens the bucket and builds the rest over it. Over an endpoint nothing
// is sent yet.
func newBackend(ctx context.Context, cfg nodeConfig) (_ *backend, err error) {
	budget, forget := newBudget(cfg.memoryBytes, os.DirFS("/"), cfg.log)
	b := &backend{at: cfg.bucket, log: cfg.log, forget: forget, endPosts: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	opts := &actors.Options{
		Memory: budget,
		Agents: cfg.agents, Providers: cfg.providers, Logger: cfg.log, VendorWords: cfg.events.dev || cfg.edge.Dev, Address: cfg.listen, Version: cli.SoftwareVersion(),
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

// openFolder opens a data folder, and offers it to commands that read.
func (b *backend) openFolder(dir string) error {
	// A server has refused to start with fewer files than it needs.
	own, _ := divide(descriptorLimit())
	var err error
	if b.store, err = local.Open(dir, &local.Options{Logger: b.log, OpenTables: own.tables}); err != nil {
		return cli.FolderError(dir, err)
	}
	b.bucket = b.store
	if b.readers, err = readsocket.Serve(dir, b.store, b.log); err != nil {
		b.log.Warn("read socket unavailable", "folder", dir, "err", err, "remedy", "commands that read this folder need the server stopped; set TMPDIR to a short path that can be written")
	}
	return nil
}

// checkStamp reads the format stamp of a bucket, before any function of the author's
// program is called: a bucket of another version, or one that cannot be read, runs none.
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

// serveNode runs a node and serves its handler behind its middleware, until ctx ends or one
// of them fails, and closes the node. ready is called once requests are taken.
func serveNode(ctx context.Context, b *backend, handler http.Handler, d *door, ready func()) error {
	d.server.Handler = handler
	return errors.Join(d.server.Run(ctx, d, b, ready), b.close())
}
