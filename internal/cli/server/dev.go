package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
)

// devConfig holds the flags of "parley dev".
type devConfig struct {
	program *cli.Program
	listen  string
	data    string
	// model overrides the model of every agent; "" keeps their models.
	model string
	// file is the configuration to serve instead of the demo agent, "" for none.
	file  string
	quiet bool
	// events prints events.
	events bool
}

func devCommand(p *cli.Program) *cobra.Command {
	cfg := devConfig{program: p}
	model, usage := cli.DemoModel, "model as provider/model"
	if len(p.Agents) > 0 {
		model, usage = "", "model of every agent, as provider/model; by default what the agents name"
	}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve agents on this machine without any setup",
		Long: "dev serves the agents of the program over HTTP, or a demo agent if it has none, and stores all\n" +
			"conversations in a local folder. Stop it, kill it, start it again: accepted messages are resumed.\n\n" +
			"With a configuration file, by default ./parley.yaml if it exists, it serves the agents of the\n" +
			"file instead, and reloads the file when it changes.\n\n" +
			"Observability events are written to events.jsonl in the data folder, unless the file configures\n" +
			"another destination. parley stats and parley trace read it.",
		Example: "  parley dev\n  OPENAI_API_KEY=… parley dev --model openai/<model>\n  parley dev --config parley.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.file == "" {
				cfg.file = cli.Discovered()
			}
			if cfg.file == "" {
				return dev(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			// A flag that is not set does not override the file.
			if !cmd.Flags().Changed("model") {
				cfg.model = ""
			}
			if !cmd.Flags().Changed("listen") {
				cfg.listen = ""
			}
			if !cmd.Flags().Changed("data") {
				cfg.data = ""
			}
			return devFile(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.listen, "listen", "127.0.0.1:5173", "address to listen on; port 0 selects a free one")
	cmd.Flags().StringVar(&cfg.data, "data", cli.DefaultData, "folder that stores the conversations")
	cmd.Flags().StringVar(&cfg.model, "model", model, usage)
	cmd.Flags().StringVar(&cfg.file, "config", "", "serve the agents of this file (default "+cli.DefaultConfig+" if it exists) and reload it when it changes; it also sets the defaults of --listen, --data and --model")
	cmd.Flags().BoolVar(&cfg.quiet, "quiet", false, "print only the URLs")
	cmd.Flags().BoolVar(&cfg.events, "events", false, "print observability events as lines of JSON, and all other output to standard error")
	return cmd
}

// devSegmentBatches ends every turn with a segment, so that developers see segments.
const devSegmentBatches = 1

// dev serves the demo agent until ctx ends.
func dev(ctx context.Context, cfg devConfig, out, errOut io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	log, err := cli.NewLogger(errOut, "dev", false, hidden)
	if err != nil {
		return err
	}
	reg, err := registryOf(cfg.program, nil)
	if err != nil {
		return err
	}
	if err := cli.Allow(reg, cfg.model); err != nil {
		return err
	}
	hidden.Add(reg.Secrets()...)
	conf, err := cfg.served(reg)
	if err != nil {
		return err
	}
	listener, err := openListener(cfg.listen, "choose another address with --listen, or --listen 127.0.0.1:0 for any free port", log)
	if err != nil {
		return err
	}
	defer listener.Close()
	lines := bannerOutput(conf, out, errOut)
	how := manner{program: cfg.program, registry: reg, dev: true, out: out, outcomes: cfg.outcomes(lines), secrets: hidden}
	n, err := newConfigured(ctx, conf, listener.Addr(), how, log)
	if err != nil {
		return err
	}
	warnOpen(log, listener.Addr(), config.Auth{}, "listen on 127.0.0.1, which is the default")
	page := newPage(conf, listener.Addr(), how).over(n)
	handler := guarded(page, n.handler)
	return serveNode(ctx, n, handler, listener, func() {
		if !cfg.program.HasOwn() {
			banner(lines, cfg, listener.Addr(), page.invitation(listener.Addr()))
			return
		}
		more := append(webhooksOf(cfg.program, n.handler, conf, listener.Addr()), page.invitation(listener.Addr())...)
		serveBanner(lines, "parley dev", conf, listener.Addr(), cfg.quiet, append(more, trial(cfg.program, conf, listener.Addr())...)...)
	})
}

// outcomes returns the writer of outcome lines, nil if they are not printed.
func (cfg *devConfig) outcomes(lines io.Writer) io.Writer {
	if cfg.quiet {
		return nil
	}
	return lines
}

// served returns the configuration of "parley dev" without a file: the agents of the program, or the
// demo agent.
func (cfg *devConfig) served(reg *providers.Registry) (*config.Server, error) {
	conf := &config.Server{
		Bucket: config.Bucket{Dir: cfg.data}, Events: config.Events{Live: true, Stdout: cfg.events}, Workflows: slices.Sorted(slices.Values(cfg.program.OwnWorkflows())),
	}
	if !cfg.program.HasOwn() {
		conf.Agents = []config.Agent{{Agent: assistant(cfg.model), Mounts: []string{cli.MountPath}}}
		return conf, cli.CheckModel(reg, cfg.model, "omit --model for the offline demo")
	}
	for _, a := range cfg.program.Agents {
		if cfg.model != "" {
			a = withModel(a, cfg.model)
		}
		if err := checkAgent(reg, a, true, nil); err != nil {
			return nil, err
		}
		conf.Agents = append(conf.Agents, config.Agent{Agent: a, Mounts: []string{config.DefaultMount(a.Name)}})
	}
	return conf, nil
}

// withModel returns an agent that calls one model for everything.
func withModel(a *agent.Agent, model string) *agent.Agent {
	c := *a
	c.Model, c.Fallbacks, c.Compaction.Model, c.Subagents = model, nil, "", nil
	for _, sub := range a.Subagents {
		c.Subagents = append(c.Subagents, withModel(sub, "")) // It inherits its parent's model.
	}
	return &c
}

// trial returns the banner lines that show how to call an agent.
func trial(p *cli.Program, conf *config.Server, addr net.Addr) []string {
	if len(conf.Agents) == 0 {
		return []string{fmt.Sprintf("Start a run in another shell:\n\n  %s runs start %s%s", invocation(p, os.Args), localURL(addr), workflowPath(conf.Workflows[0]))}
	}
	first, initial := conf.Agents[0], ""
	if agenthost.CheckInitialData(context.Background(), first.Agent, nil) != nil {
		initial = " --initial-data '{…}'"
	}
	return []string{fmt.Sprintf("Try it in another shell:\n\n  %s send%s %s%s/hello 'Hello!'", invocation(p, os.Args), initial, localURL(addr), first.Mounts[0])}
}

// listen opens a listener; remedy is the advice for an address in use.
func listen(address, remedy string) (net.Listener, error) {
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		return nil, fmt.Errorf("listen on %q: write host:port, for example 127.0.0.1:5173, with a port up to 65535 or 0 for any free one", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; %s", address, err, remedy)
	}
	return l, nil
}

func isPort(s string) bool {
	_, err := net.LookupPort("tcp", s)
	return err == nil
}

// isLoopback reports whether addr is a loopback address. Errors may include their causes there.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// localURL returns the URL of a listener for this machine, also for a listener on all addresses.
func localURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + addr.String()
}

