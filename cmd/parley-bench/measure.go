package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/storage"
)

// measurement holds the flags of a command that measures.
type measurement struct {
	suite    *bench.Suite
	options  bench.Options
	program  string
	file     string
	jsonFile string
	tokenEnv string
}

// command makes the command of a suite, with the flags common to all.
func (m *measurement) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m.options.Progress = cmd.ErrOrStderr()
		return m.run(cmd.Context(), cmd.OutOrStdout())
	}
	cmd.Flags().StringVar(&m.jsonFile, "json", "", "file to write the report to as JSON, in addition to the table")
	m.load(cmd)
	return cmd
}

// load adds the flags for the amount and the target of the load.
func (m *measurement) load(cmd *cobra.Command) {
	o := &m.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "use small counts; figures are preliminary")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure, by default the system's temporary one; it must exist, and all written data is removed")
	cmd.Flags().IntVar(&o.Percent, "percent", 100, "share of the counts to run, for tests of the bench itself")
	_ = cmd.Flags().MarkHidden("percent") // The flag exists: it is defined above.
	if m.suite != bench.Log {
		cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to run, by default all: "+strings.Join(m.suite.Names(), ", "))
	}
	if m.suite == bench.Server {
		cmd.Flags().StringVar(&o.ClickHouse, "clickhouse", "", "host:port of a ClickHouse server that the measured server sends its events to, into the database parley_bench: compare CPU with and without")
	}
}

// named adds the flag for the program.
func (m *measurement) named(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.program, "program", "", "parley program to measure, by default the one next to parley-bench, or else on PATH")
}

func serverCommand() *cobra.Command {
	m := &measurement{suite: bench.Server}
	cmd := m.command(&cobra.Command{
		Use:   "parley-bench",
		Short: "Measure a server under a reproducible load",
		Long: "parley-bench starts a model and a server on 127.0.0.1, each a separate process, puts the\n" +
			"same load on them in every run, and prints a table: latencies, the costs of the\n" +
			"server, and multiples of a raw conditional PUT into a folder on the same disk. A full run\n" +
			"takes up to ten minutes and --quick less than one. --profiles writes where the server's\n" +
			"processor time and allocations go in each scenario, for \"go tool pprof\".\n\n" +
			"--against puts the load on a running server of the same protocol. Its agent must answer\n" +
			"every message, and with few words; conversations named bench-… are left there. Scenarios\n" +
			"that need the process or the folder are omitted, and those that need the bench's model,\n" +
			"unless the agent's model is this one: start \"parley-bench model --listen 127.0.0.1:9100\",\n" +
			"give the agent a provider with the openai-completions API at http://127.0.0.1:9100/v1 and\n" +
			"a large contextWindow, and add --model-control http://127.0.0.1:9100.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley-bench --quick\n  parley-bench --only turns,readers --json bench.json\n" +
			"  parley-bench --program ./parley-1.2\n  parley-bench --against http://127.0.0.1:3000/agents/echo",
	})
	o := &m.options
	m.named(cmd)
	cmd.Flags().StringVar(&o.Against, "against", "", "URL an agent is mounted at on a running server, without a conversation")
	cmd.Flags().StringVar(&o.Model, "model-control", "", "URL of the bench model that the agent at --against uses")
	cmd.Flags().StringVar(&o.Profiles, "profiles", "", "existing folder to write profiles of the server to, three for each scenario that measures its CPU; it is slower then")
	cmd.Flags().StringVar(&m.tokenEnv, "token-env", "", "environment variable that holds the bearer token of the server at --against")
	cmd.MarkFlagsMutuallyExclusive("program", "against")
	return cmd
}

