package analyst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
)

// sourceConfig holds the flags that name a source of events.
type sourceConfig struct {
	program   *cli.Program
	place     *cli.Place
	file, dsn string
	errOut    io.Writer
}

// flags adds the flags that name a source.
func (cfg *sourceConfig) flags(cmd *cobra.Command) {
	cfg.place = cli.NewPlace(cfg.program, cmd, "the destination of events", true)
	cmd.Flags().StringVar(&cfg.file, "file", "", "read this file of events, and its rotated files; - is standard input")
	cmd.Flags().StringVar(&cfg.dsn, "clickhouse", "", "read this database: clickhouse://user:password@host:9000/parley, or http:// or https:// with its port")
	cmd.MarkFlagsMutuallyExclusive("config", "data", "file", "clickhouse")
}

// source is a readable set of events.
type source interface {
	// String describes the source for the user.
	String() string
	// trace yields the events of a submission, and possibly others.
	trace(context.Context, conversation.SubmissionID) iter.Seq2[observability.Event, error]
	summary(context.Context, stats.Filter) (*stats.Summary, error)
	// newest returns the id of the newest submission, "" without any.
	newest(context.Context) (conversation.SubmissionID, error)
	close() error
}

// open opens the source.
func (cfg *sourceConfig) open(ctx context.Context, in io.Reader) (source, error) {
	switch {
	case cfg.dsn != "":
		opts, err := cli.ParseDSN(cfg.dsn)
		if err != nil {
			return nil, err
		}
		return openDatabase(ctx, opts, cfg.dsn, "")
	case cfg.file == "-":
		return &fileSource{name: "standard input", events: jsonl.Read(in), errOut: cfg.errOut, once: true}, nil
	case cfg.file != "":
		return cfg.openFile(cfg.file, "name another file with --file")
	}
	conf, file, err := cfg.place.Find("events.clickhouse")
	var nowhere *cli.NowhereError
	if errors.As(err, &nowhere) {
		return nil, fmt.Errorf("there are no events: %w; or name a file of them with --file or a database with --clickhouse", err)
	}
	if err != nil {
		return nil, err
	}
	return cfg.configured(ctx, conf, file)
}

// configured opens the destination of events in a configuration; file is its name, "" for a folder
// alone.
func (cfg *sourceConfig) configured(ctx context.Context, conf *config.Server, file string) (source, error) {
	kept := filepath.Join(conf.Bucket.Dir, cli.DevEvents) // by "parley dev"
	switch e := conf.Events; {
	case e.ClickHouse != nil:
		opts, err := configuredDatabase(file, conf)
		if err != nil {
			return nil, err
		}
		return openDatabase(ctx, opts, "", file)
	case e.JSONL != nil:
		if !exists(e.JSONL.File) && cfg.place.File == "" && exists(kept) {
			return cfg.openFile(kept, "")
		}
		return cfg.openFile(e.JSONL.File, "a server that runs with "+file+" makes it")
	case file == "":
		return cfg.openFile(kept, "parley dev makes it with the first message; or name a configuration with --config, a file with --file or a database with --clickhouse")
	case conf.Bucket.Dir != "" && exists(kept):
		return cfg.openFile(kept, "")
	}
	return nil, fmt.Errorf("%s configures no readable destination of events; add for example events: {jsonl: {file: events.jsonl}}, or name a source with --file or --clickhouse", file)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (cfg *sourceConfig) openFile(path, remedy string) (source, error) {
	files, err := jsonl.Files(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
		return nil, fmt.Errorf("there are no events in %s: the file does not exist; %s", path, remedy)
	}
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; name a file in it, for example --file %s", path, filepath.Join(path, cli.DevEvents))
	}
	return &fileSource{name: "file " + path, events: jsonl.ReadFiles(path), errOut: cfg.errOut}, nil
}

// fileSource is a file of events.
type fileSource struct {
	name   string
	events iter.Seq2[observability.Event, error]
	errOut io.Writer
	once   bool // it cannot be read again
}

func (s *fileSource) String() string { return s.name }

func (s *fileSource) close() error { return nil }

func (s *fileSource) trace(ctx context.Context, _ conversation.SubmissionID) iter.Seq2[observability.Event, error] {
	return s.readable(ctx)
}

func (s *fileSource) summary(ctx context.Context, f stats.Filter) (*stats.Summary, error) {
	return stats.Summarize(s.readable(ctx), f)
}

func (s *fileSource) newest(ctx context.Context) (conversation.SubmissionID, error) {
	if s.once {
		return "", errors.New("standard input can be read only once; name the submission, or use a file")
	}
	sum, err := stats.Summarize(s.readable(ctx), stats.Filter{})
	if err != nil || len(sum.Recent) == 0 {
		return "", err
	}
	return sum.Recent[0].Submission, nil
}

// readable yields the events and reports the number of invalid lines. A file without any event is an
// error. It stops with the context, because files are large.
func (s *fileSource) readable(ctx context.Context) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		var first error
		good, bad := int64(0), int64(0)
		defer func() {
			if bad > 0 && good > 0 {
				fmt.Fprintf(s.errOut, "parley: %s of %s skipped, the first one: %v\n", cli.Count(bad, "line"), s.name, first)
			}
		}()
		for e, err := range s.events {
			if ctx.Err() != nil {
				yield(observability.Event{}, fmt.Errorf("read %s: %w", s.name, context.Cause(ctx)))
				return
			}
			var line *jsonl.LineError
			if errors.As(err, &line) {
				if bad++; bad == 1 {
					first = err
				}
				continue
			}
			if good++; !yield(e, err) {
				return
			}
		}
		if bad > 0 && good == 0 {
			yield(observability.Event{}, fmt.Errorf("%s has no events, which are lines of JSON; name another file with --file (%s, the first one: %w)", s.name, cli.Count(bad, "other line"), first))
		}
	}
}

// moment parses a point in time: a duration before now, or a date or a time in UTC.
func moment(flag, s string, now time.Time) (conversation.Time, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return conversation.Time(now.Add(-time.Duration(n) * 24 * time.Hour).UnixMilli()), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return conversation.Time(now.Add(-d).UnixMilli()), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return conversation.Time(t.UnixMilli()), nil
		}
	}
	return 0, fmt.Errorf("--%s %q is not a time; write a duration before now, as 90m, 24h or 7d, or a date or time in UTC, as 2026-11-01 or 2026-11-01T15:04", flag, s)
}

// period parses --since and --until.
func period(since, until string, now time.Time) (from, to conversation.Time, err error) {
	if from, err = moment("since", since, now); err != nil {
		return 0, 0, err
	}
	if to, err = moment("until", until, now); err != nil {
		return 0, 0, err
	}
	if from > conversation.TimeOf(now) {
		return 0, 0, fmt.Errorf("--since %s is in the future, now is %s in UTC; write a past time, or a duration before now, as 24h", since, now.UTC().Format("2006-01-02T15:04"))
	}
	if to != 0 && from >= to {
		return 0, 0, fmt.Errorf("--since %s is not before --until %s", since, until)
	}
	return from, to, nil
}

func utcTime(t conversation.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02 15:04:05")
}