// goRun matches the folder of binaries of "go run": a temporary folder, or its cache.
var goRun = regexp.MustCompile(`/go-build\d+/|/[0-9a-f]{64}-d/`)

// invocation returns the command with which the user runs this program; "go run" puts no binary on
// PATH.
func invocation(p *cli.Program, args []string) string {
	if goRun.MatchString(filepath.ToSlash(args[0])) {
		if len(p.Agents) > 0 {
			return "go run ."
		}
		return "go run ./cmd/parley"
	}
	return args[0]
}

// paragraphs precedes lines with an empty one.
func paragraphs(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	return b.String()
}

// banner prints the URL and the next steps for new users.
func banner(out io.Writer, cfg devConfig, addr net.Addr, invitation []string) {
	url := localURL(addr) + cli.MountPath
	if cfg.quiet {
		fmt.Fprintln(out, url)
		return
	}
	self := invocation(cfg.program, os.Args)
	text := fmt.Sprintf(`parley dev: agent "assistant", model %s, data in %s

  %s/<any id>
%s
Try it in another shell:

  curl -X POST %s/hello -H 'Content-Type: application/json' -d '{"kind":"user","body":"help"}'
  curl %s/hello
  curl -N '%s/hello?view=updates&offset=-1&live=sse'

or, with the reply streamed:

  %s send %s/hello 'long 100'

Stop this server while it answers, or kill it (pkill -9 -f 'parley dev'), and start it again: the reply continues.
`, cfg.model, cfg.data, url, paragraphs(invitation), url, url, url, self, url)
	if strings.HasPrefix(cfg.model, "demo/") {
		text += fmt.Sprintf("\nThe demo model is offline. For a real one:\n\n  OPENAI_API_KEY=… %s dev --model openai/<model>\n\n", self)
	}
	fmt.Fprint(out, cli.Fold(text, cli.Width(out)))
	fmt.Fprintln(out, "Press Ctrl-C to stop.")
}
