package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

// logConfig is what "parley-bench log" is told.
type logConfig struct {
	options  bench.LogOptions
	file     string
	jsonFile string
}

func logCommand() *cobra.Command {
	cfg := logConfig{}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Compare the log of conversations with raw conditional PUTs",
		Long: "log appends to conversations, and stores objects of the same bytes by raw conditional PUTs\n" +
			"through the same client, in turn and in one process: what disturbs one side disturbs the\n" +
			"other, so the ratios hold on a busy machine, too. It measures a folder; with --config, the\n" +
			"bucket of that file, under a prefix of its own. What it writes is deleted. A full run takes\n" +
			"about a minute and --quick a few seconds.\n\n" +
			"Exit code: 0 if everything was measured, 1 otherwise.",
		Example: "  parley-bench log --quick\n  parley-bench log --dir /data --json log.json\n" +
			"  parley-bench log --config parley.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runLog(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&cfg.file, "config", "", "configuration file that names a bucket at an endpoint, which is measured in place of a folder")
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	addPercent(cmd, &o.Percent)
	cmd.MarkFlagsMutuallyExclusive("dir", "config")
	return cmd
}

func runLog(ctx context.Context, cfg logConfig, out io.Writer) (err error) {
	o := cfg.options
	o.Version = ownVersion()
	if cfg.file != "" {
		at, place, err := bucketOf(ctx, cfg.file)
		if err != nil {
			return err
		}
		if o.Bucket, err = at.Open(); err != nil {
			return err
		}
		o.Place = place
	}
	report, err := bench.RunLog(ctx, o)
	if err != nil {
		return err
	}
	return finish(report, cfg.jsonFile, out)
}

// bucketOf finds the bucket that a configuration names, below a prefix that nobody else
// uses, makes sure that it answers, and names it without the prefix.
func bucketOf(ctx context.Context, file string) (config.Bucket, string, error) {
	conf, err := config.Load(file, nil)
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
	ctx, cancel := storage.WithFirstAnswer(ctx)
	defer cancel()
	if _, err := bucket.List(ctx, storage.ListQuery{Limit: 1}); err != nil {
		return at, "", at.Explain(err)
	}
	return at, place, nil
}
