package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// Hidden commands that the bench starts as its children.
const (
	benchModelName = "bench-model"
	benchServeName = "bench-serve"
)

// benchConfig is what "parley bench" is told.
type benchConfig struct {
	options  bench.Options
	jsonFile string
	tokenEnv string
}

func benchCommand() *cobra.Command {
	cfg := benchConfig{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server under a load that can be repeated",
		Long: "bench starts a model and a server on 127.0.0.1, each a process of its own, puts the same\n" +
			"load on them in every run, and prints a table: how long what takes, what it costs the\n" +
			"server, and multiples of a raw conditional PUT into a folder on the same disk. A full run\n" +
			"takes up to ten minutes and --quick less than one. --profiles writes where the server's\n" +
			"processor time and allocations go in each scenario, for \"go tool pprof\".\n\n" +
			"--against puts the load on a running server of the same protocol. Its agent must answer\n" +
			"every message, and with few words; conversations named bench-… are left there. What needs\n" +
			"to look into the process or the folder is left out. So is what needs the model's help,\n" +
			"unless the agent's model is this one: start \"parley bench-model --listen 127.0.0.1:9100\",\n" +
			"give the agent a provider with the openai-completions API at http://127.0.0.1:9100/v1 and\n" +
			"a large contextWindow, and add --model-control http://127.0.0.1:9100.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley bench --quick\n  parley bench --only turns,readers --json bench.json\n" +
			"  parley bench --against http://127.0.0.1:3000/agents/echo",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runBench(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look within a minute")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to run, by default all: "+strings.Join(bench.Names(), ", "))
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&o.Against, "against", "", "URL an agent is mounted at on a running server, without a conversation")
	cmd.Flags().StringVar(&o.Model, "model-control", "", "URL of the bench model that the agent at --against uses")
	cmd.Flags().StringVar(&o.Profiles, "profiles", "", "existing folder to write profiles of the server to, three for each scenario that measures its CPU; it is slower then")
	cmd.Flags().StringVar(&o.ClickHouse, "clickhouse", "", "host:port of a ClickHouse server that the measured server sends its events to, into the database parley_bench: compare CPU with and without")
	cmd.Flags().StringVar(&cfg.tokenEnv, "token-env", "", "environment variable that holds the bearer token of the server at --against")
	cmd.Flags().IntVar(&o.Percent, "percent", 100, "share of the counts to put on, for tests of the bench itself")
	_ = cmd.Flags().MarkHidden("percent") // The flag is there: it was made above.
	cmd.AddCommand(benchLogCommand(), benchClusterCommand(), benchBucketCommand())
	return cmd
}

func runBench(ctx context.Context, cfg benchConfig, out io.Writer) (err error) {
	o := cfg.options
	if o.Token, err = tokenOf(cfg.tokenEnv); err != nil {
		return err
	}
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if o.ClickHouse != "" {
		if err := answers(ctx, o.ClickHouse); err != nil {
			return fmt.Errorf("bench: --clickhouse: %w", err)
		}
	}
	o.ModelArgs = []string{benchModelName, "--child"}
	o.ServeArgs = []string{benchServeName, "--config"}
	if o.Against == "" {
		o.Version = benchVersion()
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return finish(report, "bench", cfg.jsonFile, out)
}

// answers makes sure that there is a ClickHouse: a server that sends nothing costs less
// than one that does, and nothing in the figures would show why.
func answers(ctx context.Context, address string) error {
	db, err := clickhouse.Open(ctx, clickhouse.Options{Addresses: []string{address}})
	if err != nil {
		return err
	}
	return db.Close()
}

// benchVersion names the program that is measured, as exactly as its build tells.
func benchVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "parley devel"
	}
	return "parley " + info.Main.Version
}

func writeReport(name string, report *bench.Report) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return report.WriteJSON(f)
}

// benchModelCommand serves the model of the bench.
func benchModelCommand() *cobra.Command {
	address, isChild := "", false
	cmd := &cobra.Command{
		Use: benchModelName, Short: "Serve the model of parley bench", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if isChild {
				var cancel context.CancelFunc
				ctx, cancel = obey(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
				defer cancel()
			}
			return serveBenchModel(ctx, address, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "address to listen on")
	cmd.Flags().BoolVar(&isChild, "child", false, "end when standard input does")
	return cmd
}

func serveBenchModel(ctx context.Context, address string, out io.Writer) error {
	l, err := listen(address, "set another one with --listen")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, localURL(l.Addr()))
	server := &http.Server{Handler: bench.NewModel()}
	// Calls that hang at a gate would never end by themselves.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the model: %w", err)
	}
	return nil
}

// benchServeCommand is "parley serve" as a child of the bench: it ends when its
// standard input does, and frees memory and profiles itself when asked to.
func benchServeCommand() *cobra.Command {
	cfg := serveConfig{logFormat: "text", quiet: true}
	cmd := &cobra.Command{
		Use: benchServeName, Short: "Serve as a child of parley bench", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := obey(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			defer cancel()
			return serveFile(ctx, cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.file, "config", "", "the configuration file")
	cmd.Flags().BoolVar(&cfg.insecure, "insecure-cluster", false, "let nodes talk without certificates")
	return cmd
}
