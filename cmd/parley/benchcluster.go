package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
	"github.com/parleyrun/parley/storage/local"
)

// benchBucketName is a hidden command that the bench starts as its child.
const benchBucketName = "bucket"

// benchClusterConfig is what "parley bench cluster" is told.
type benchClusterConfig struct {
	options  bench.ClusterOptions
	file     string
	jsonFile string
}

func benchClusterCommand() *cobra.Command {
	cfg := benchClusterConfig{}
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
		Example: "  parley bench cluster --quick\n  parley bench cluster --only cluster-failover --json cluster.json\n" +
			"  parley bench cluster --config parley.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runBenchCluster(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to run, by default all: "+strings.Join(bench.ClusterNames(), ", "))
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to use, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&o.Logs, "logs", "", "existing folder to add the nodes' warnings and errors to")
	cmd.Flags().StringVar(&cfg.file, "config", "", "configuration file that names a bucket at an endpoint, which the nodes share in place of a folder")
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	cmd.Flags().IntVar(&o.Percent, "percent", 100, "share of the counts to put on, for tests of the bench itself")
	_ = cmd.Flags().MarkHidden("percent") // The flag is there: it was made above.
	return cmd
}

func runBenchCluster(ctx context.Context, cfg benchClusterConfig, out io.Writer) (err error) {
	o := cfg.options
	o.Version = benchVersion()
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.ModelArgs = []string{benchModelName, "--child"}
	o.NodeArgs = []string{benchServeName, "--insecure-cluster", "--config"}
	o.BucketArgs = []string{"bench", benchBucketName, "--dir"}
	if cfg.file != "" {
		at, place, err := benchEndpoint(ctx, cfg.file)
		if err != nil {
			return err
		}
		o.Bucket = &bench.Endpoint{
			Address: at.Endpoint, Name: at.Name, Region: at.Region, Prefix: at.Prefix, Secure: at.Secure,
			AccessKey: at.AccessKey, SecretKey: at.SecretKey, Place: place,
		}
	}
	report, err := bench.RunCluster(ctx, o)
	if err != nil {
		return fmt.Errorf("bench cluster: %w", err)
	}
	return finish(report, "bench cluster", cfg.jsonFile, out)
}

// benchBucketCommand serves a folder as the bucket of a cluster.
func benchBucketCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: benchBucketName, Short: "Serve a folder as the bucket of parley bench cluster", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := obey(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			defer cancel()
			return serveBenchBucket(ctx, dir, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the folder")
	return cmd
}

func serveBenchBucket(ctx context.Context, dir string, out io.Writer) (err error) {
	store, err := local.Open(dir, nil)
	if err != nil {
		return fmt.Errorf("open the folder of the bucket: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	l, err := listen("127.0.0.1:0", "free a port")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, localURL(l.Addr())+path.Join("/", local.Bucket))
	server := &http.Server{Handler: store, ReadHeaderTimeout: 10 * time.Second}
	// Whoever used it has ended.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the bucket: %w", err)
	}
	return nil
}
