package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/otel"
	"github.com/parleyrun/parley/storage"
)

const (
	// devEventsBytes bounds the events file of "parley dev", and devEventsKeep the number of rotated
	// files.
	devEventsBytes = 64 << 20
	devEventsKeep  = 3
	// devEventsSync bounds the events that a power loss may lose.
	devEventsSync = time.Second
	// closeEvents bounds the flush of a sink at shutdown.
	closeEvents = 5 * time.Second
)

// eventsConfig configures the destinations of a node's events.
type eventsConfig struct {
	config.Events
	// dev writes events into the data folder if the file names no destination.
	dev bool
	// out is standard output, for Stdout.
	out io.Writer
	// observers are those of the program. They outlive the node.
	observers []observability.Sink
	// prompts includes model input, whatever the agents configure for content.
	prompts bool
}

// destinations are the open sinks of a node. The owner closes them after the node has ended.
type destinations struct {
	options  actors.EventOptions // event options of the node
	database *lateDatabase       // nil without one
	file     string              // events file, "" without one
	closers  []func() error
}

// keeps reports whether events go into the data folder because no destination is configured.
func (cfg *eventsConfig) keeps(at config.Bucket) bool {
	return cfg.dev && at.Dir != "" && cfg.Events == config.Events{Live: cfg.Live, Stdout: cfg.Stdout}
}

// confides reports whether events go only into the data folder, which holds all content anyway.
func (cfg *eventsConfig) confides(at config.Bucket) bool {
	return cfg.keeps(at) && !cfg.Stdout && len(cfg.observers) == 0
}

// openEvents opens the destinations of a node's events. It sends nothing yet.
func openEvents(cfg eventsConfig, at config.Bucket, bucket storage.Bucket, log *slog.Logger) (_ *destinations, err error) {
	d := &destinations{options: actors.EventOptions{DurableOnly: !cfg.Live, Prompts: cfg.prompts, Observers: slices.Clone(cfg.observers)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if c := cfg.ClickHouse; c != nil {
		opts, err := cli.DatabaseOptions(c)
		if err != nil {
			return nil, err
		}
		opts.Logger = log
		d.options.GroupEvents, d.options.GroupBytes, d.options.GroupEvery = c.BatchRows, c.BatchBytes, c.FlushEvery
		d.database = newLateDatabase(opts, bucket, log)
		d.addSink(d.database, d.database.close)
	}
	if cfg.JSONL != nil {
		if err := d.openFile(cfg.JSONL.File, nil); err != nil {
			return nil, fmt.Errorf("%w; name another file at events.jsonl.file", err)
		}
	}
	if cfg.keeps(at) {
		err := d.openFile(filepath.Join(at.Dir, cli.DevEvents), &jsonl.Options{MaxBytes: devEventsBytes, Keep: devEventsKeep, SyncEvery: devEventsSync})
		if err != nil {
			return nil, err
		}
	}
	// Live output needs no cursor and must not block the other sinks.
	if cfg.Stdout {
		d.addObserver(jsonl.NewWriter("stdout", cfg.out), outliveReaders())
	}
	if o := cfg.OTel; o != nil {
		// New does not connect, so it needs no cancellation.
		sink, err := otel.New(context.Background(), &otel.Options{
			Endpoint: o.Endpoint, Headers: o.Headers, Content: o.Content, ServiceVersion: cli.Version(), Logger: log,
		})
		if err != nil {
			return nil, fmt.Errorf("send events to %s: %w", o.Endpoint, err)
		}
		d.addObserver(sink, func() error { closeOTel(sink, log); return nil })
	}
	return d, nil
}

func (d *destinations) openFile(path string, opts *jsonl.Options) error {
	f, err := jsonl.Open(path, opts)
	if err != nil {
		return err
	}
	d.file = path
	d.addSink(f, f.Close)
	return nil
}

// outliveReaders turns SIGPIPE into a write error, so that a closed pipe does not end the process. The
// returned function restores the default.
func outliveReaders() (end func() error) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() error { signal.Stop(ignored); return nil }
}

// closeOTel flushes with a deadline. An unreachable collector is not a failure of the node.
func closeOTel(sink *otel.Sink, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeEvents)
	defer cancel()
	if err := sink.Close(ctx); err != nil {
		log.Warn("flush of traces and metrics failed", "err", err)
	}
}