func logCommand() *cobra.Command {
	m := &measurement{suite: bench.Log}
	cmd := m.command(&cobra.Command{
		Use:   "log",
		Short: "Compare the log of conversations with raw conditional PUTs",
		Long: "log appends to conversations, and stores objects of the same bytes by raw conditional PUTs\n" +
			"through the same client, in turn and in one process. A disturbance affects both sides,\n" +
			"so the ratios hold on a busy machine, too. It measures a folder; with --config, the\n" +
			"bucket of that file, under a separate prefix. Its objects are deleted. A full run takes\n" +
			"about a minute and --quick a few seconds.\n\n" +
			"Exit code: 0 if everything was measured, 1 otherwise.",
		Example: "  parley-bench log --quick\n  parley-bench log --dir /data --json log.json\n" +
			"  parley-bench log --config parley.yaml",
	})
	cmd.Flags().StringVar(&m.file, "config", "", "configuration file that names a bucket at an endpoint, which is measured in place of a folder")
	cmd.MarkFlagsMutuallyExclusive("dir", "config")
	return cmd
}

func clusterCommand() *cobra.Command {
	m := &measurement{suite: bench.Cluster}
	cmd := m.command(&cobra.Command{
		Use:   "cluster",
		Short: "Measure nodes that share a bucket while they join, leave and crash",
		Long: "cluster starts a model, a bucket and up to three nodes on 127.0.0.1, each a separate\n" +
			"process, and measures a cluster and the effects of a lost node: kill -9 in mid-reply,\n" +
			"joins, leaves and rolling restarts under a load, requests through a node that does not own a\n" +
			"conversation, readers at two nodes, idle conversations. The nodes run at default intervals.\n\n" +
			"The bucket is the embedded one over a folder, served over HTTP; with --config, the bucket of\n" +
			"that file, under a separate prefix that is deleted. A full run takes about five\n" +
			"minutes and --quick about one.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley-bench cluster --quick\n  parley-bench cluster --only cluster-failover --json cluster.json\n" +
			"  parley-bench cluster --config parley.yaml",
	})
	m.named(cmd)
	cmd.Flags().StringVar(&m.options.Logs, "logs", "", "existing folder to add the nodes' warnings and errors to")
	cmd.Flags().StringVar(&m.file, "config", "", "configuration file that names a bucket at an endpoint, which the nodes share in place of a folder")
	return cmd
}

// run measures, and writes the report.
func (m *measurement) run(ctx context.Context, out io.Writer) (err error) {
	o := m.options
	if o.Token, err = tokenOf(m.tokenEnv); err != nil {
		return err
	}
	if m.suite == bench.Log {
		o.Version = ownVersion()
	} else if o.Against == "" {
		if err := find(ctx, m.program, &o); err != nil {
			return err
		}
	}
	if err := answers(ctx, o.ClickHouse); err != nil {
		return err
	}
	if m.file != "" {
		if o.Bucket, err = bucketOf(ctx, m.file); err != nil {
			return err
		}
	}
	report, err := bench.Run(ctx, m.suite, o)
	if err != nil {
		return err
	}
	return finish(report, m.jsonFile, out)
}

// answers checks that a ClickHouse server answers at an address, unless it is "". A server that
// exports no events costs less, and the metrics would not show the reason.
func answers(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	db, err := clickhouse.Open(ctx, clickhouse.Options{Addresses: []string{address}})
	if err != nil {
		return fmt.Errorf("--clickhouse: %w", err)
	}
	return db.Close()
}

func tokenOf(variable string) (string, error) {
	token := strings.TrimSpace(os.Getenv(variable))
	if variable != "" && token == "" {
		return "", fmt.Errorf("--token-env %s: the variable is not set; put the server's token into it", variable)
	}
	return token, nil
}

// bucketOf returns the bucket of a configuration, after checking that it answers.
func bucketOf(ctx context.Context, file string) (*config.Bucket, error) {
	conf, err := config.Load(file, nil)
	if err != nil {
		return nil, err
	}
	at := conf.Bucket
	if at.Endpoint == "" {
		return nil, fmt.Errorf("bucket in %s is the folder %s; set bucket.endpoint, or measure the disk with --dir", file, at.Dir)
	}
	bucket, err := at.Open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := storage.WithFirstAnswer(ctx)
	defer cancel()
	if _, err := bucket.List(ctx, storage.ListQuery{Limit: 1}); err != nil {
		return nil, at.Explain(err)
	}
	return &at, nil
}
