package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// serverConfig is what "parley-bench" is told.
type serverConfig struct {
	options  bench.Options
	program  string
	jsonFile string
	tokenEnv string
}

func serverCommand() *cobra.Command {
	cfg := serverConfig{}
	cmd := &cobra.Command{
		Use:   "parley-bench",
		Short: "Measure a server under a load that can be repeated",
		Long: "parley-bench starts a model and a server on 127.0.0.1, each a process of its own, puts the\n" +
			"same load on them in every run, and prints a table: how long what takes, what it costs the\n" +
			"server, and multiples of a raw conditional PUT into a folder on the same disk. A full run\n" +
			"takes up to ten minutes and --quick less than one. --profiles writes where the server's\n" +
			"processor time and allocations go in each scenario, for \"go tool pprof\".\n\n" +
			"--against puts the load on a running server of the same protocol. Its agent must answer\n" +
			"every message, and with few words; conversations named bench-… are left there. What needs\n" +
			"to look into the process or the folder is left out. So is what needs the model's help,\n" +
			"unless the agent's model is this one: start \"parley-bench model --listen 127.0.0.1:9100\",\n" +
			"give the agent a provider with the openai-completions API at http://127.0.0.1:9100/v1 and\n" +
			"a large contextWindow, and add --model-control http://127.0.0.1:9100.\n\n" +
			"Exit code: 0 if everything asked for was measured, 1 otherwise.",
		Example: "  parley-bench --quick\n  parley-bench --only turns,readers --json bench.json\n" +
			"  parley-bench --program ./parley-1.2\n  parley-bench --against http://127.0.0.1:3000/agents/echo",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.options.Progress = cmd.ErrOrStderr()
			return runServer(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	o := &cfg.options
	addLoad(cmd, o)
	cmd.Flags().StringVar(&cfg.program, "program", "", programUsage)
	cmd.Flags().StringVar(&cfg.jsonFile, "json", "", "file to write the report to as JSON, beside the table")
	cmd.Flags().StringVar(&o.Against, "against", "", "URL an agent is mounted at on a running server, without a conversation")
	cmd.Flags().StringVar(&o.Model, "model-control", "", "URL of the bench model that the agent at --against uses")
	cmd.Flags().StringVar(&o.Profiles, "profiles", "", "existing folder to write profiles of the server to, three for each scenario that measures its CPU; it is slower then")
	cmd.Flags().StringVar(&cfg.tokenEnv, "token-env", "", "environment variable that holds the bearer token of the server at --against")
	cmd.MarkFlagsMutuallyExclusive("program", "against")
	return cmd
}

// addLoad adds the flags that say what load is put on which kind of server.
func addLoad(cmd *cobra.Command, o *bench.Options) {
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "small counts: a first look within a minute")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to run, by default all: "+strings.Join(bench.Names(), ", "))
	cmd.Flags().StringVar(&o.Dir, "dir", "", "folder on the disk to measure, by default the system's temporary one; it must exist, and what is written there is removed")
	cmd.Flags().StringVar(&o.ClickHouse, "clickhouse", "", "host:port of a ClickHouse server that the measured server sends its events to, into the database parley_bench: compare CPU with and without")
	addPercent(cmd, &o.Percent)
}

func runServer(ctx context.Context, cfg serverConfig, out io.Writer) (err error) {
	o := cfg.options
	if o.Token, err = tokenOf(cfg.tokenEnv); err != nil {
		return err
	}
	if o.Against == "" {
		p, err := find(ctx, cfg.program)
		if err != nil {
			return err
		}
		o.Program, o.Self, o.Version = p.measured, p.self, p.version
	}
	if err := answers(ctx, o.ClickHouse); err != nil {
		return err
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	return finish(report, cfg.jsonFile, out)
}

// answers makes sure that there is a ClickHouse at an address, if that is not "": a server
// that sends nothing costs less than one that does, and nothing in the figures would show
// why.
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

// tokenOf returns the token of a variable, none if the variable is "".
func tokenOf(variable string) (string, error) {
	if variable == "" {
		return "", nil
	}
	token := strings.TrimSpace(os.Getenv(variable))
	if token == "" {
		return "", fmt.Errorf("--token-env %s: the variable is not set; put the server's token into it", variable)
	}
	return token, nil
}
