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
	// devEventsBytes and devEventsKeep bound what "parley dev" keeps of events by itself:
	// so many bytes in a file, and so many files before it.
	devEventsBytes = 64 << 20
	devEventsKeep  = 3
	// devEventsSync is how much of them a power cut may cost.
	devEventsSync = time.Second
	// closeEvents bounds what a sink still sends at the end.
	closeEvents = 5 * time.Second
)

// eventsConfig says where the events of a node go.
type eventsConfig struct {
	config.Events
	// dev writes them into the data folder, if the file names nothing else.
	dev bool
	// out is standard output, for Stdout.
	out io.Writer
	// observers are those that the program brings along, who outlive the node.
	observers []observability.Sink
	// prompts tells what models are sent, whatever the agents say of content.
	prompts bool
}

// destinations are the open sinks of a node. Its owner closes them after the node has
// ended.
type destinations struct {
	options  actors.EventOptions // of the node
	database *lateDatabase       // nil without one
	file     string              // of events, "" without one
	closers  []func() error
}

// keeps reports whether events go into the data folder, because nothing else was named.
func (cfg *eventsConfig) keeps(at config.Bucket) bool {
	return cfg.dev && at.Dir != "" && cfg.Events == config.Events{Live: cfg.Live, Stdout: cfg.Stdout}
}

// confides reports whether events go nowhere but into the data folder, which has all that was said anyway.
func (cfg *eventsConfig) confides(at config.Bucket) bool {
	return cfg.keeps(at) && !cfg.Stdout && len(cfg.observers) == 0
}

// openEvents opens where the events of a node go. Nothing is sent yet.
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
	// What people look at as it happens needs no cursor, and must not hold up the rest.
	if cfg.Stdout {
		d.addObserver(jsonl.NewWriter("stdout", cfg.out), outliveReaders())
	}
	if o := cfg.OTel; o != nil {
		// It connects to nothing yet, so that nothing is to be interrupted.
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

// outliveReaders makes a write to a pipe whose reader has gone an error, of which the
// process would die otherwise. The function it returns ends that.
func outliveReaders() (end func() error) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() error { signal.Stop(ignored); return nil }
}

// closeOTel sends what is left, for a while. Nobody waits for a collector, so that one
// that is away is no failure of the node.
func closeOTel(sink *otel.Sink, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeEvents)
	defer cancel()
	if err := sink.Close(ctx); err != nil {
		log.Warn("the last traces and metrics were not sent", "err", err)
	}
}

func (d *destinations) addSink(s observability.Sink, closer func() error) {
	d.options.Sinks, d.closers = append(d.options.Sinks, s), append(d.closers, closer)
}

func (d *destinations) addObserver(s observability.Sink, closer func() error) {
	d.options.Observers, d.closers = append(d.options.Observers, s), append(d.closers, closer)
}

// run does what is to be done before the first event, until ctx ends.
func (d *destinations) run(ctx context.Context) {
	if d.database != nil {
		d.database.prepare(ctx)
	}
}

// close closes everything, the last opened first.
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

// lateDatabase is a sink over a ClickHouse that may be away when the node starts: it is
// opened, and its schema migrated, before the first events are written.
type lateDatabase struct {
	opts   clickhouse.Options
	bucket storage.Bucket // for the claims of migrations
	log    *slog.Logger
	// turn is held, by one value in it, by who uses what is below.
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
		// Somebody has emptied the server.
		l.forget()
	}
	return err
}

// open returns the sink, and makes it and the schema first if there is none.
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

// read returns the database for whoever looks at what is in it. It is closed with the node.
func (l *lateDatabase) read(ctx context.Context) (*clickhouse.Database, error) {
	if _, err := l.open(ctx); err != nil {
		return nil, err
	}
	return l.database, nil // It stays what it is once there is a sink.
}

// forget makes the next open look at the schema again.
func (l *lateDatabase) forget() {
	l.turn <- struct{}{}
	l.sink = nil
	<-l.turn
}

// prepare opens the database before anything is to be written. It tells once if it
// cannot: later on the node does, whenever a write fails.
func (l *lateDatabase) prepare(ctx context.Context) {
	if _, err := l.open(ctx); err != nil && ctx.Err() == nil {
		l.log.Warn("clickhouse cannot be used yet; events wait in the logs", "err", err)
	}
}

// close closes the connections. No Write may be under way; who reads gets an error.
func (l *lateDatabase) close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.closed = true
	if l.database == nil {
		return nil
	}
	return l.database.Close()
}
