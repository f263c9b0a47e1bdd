package clientcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
)

// devServer is the default address of "parley dev".
const devServer = "http://127.0.0.1:5173"

// runsConfig holds the flags of "parley runs".
type runsConfig struct {
	server     string
	login      converse.AccessFlags
	input, key string
	wait, json bool
	offset     string
}

func runsCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Start, show, follow, signal and abort runs of workflows",
	}
	cmd.AddCommand(runsStartCommand(p), runsShowCommand(), runsFollowCommand(), runsSignalCommand(), runsAbortCommand())
	return cmd
}

func runsStartCommand(p *cli.Program) *cobra.Command {
	cfg := &runsConfig{}
	cmd := &cobra.Command{
		Use:   "start <workflow>",
		Short: "Start a run of a workflow and print its id",
		Long: "start begins a run of a workflow, given by its name at the server or by its URL. Once the id is\n" +
			"printed, the run is durable and ends exactly once, regardless of crashes. With --wait the command\n" +
			"waits for the end, across restarts of the server, and prints the result: text as it is, any other\n" +
			"value as JSON.\n\n" +
			"Exit code: 0 begun or completed, 2 failed, 3 aborted, 130 interrupted, 1 any other error.",
		Example: "  parley runs start nightly --input '{\"day\":\"2026-11-25\"}' --wait\n" +
			"  parley runs start " + devServer + "/workflows/nightly --input @day.json --key 2026-11-25",
		Args: takes("start", 1, 1, "the name or the URL of a workflow: parley runs start nightly"),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := inputOf(cfg.input, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return cfg.start(cmd.Context(), args[0], input, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				names = p.OwnWorkflows()
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cfg.flags(cmd)
	cmd.Flags().StringVar(&cfg.input, "input", "{}", "the input as JSON; @file reads it from a file, and - from standard input")
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key (default: a new one); starts with the same key are one run")
	cmd.Flags().BoolVar(&cfg.wait, "wait", false, "wait for the end and print the result")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print the server's response as JSON")
	return cmd
}

func runsShowCommand() *cobra.Command {
	cfg := &runsConfig{}
	cmd := &cobra.Command{
		Use:   "show <run>",
		Short: "Print the state of a run",
		Long: "show prints the workflow of a run, its state, its input, and its result or error.\n\n" +
			"Exit code: 0 if the run is known, 130 interrupted, 1 any other error.",
		Args: takes("show", 1, 1, "the id or the URL of a run: parley runs show run_…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.show(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cfg.flags(cmd)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print it as JSON")
	return cmd
}

func runsFollowCommand() *cobra.Command {
	cfg := &runsConfig{}
	cmd := &cobra.Command{
		Use:   "follow <run>",
		Short: "Print the events of a run until it ends",
		Long: "follow prints the events of a run from its beginning until it ends. It continues across restarts\n" +
			"of the server.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 any other error.",
		Args: takes("follow", 1, 1, "the id or the URL of a run: parley runs follow run_…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.follow(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cfg.flags(cmd)
	cmd.Flags().StringVar(&cfg.offset, "offset", "-1", "print the events after this one; -1 is the beginning")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print the events as lines of JSON")
	return cmd
}

func runsSignalCommand() *cobra.Command {
	cfg := &runsConfig{}
	cmd := &cobra.Command{
		Use:   "signal <run> <name> [value]",
		Short: "Send a signal to a waiting run",
		Long: "signal resolves the wait of a run with this name. The value is JSON, or text if the run waits for\n" +
			"text, and true if it is omitted. The first signal that fits resolves the wait; a signal that\n" +
			"arrives before the wait is kept.\n\n" +
			"Exit code: 0 accepted or kept, 130 interrupted, 1 any other error.",
		Example: "  parley runs signal run_… approval\n  parley runs signal run_… approval '{\"ok\":false,\"why\":\"the sums are off\"}'",
		Args:    takes("signal", 2, 3, "a run, a name and a value: parley runs signal run_… approval true"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value := "true"
			if len(args) > 2 {
				value = args[2]
			}
			return cfg.signal(cmd.Context(), args[0], args[1], value, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cfg.flags(cmd)
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key (default: a new one); a signal with the same key is admitted once")
	return cmd
}

func runsAbortCommand() *cobra.Command {
	cfg, tree := &runsConfig{}, false
	cmd := &cobra.Command{
		Use:   "abort <run>",
		Short: "Abort a run",
		Long: "abort asks the server to abort a run. Effects of its completed steps are not undone, and the runs\n" +
			"that it has started continue, unless --tree is given.",
		Args: takes("abort", 1, 1, "the id or the URL of a run: parley runs abort run_…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.abort(cmd.Context(), args[0], tree, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cfg.flags(cmd)
	cmd.Flags().BoolVar(&tree, "tree", false, treeFlag)
	return cmd
}

func (cfg *runsConfig) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&cfg.server, "server", devServer, "URL of the server, for a name or an id without a URL")
	cfg.login.Add(cmd)
}

// takes limits the number of arguments of a command.
func takes(command string, least, most int, desc string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return fmt.Errorf("runs %s takes %s", command, desc)
	}
}

// inputOf reads the input of a new run.
func inputOf(given string, in io.Reader) (json.RawMessage, error) {
	from, raw := "--input", []byte(given)
	var err error
	if name, ok := strings.CutPrefix(given, "@"); ok {
		from = name
		raw, err = os.ReadFile(name)
	} else if given == "-" {
		from = "standard input"
		raw, err = io.ReadAll(io.LimitReader(in, conversation.MaxPayloadBytes+1))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the input: %w; name a file as --input @input.json", err)
	case len(raw) > conversation.MaxPayloadBytes:
		return nil, fmt.Errorf("the input is longer than the limit of %d bytes", conversation.MaxPayloadBytes)
	case !json.Valid(raw):
		return nil, fmt.Errorf(`%s is not JSON; put it in quotes, for example --input '{"day":"2026-11-25"}', a text as '"text"', or name a file as --input @input.json`, from)
	}
	return raw, nil
}

// at returns the server of a workflow or a run, and its name there. kind is the path segment before
// the name in a URL.
func (cfg *runsConfig) at(given, kind string) (server *url.URL, name string, err error) {
	desc := map[string]string{"workflows": "a workflow", "runs": "a run"}[kind]
	base, name := cfg.server, given
	if strings.Contains(given, "://") {
		path, _, _ := strings.Cut(given, "?")
		var rest string
		var ok bool
		if base, rest, ok = strings.Cut(strings.TrimRight(path, "/"), "/"+kind+"/"); !ok || strings.Contains(rest, "/") {
			return nil, "", fmt.Errorf("%q is not the URL of %s; it looks like %s/%s/<%s>", given, desc, devServer, kind, map[string]string{"workflows": "name", "runs": "id"}[kind])
		}
		if name, err = url.PathUnescape(rest); err != nil {
			return nil, "", fmt.Errorf("%q is not the URL of %s: %w", given, desc, err)
		}
	}
	if server, err = url.Parse(base); err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, "", fmt.Errorf("--server %.200q is not a URL; write for example %s", base, devServer)
	}
	if kind == "runs" && !conversation.RunID(name).Valid() {
		return nil, "", fmt.Errorf("%.100q is not the id of a run, which is run_ and 26 digits and letters; parley runs start prints it", name)
	}
	return server, name, nil
}

// target is the workflow or the run that an argument names.
type target struct {
	name   string
	access converse.Access
	notes  *converse.Notices
}

func (cfg *runsConfig) target(given, kind string, errOut io.Writer) (*target, error) {
	server, name, err := cfg.at(given, kind)
	if err != nil {
		return nil, err
	}
	access, err := cfg.login.Access()
	return &target{name, access, &converse.Notices{At: server, ErrOut: errOut}}, err
}

// reach calls do with a client of the server.
func (t *target) reach(ctx context.Context, do func(ctx context.Context, runs *client.Runs) error) error {
	return t.notes.Reach(ctx, func(ctx context.Context, retrying func(error)) error {
		o := t.access.Options()
		o.Retrying = retrying
		runs, err := client.NewRuns(t.notes.At.String(), o)
		if err != nil {
			return err
		}
		return do(ctx, runs)
	})
}

// run calls do with a client of the run.
func (t *target) run(ctx context.Context, do func(ctx context.Context, run *client.Run) error) error {
	return t.reach(ctx, func(ctx context.Context, runs *client.Runs) error {
		return do(ctx, runs.Run(conversation.RunID(t.name)))
	})
}

// explained rewrites an error of the client for the user.
func explained(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted")}
	}
	return converse.Readable(err)
}

// start begins a run, and waits for its end with --wait.
func (cfg *runsConfig) start(ctx context.Context, given string, input json.RawMessage, out, errOut io.Writer) error {
	t, err := cfg.target(given, "workflows", errOut)
	if err != nil {
		return err
	}
	if cfg.key == "" {
		cfg.key = cli.NewKey()
	}
	var run *client.Run
	var begun client.Begun
	err = t.reach(ctx, func(ctx context.Context, runs *client.Runs) (err error) {
		begun, err = runs.Begin(ctx, t.name, input, &client.BeginOptions{Key: cfg.key})
		run = runs.Run(begun.RunID)
		return err
	})
	switch {
	case err != nil:
		return converse.Unsure(ctx, "start", "run", cfg.key, converse.NotAdmitted(err))
	case !cfg.wait && cfg.json:
		return printJSON(out, begun)
	case !cfg.wait:
		_, err = fmt.Fprintln(out, begun.RunID)
		return err
	}
	t.notes.Line("started %s", begun.RunID)
	status, err := run.Await(ctx, nil)
	if status == nil {
		if ctx.Err() != nil {
			return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the run continues at the server, parley runs follow %s shows it", run.URL())}
		}
		return explained(ctx, err)
	}
	switch err = nil; {
	case cfg.json:
		err = printJSON(out, status)
	case status.Err() == nil:
		_, err = fmt.Fprintln(out, resultText(status.Result))
	}
	if err != nil {
		return err
	}
	return exitOf(status, cfg.json)
}

// exitOf returns the exit code of an ended run as an error, without a text if reported is true.
func exitOf(status *client.RunStatus, reported bool) error {
	var failed *client.RunError
	if !errors.As(status.Err(), &failed) {
		return nil
	}
	exit := &cli.ExitError{Code: cli.ExitFailed, Err: failed}
	if failed.Outcome == conversation.OutcomeAborted {
		exit.Code = cli.ExitAborted
	}
	if reported {
		exit.Err = nil
	}
	return exit
}

func (cfg *runsConfig) show(ctx context.Context, given string, out, errOut io.Writer) error {
	t, err := cfg.target(given, "runs", errOut)
	if err != nil {
		return err
	}
	var status *client.RunStatus
	if err := t.run(ctx, func(ctx context.Context, run *client.Run) (err error) {
		status, err = run.Status(ctx)
		return err
	}); err != nil {
		return explained(ctx, err)
	}
	if cfg.json {
		return printJSON(out, status)
	}
	return printStatus(out, status)
}

func (cfg *runsConfig) follow(ctx context.Context, given string, out, errOut io.Writer) error {
	after, err := conversation.ParseOffset(cfg.offset)
	if err != nil {
		return fmt.Errorf("--offset: %w; omit it to begin with the first event", err)
	}
	t, err := cfg.target(given, "runs", errOut)
	if err != nil {
		return err
	}
	var run *client.Run
	if err := t.run(ctx, func(ctx context.Context, r *client.Run) error {
		run = r
		_, err := run.Status(ctx)
		return err
	}); err != nil {
		return explained(ctx, err)
	}
	p := &eventPrinter{out: out, json: cfg.json, width: cli.Width(out)}
	for e, err := range run.Events(ctx, after) {
		if err == nil {
			err = p.event(e)
		}
		if err != nil {
			return explained(ctx, err)
		}
	}
	status, err := run.Status(ctx)
	if err != nil {
		return explained(ctx, err)
	}
	return exitOf(status, true)
}

func (cfg *runsConfig) signal(ctx context.Context, given, name, value string, out, errOut io.Writer) error {
	m, err := client.SignalFor(name, value)
	if err != nil {
		return err
	}
	if m.Key = cfg.key; m.Key == "" {
		m.Key = cli.NewKey()
	}
	t, err := cfg.target(given, "runs", errOut)
	if err != nil {
		return err
	}
	if err := t.run(ctx, func(ctx context.Context, run *client.Run) error {
		_, err := run.Send(ctx, m)
		return err
	}); err != nil {
		return converse.Unsure(ctx, "signal", "signal", m.Key, converse.NotAdmitted(err))
	}
	_, err = fmt.Fprintln(out, "signalled")
	return err
}

// abort sends one request without retries.
func (cfg *runsConfig) abort(ctx context.Context, given string, tree bool, out, errOut io.Writer) error {
	t, err := cfg.target(given, "runs", errOut)
	if err != nil {
		return err
	}
	var done conversation.TreeAborted
	if err := t.run(ctx, func(ctx context.Context, run *client.Run) (err error) {
		done, err = abortOf(ctx, run, tree)
		return err
	}); err != nil {
		return explained(ctx, err)
	}
	return printAborted(out, done)
}