func (d *destinations) addSink(s observability.Sink, closer func() error) {
	d.options.Sinks, d.closers = append(d.options.Sinks, s), append(d.closers, closer)
}

func (d *destinations) addObserver(s observability.Sink, closer func() error) {
	d.options.Observers, d.closers = append(d.options.Observers, s), append(d.closers, closer)
}

// run prepares the sinks before the first event, until ctx ends.
func (d *destinations) run(ctx context.Context) {
	if d.database != nil {
		d.database.prepare(ctx)
	}
}

// close closes the sinks in reverse order.
func (d *destinations) close() error {
	if d == nil {
		return nil
	}
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	d.closers = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close events: %w", err)
	}
	return nil
}

// lateDatabase is a sink for a ClickHouse that may be unreachable when the node starts. It is opened,
// and its schema migrated, before the first events are written.
type lateDatabase struct {
	opts   clickhouse.Options
	bucket storage.Bucket // for the claims of migrations
	log    *slog.Logger
	// turn is a semaphore of one that guards the fields below.
	turn     chan struct{}
	database *clickhouse.Database
	sink     *clickhouse.Sink
	closed   bool
}

func newLateDatabase(opts clickhouse.Options, bucket storage.Bucket, log *slog.Logger) *lateDatabase {
	return &lateDatabase{opts: opts, bucket: bucket, log: log, turn: make(chan struct{}, 1)}
}

// Name implements observability.Sink.
func (*lateDatabase) Name() string { return "clickhouse" }

// Write implements observability.Sink.
func (l *lateDatabase) Write(ctx context.Context, events []observability.Event) error {
	sink, err := l.open(ctx)
	if err != nil {
		return err
	}
	err = sink.Write(ctx, events)
	if errors.Is(err, clickhouse.ErrNoSchema) {
		// The tables were dropped.
		l.invalidate()
	}
	return err
}

// open returns the sink. It opens the database and migrates the schema first if necessary.
func (l *lateDatabase) open(ctx context.Context) (*clickhouse.Sink, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.closed {
		return nil, errors.New("the node has ended")
	}
	if l.sink != nil {
		return l.sink, nil
	}
	var err error
	if l.database == nil {
		if l.database, err = clickhouse.Open(ctx, l.opts); err != nil {
			l.database = nil
			return nil, err
		}
	}
	if err := l.database.Migrate(ctx, l.bucket, cli.HostName()); err != nil {
		return nil, err
	}
	l.sink, err = clickhouse.NewSink(l.database)
	return l.sink, err
}

// read returns the database for queries. It is closed with the node.
func (l *lateDatabase) read(ctx context.Context) (*clickhouse.Database, error) {
	if _, err := l.open(ctx); err != nil {
		return nil, err
	}
	return l.database, nil // It does not change once the sink exists.
}

// invalidate makes the next open check the schema again.
func (l *lateDatabase) invalidate() {
	l.turn <- struct{}{}
	l.sink = nil
	<-l.turn
}

// prepare opens the database before the first write. It logs a failure once; later the node logs
// failed writes.
func (l *lateDatabase) prepare(ctx context.Context) {
	if _, err := l.open(ctx); err != nil && ctx.Err() == nil {
		l.log.Warn("clickhouse unavailable, events are delayed", "err", err)
	}
}

// close closes the connections. No Write may be in progress; readers get an error.
func (l *lateDatabase) close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.closed = true
	if l.database == nil {
		return nil
	}
	return l.database.Close()
}
