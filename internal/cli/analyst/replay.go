package analyst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
	"github.com/parleyrun/parley/storage"
)

const (
	// replayReaders is the number of logs read concurrently.
	replayReaders = 4
	// replayGroup and replayBytes bound one write; a reader buffers as much.
	replayGroup = 20_000
	replayBytes = 8 << 20
	// replayProgress is the interval of progress lines.
	replayProgress = 2 * time.Second
)

// replayConfig holds the flags of "parley events replay".
type replayConfig struct {
	place               *cli.Place
	file                string // the configuration, "" without one
	agent, since, until string
	to, dsn, output     string
	dry, quiet          bool
}

func replayCommand(p *cli.Program) *cobra.Command {
	cfg := &replayConfig{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Derive events from the logs of the bucket again, and store them",
		Long: "replay reads the logs of all conversations in the bucket, derives their durable events again, and\n" +
			"stores them at the destination of the configuration. The events are the same as those sent before.\n" +
			"Use it to fill an empty database, or to add the history to a new one. Events that are already\n" +
			"stored are not duplicated, so an interrupted replay may be run again.\n\n" +
			"Live events (deltas, requests, messages, logs) are in no log and are not replayed. The current\n" +
			"configuration of each agent controls whether its events include content.\n\n" +
			"It may run next to servers. It reads every log; --since skips events, not logs.\n\n" +
			"Exit code: 0 all was stored, 3 some logs could not be read and the rest was stored, 75 a\n" +
			"server uses the folder and has no socket to read it, 1 any other error.",
		Example: "  parley events replay --since 30d\n  parley events replay --config /etc/parley.yaml --since 2026-11-01 --agent assistant\n" +
			"  parley events replay --data ./.parley --to stdout | jq .type",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.place.Data == "" && cmd.Flags().Changed("data") {
				return errors.New("--data is empty; name the data folder of parley dev, or omit the flag to use the bucket of --config")
			}
			return cfg.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	cfg.place = cli.NewPlace(p, cmd, "the bucket, the agents and the destination", true)
	f.StringVar(&cfg.agent, "agent", "", "only conversations of this agent")
	f.StringVar(&cfg.since, "since", "", "only events since then: a duration before now, as 90m, 24h or 7d, or a date or time in UTC")
	f.StringVar(&cfg.until, "until", "", "only events before then, in the form of --since")
	f.StringVar(&cfg.to, "to", "", "store them in clickhouse, jsonl or stdout (default: what the configuration has, clickhouse first)")
	f.StringVar(&cfg.dsn, "clickhouse", "", "the database for --to clickhouse, in place of the configured one; a new one keeps events as long as the configuration says, or 90 days")
	f.StringVar(&cfg.output, "file", "", "the file for --to jsonl, in place of the configured one")
	f.BoolVar(&cfg.dry, "dry-run", false, "count the events and store nothing")
	f.BoolVar(&cfg.quiet, "quiet", false, "print only errors")
	cmd.MarkFlagsMutuallyExclusive("clickhouse", "file")
	return cmd
}

func (cfg *replayConfig) run(ctx context.Context, out, errOut io.Writer) (err error) {
	r := &replay{errOut: errOut, quiet: cfg.quiet, agent: cfg.agent, contents: map[string]bool{}}
	if r.filter.Since, r.filter.Until, err = period(cfg.since, cfg.until, time.Now()); err != nil {
		return err
	}
	if err := cfg.checkTarget(); err != nil {
		return err
	}
	conf, file, err := cfg.place.Find("bucket", "events.clickhouse")
	if cfg.file = file; err != nil {
		return err
	}
	for _, a := range conf.Agents {
		r.contents[a.Agent.Name] = a.Agent.Events.Content
	}
	bucket, closeBucket, err := cli.OpenForReading(conf.Bucket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	r.bucket = storage.Retried(bucket, storage.Retry{})
	r.logs = storage.NewLogs(bucket, nil)
	if _, err := storage.CheckFormat(ctx, bucket); err != nil {
		return conf.Bucket.Explain(err)
	}
	target, err := cfg.target(ctx, conf, bucket, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	r.sink = target.sink
	begun := time.Now()
	r.printf("parley events replay: %s into %s%s\n", conf.Bucket.Place(), target.name, selected(stats.Filter{Agent: cfg.agent, Since: r.filter.Since, Until: r.filter.Until}))
	if err := r.all(ctx); err != nil {
		var e *storage.Error
		if errors.As(err, &e) && conf.Bucket.Endpoint != "" {
			err = conf.Bucket.Explain(err)
		}
		return fmt.Errorf("%w; %s were stored; run it again to continue", err, cli.Count(r.stored.Load(), "event"))
	}
	if target.refresh != nil {
		if err := target.refresh(ctx); err != nil {
			r.printf("refresh of the hourly tables failed, it is retried automatically: %v\n", err)
		}
	}
	return r.finish(time.Since(begun), conf.Bucket.Place())
}

// target is the destination of a replay.
type target struct {
	name  string
	sink  observability.Sink // nil for a dry run
	close func() error
	// refresh, if not nil, recomputes the tables derived from events.
	refresh func(context.Context) error
}

func (cfg *replayConfig) target(ctx context.Context, conf *config.Server, bucket storage.Bucket, out io.Writer) (*target, error) {
	nothing := func() error { return nil }
	to := cfg.to
	switch {
	case cfg.dry:
		return &target{name: "no destination, dry run", close: nothing}, nil
	case to != "":
	case cfg.dsn != "" || conf.Events.ClickHouse != nil && cfg.output == "":
		to = "clickhouse"
	case cfg.output != "" || conf.Events.JSONL != nil:
		to = "jsonl"
	}
	switch to {
	case "clickhouse":
		return cfg.databaseTarget(ctx, conf, bucket)
	case "jsonl":
		path := cfg.output
		if path == "" && conf.Events.JSONL != nil {
			path = conf.Events.JSONL.File
		}
		if path == "" && cfg.file == "" {
			path = filepath.Join(conf.Bucket.Dir, cli.DevEvents)
		}
		if path == "" {
			return nil, errors.New("--to jsonl needs a file: name one with --file, or at events.jsonl.file in the configuration")
		}
		f, err := jsonl.Open(path, &jsonl.Options{SyncEvery: time.Second})
		if err != nil {
			return nil, fmt.Errorf("%w; name another file with --file, in a folder that exists", err)
		}
		return &target{name: "file " + path, sink: f, close: f.Close}, nil
	case "stdout":
		return &target{name: "standard output", sink: jsonl.NewWriter("stdout", out), close: nothing}, nil
	}
	return nil, errors.New("there is no destination: name one with --to, --clickhouse or --file, or at events.clickhouse in the configuration; or count with --dry-run")
}

// checkTarget rejects flags that would be ignored in combination.
func (cfg *replayConfig) checkTarget() error {
	switch cfg.to {
	case "", "clickhouse", "jsonl", "stdout":
	default:
		return fmt.Errorf("--to %q is not known; use clickhouse, jsonl or stdout", cfg.to)
	}
	if cfg.dsn != "" && cfg.to != "" && cfg.to != "clickhouse" {
		return fmt.Errorf("--clickhouse names another destination than --to %s; omit one of them", cfg.to)
	}
	if cfg.output != "" && cfg.to != "" && cfg.to != "jsonl" {
		return fmt.Errorf("--file names another destination than --to %s; omit one of them", cfg.to)
	}
	return nil
}

func (cfg *replayConfig) databaseTarget(ctx context.Context, conf *config.Server, bucket storage.Bucket) (_ *target, err error) {
	var opts clickhouse.Options
	if cfg.dsn != "" {
		opts, err = cli.ParseDSN(cfg.dsn)
		// The retention of a database named by its address alone is unknown, so it stays unchanged.
		opts.TTLDays, opts.KeepExpiry = config.DefaultTTLDays, true
		if conf.Events.ClickHouse != nil {
			opts.TTLDays = conf.Events.ClickHouse.TTLDays
		}
	} else if cfg.file == "" {
		err = errors.New("a data folder configures no ClickHouse; name one, for example --clickhouse clickhouse://127.0.0.1:9000/parley")
	} else {
		opts, err = configuredDatabase(cfg.file, conf)
	}
	if err != nil {
		return nil, err
	}
	db, err := clickhouse.Open(ctx, opts)
	if err != nil {
		return nil, atDatabase(cfg.dsn, cfg.file, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if conf.Bucket.Endpoint == "" {
		bucket = nil // A folder has one process and needs no claims.
	}
	if err := db.Migrate(ctx, bucket, cli.HostName()); err != nil {
		return nil, err
	}
	sink, err := clickhouse.NewSink(db)
	if err != nil {
		return nil, err
	}
	return &target{name: databaseName(opts), sink: sink, close: db.Close, refresh: db.Refresh}, nil
}

// finish prints the summary of a bucket.
func (r *replay) finish(took time.Duration, bucket string) error {
	verb := "stored"
	if r.sink == nil {
		verb = "counted"
	}
	r.printf("%s %s, of %s in %s.\n", cli.Count(r.stored.Load(), "event"), verb, cli.Count(r.conversations.Load(), "conversation"), took.Round(10*time.Millisecond))
	switch n := r.conversations.Load(); {
	case len(r.corrupt) > 0:
	case n == 0 && r.agent != "":
		r.printf("%s has no conversation of agent %q; omit --agent to replay all.\n", bucket, r.agent)
	case n == 0:
		r.printf("%s has no conversations; name another bucket with --data or --config.\n", bucket)
	case r.stored.Load() == 0 && r.filter != stats.Filter{}:
		r.printf("No event is in that period; check --since and --until, which are in UTC.\n")
	}
	if n := len(r.corrupt); n > 0 {
		return &cli.ExitError{Code: cli.ExitUnknown, Err: fmt.Errorf(
			"%s could not be read to the end, and their later events are missing: %s; parley log verify has the details", cli.Count(int64(n), "log"), strings.Join(r.corrupt, "; "))}
	}
	return nil
}

func (r *replay) printf(format string, args ...any) {
	if !r.quiet {
		fmt.Fprintf(r.errOut, format, args...)
	}
}

// all stores the events of every conversation.
func (r *replay) all(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	keys := make(chan conversation.Key)
	groups := make(chan []observability.Event)
	g.Go(func() error {
		defer close(keys)
		return cli.EachConversation(ctx, r.bucket, func(key conversation.Key) error {
			select {
			case keys <- key:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	readers, reading := errgroup.WithContext(ctx)
	for range replayReaders {
		readers.Go(func() error {
			for key := range keys {
				if err := r.conversation(reading, key, groups); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(groups)
		return readers.Wait()
	})
	g.Go(func() error { return r.store(ctx, groups) })
	return g.Wait()
}
