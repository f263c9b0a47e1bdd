package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
)

// clusterConfig is what "parley-bench cluster" is told.
type clusterConfig struct {
	options  bench.ClusterOptions
	program  string
	file     string
	jsonFile string
}

func clusterCommand() *cobra.Command {
	cfg := clusterConfig{}
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Measure nodes that share a bucket, while they join, leave and die",
		Long: "cluster starts a model, a bucket and up to three nodes on 127.0.0.1, each a process of its\n" +
			"own, and measures what a cluster costs and what is left of a node's end: kill -9 in mid-reply,\n" +
			"joins, leaves and rolling restarts under a load, the way through a node that does not own a\n" +
			"conversation, readers at two nodes, idle conversations. The nodes run at default intervals.\n\n" +
			"The bucket is the embedded one over a folder, served over HTTP; with --config, the bucket of\n" +
			"that file, under a prefix of its own that is deleted. A full run takes about five\n" +
			"minutes and --quick about one.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley-bench cluster --quick\n  parley-bench cluster --only cluster-failover --json cluster.json\n" +
			"  parley-bench cluster --config parley.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runCluster(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to run, by default all: "+strings.Join(bench.ClusterNames(), ", "))
	cmd.Flags().StringVar(&cfg.program, "program", "", programUsage)
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to use, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&o.Logs, "logs", "", "existing folder to add the nodes' warnings and errors to")
	cmd.Flags().StringVar(&cfg.file, "config", "", "configuration file that names a bucket at an endpoint, which the nodes share in place of a folder")
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	addPercent(cmd, &o.Percent)
	return cmd
}

func runCluster(ctx context.Context, cfg clusterConfig, out io.Writer) (err error) {
	o := cfg.options
	p, err := find(ctx, cfg.program)
	if err != nil {
		return err
	}
	o.Program, o.Self, o.Version = p.measured, p.self, p.version
	if cfg.file != "" {
		at, place, err := bucketOf(ctx, cfg.file)
		if err != nil {
			return err
		}
		o.Bucket, o.Place = &at, place
	}
	report, err := bench.RunCluster(ctx, o)
	if err != nil {
		return err
	}
	return finish(report, cfg.jsonFile, out)
}
