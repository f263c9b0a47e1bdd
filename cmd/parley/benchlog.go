package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

// benchLogConfig is what "parley bench log" is told.
type benchLogConfig struct {
	options  bench.LogOptions
	file     string
	jsonFile string
}

func benchLogCommand() *cobra.Command {
	cfg := benchLogConfig{}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Compare the log of conversations with raw conditional PUTs",
		Long: "log appends to conversations, and stores objects of the same bytes by raw conditional PUTs\n" +
			"through the same client, in turn and in one process: what disturbs one side disturbs the\n" +
			"other, so the ratios hold on a busy machine, too. It measures a folder; with --config, the\n" +
			"bucket of that file, under a prefix of its own. What it writes is deleted. A full run takes\n" +
			"about a minute and --quick a few seconds.\n\n" +
			"Exit code: 0 if everything was measured, 1 otherwise.",
		Example: "  parley bench log --quick\n  parley bench log --dir /data --json log.json\n" +
			"  parley bench log --config parley.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runBenchLog(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&cfg.file, "config", "", "configuration file that names a bucket at an endpoint, which is measured in place of a folder")
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	cmd.Flags().IntVar(&o.Percent, "percent", 100, "share of the counts to put on, for tests of the bench itself")
	_ = cmd.Flags().MarkHidden("percent") // The flag is there: it was made above.
	cmd.MarkFlagsMutuallyExclusive("dir", "config")
	return cmd
}

func runBenchLog(ctx context.Context, cfg benchLogConfig, out io.Writer) (err error) {
	o := cfg.options
	o.Version = benchVersion()
	if cfg.file != "" {
		if o.Bucket, o.Place, err = benchBucket(ctx, cfg.file); err != nil {
			return err
		}
	}
	report, err := bench.RunLog(ctx, o)
	if err != nil {
		return fmt.Errorf("bench log: %w", err)
	}
	return finish(report, "bench log", cfg.jsonFile, out)
}

// benchEndpoint finds the bucket that a configuration names, below a prefix that
// nobody else uses, and makes sure that it answers.
func benchEndpoint(ctx context.Context, file string) (config.Bucket, string, error) {
	conf, err := config.Load(file, configOptions())
	if err != nil {
		return config.Bucket{}, "", err
	}
	at := conf.Bucket
	if at.Endpoint == "" {
		return at, "", fmt.Errorf("%s keeps conversations in the folder %s; measure its disk with --dir, or set bucket.endpoint", file, at.Dir)
	}
	place := at.Place()
	at.Prefix = path.Join(at.Prefix, fmt.Sprintf("bench-%d", time.Now().UnixNano()))
	bucket, err := at.Open()
	if err != nil {
		return at, "", err
	}
	ctx, cancel := config.WithBucketTimeout(ctx)
	defer cancel()
	if _, err := bucket.List(ctx, storage.ListQuery{Limit: 1}); err != nil {
		return at, "", at.Explain(err)
	}
	return at, place, nil
}

// benchBucket opens that bucket.
func benchBucket(ctx context.Context, file string) (storage.Bucket, string, error) {
	at, place, err := benchEndpoint(ctx, file)
	if err != nil {
		return nil, "", err
	}
	bucket, err := at.Open()
	return bucket, place, err
}

// finish writes a report, and fails if a scenario has.
func finish(report *bench.Report, name, jsonFile string, out io.Writer) error {
	err := report.WriteTable(out)
	if err == nil && jsonFile != "" {
		err = writeReport(jsonFile, report)
	}
	if n := report.Failed(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%s: %d of %d scenarios failed", name, n, len(report.Scenarios)))
	}
	return err
}
