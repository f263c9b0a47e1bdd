package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage"
)

// serveConfig holds the flags of "parley serve".
type serveConfig struct {
	program *cli.Program
	file    string
	// named reports whether --config is set.
	named bool
	// listen and data override the file if not "".
	listen, data string
	// open allows a public address of the platform without authentication.
	open      bool
	logFormat string
	quiet     bool
	// insecure lets the nodes of this machine communicate without certificates.
	insecure bool
	// strictReads enables strictReads of the file.
	strictReads bool
	// drainDelay overrides drain.delay of the file if drainGiven.
	drainDelay time.Duration
	drainGiven bool
}

func serveCommand(p *cli.Program) *cobra.Command {
	cfg := serveConfig{program: p}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the agents of the program and of a configuration file",
		Long: "serve runs the agents of the program and of a configuration file over HTTP, and stores all\n" +
			"conversations in the folder or the bucket that the file names. A program with agents of\n" +
			"its own needs no file.\n\n" +
			"SIGTERM and Ctrl-C shut it down: work in progress is released, and the next start resumes it.\n" +
			"A second signal ends it at once, without data loss.\n\n" +
			"Several nodes: give each the same file with a bucket at an endpoint and a section cluster,\n" +
			"and start it on each machine. The nodes find each other in the bucket and may join or leave\n" +
			"at any time. Without that section a node serves its bucket alone, and does not start while\n" +
			"another node does. Nodes authenticate each other with certificates, which\n" +
			"\"parley cluster certs\" creates; --insecure-cluster is for several nodes on one machine:\n\n" +
			"  cluster:\n" +
			"    listen: 0.0.0.0:7946\n" +
			"    advertise: 10.0.0.5:7946   # or advertiseEnv: POD_IP\n" +
			"    tls: {ca: ca.pem, cert: node.pem, key: node-key.pem}\n\n" +
			"With events: {clickhouse: {addresses: [127.0.0.1:9000]}} it sends observability events there;\n" +
			"jsonl, stdout and otel are other destinations. Conversations never wait for them.\n\n" +
			"With admin: {listen: 127.0.0.1:9464} it serves /healthz, /readyz and /metrics there, without\n" +
			"authentication; with pprof: true in addition to listen also /debug/pprof/, for go tool pprof.\n\n" +
			"Exit code: 0 after a shutdown; 75 if another process serves the bucket alone, or if the other\n" +
			"nodes replaced this one: start it again; 1 any other error.",
		Example: "  parley serve\n  parley serve --config /etc/parley.yaml --log-format json\n  parley serve --config node-1.yaml --insecure-cluster",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("serve takes no arguments; name the file with --config: parley serve --config %s", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.named, cfg.drainGiven = cmd.Flags().Changed("config"), cmd.Flags().Changed("drain-delay")
			return serveFile(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.file, "config", cli.DefaultConfig, "the configuration file")
	cmd.Flags().StringVar(&cfg.listen, "listen", "", "address to listen on, instead of that of the file; port 0 selects a free one")
	cmd.Flags().StringVar(&cfg.data, "data", "", "folder that stores the conversations, instead of the bucket of the file")
	cmd.Flags().BoolVar(&cfg.open, "insecure", false, "allow 0.0.0.0:$PORT without authentication")
	cmd.Flags().StringVar(&cfg.logFormat, "log-format", "text", "format of the log on standard error: text, json, or dev with readable stacks")
	cmd.Flags().BoolVar(&cfg.quiet, "quiet", false, "print only the URLs, and log only warnings and errors")
	cmd.Flags().BoolVar(&cfg.insecure, "insecure-cluster", false, "connect nodes without certificates; cluster.listen must be a loopback address")
	cmd.Flags().DurationVar(&cfg.drainDelay, "drain-delay", 0, "time to serve requests after SIGTERM while /readyz returns 503, instead of drain.delay of the file (default 5s with a section cluster, 0s without)")
	cmd.Flags().BoolVar(&cfg.strictReads, "strict-reads", false, "list the bucket for the newest batch on every read, like strictReads: true")
	return cmd
}

// load reads the configuration and applies the overrides.
func (cfg *serveConfig) load(env func(string) string) (*config.Server, error) {
	conf, err := cfg.program.Config(cfg.file, cfg.named)
	if err != nil {
		return nil, err
	}
	if cfg.data != "" {
		if conf.Cluster != nil {
			return nil, fmt.Errorf("--data: %s has a section cluster, whose nodes share a bucket; omit one of them", cfg.file)
		}
		conf.Bucket = config.Bucket{Dir: cfg.data}
	}
	if cfg.drainGiven {
		if cfg.drainDelay < 0 || cfg.drainDelay > config.MaxDrainDelay {
			return nil, fmt.Errorf("--drain-delay: %v is not a duration of 0s to %v; write for example --drain-delay 5s", cfg.drainDelay, config.MaxDrainDelay)
		}
		conf.Drain.Delay = &cfg.drainDelay
	}
	switch port := env("PORT"); {
	case cfg.listen != "":
		conf.Listen = cfg.listen
	case conf.ListenGiven || port == "":
	case conf.Auth.Bearer == "" && !cfg.open:
		return nil, fmt.Errorf("PORT is %s, which would be open without authentication: set auth: {bearerEnv: PARLEY_TOKEN} in %s, "+
			"use --insecure if a proxy authenticates clients, or name an address with --listen", port, cfg.file)
	default:
		conf.Listen = net.JoinHostPort("0.0.0.0", port)
	}
	return conf, nil
}

// source returns the source of the served agents for messages: the configuration file, or the program if
// there is none.
func (cfg *serveConfig) source() string {
	if _, err := os.Stat(cfg.file); errors.Is(err, fs.ErrNotExist) {
		return "the program"
	}
	return cfg.file
}

// serveFile serves a configuration until ctx ends.
func serveFile(ctx context.Context, cfg serveConfig, out, errOut io.Writer) (err error) {
	hidden := &cli.Secrets{}
	defer func() { err = hidden.Hidden(err) }()
	log, err := cli.NewLogger(errOut, cfg.logFormat, cfg.quiet, hidden)
	if err != nil {
		return err
	}
	conf, err := cfg.load(os.Getenv)
	if err != nil {
		return err
	}
	source := cfg.source()
	if err := CheckAgents(cfg.program, source, conf); err != nil {
		return err
	}
	if conf.StrictReads = conf.StrictReads || cfg.strictReads; conf.Cluster != nil || cfg.insecure {
		if err := checkCluster(cfg.file, conf, cfg.insecure); err != nil {
			return err
		}
	}
	listener, err := openListener(conf.Listen, "set another address at listen in "+cfg.file, log)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := checkConsole(source, conf, listener.Addr()); err != nil {
		return err
	}
	observed, err := newObserver(cfg.file, conf, log)
	if err != nil {
		return err
	}
	defer observed.close()
	// The admin listener responds while the node is created, which may take long if the bucket is
	// slow.
	var made atomic.Pointer[backend]
	status := func() actors.Status {
		if n := made.Load(); n != nil {
			return listener.status(n.runtime.Status())
		}
		return actors.Status{Reason: "reading the format stamp of the bucket"}
	}
	listener.server.DrainDelay = drainDelay(conf)
	observed.process = func() (p admin.Process) {
		if n := made.Load(); n != nil {
			p = n.process(listener)
		}
		return p
	}
	how := manner{program: cfg.program, insecure: cfg.insecure, measure: observed.measure(), observers: observed.sinks(), out: out, secrets: hidden}
	err = observed.run(ctx, status, func(ctx context.Context) error {
		n, err := newConfigured(ctx, conf, listener.Addr(), how, log)
		if err != nil {
			return stopped(ctx, fmt.Errorf("serve %s: %w", source, err))
		}
		made.Store(n)
		warnOpen(log, listener.Addr(), conf.Auth, "set auth: {bearerEnv: PARLEY_TOKEN}, or listen on 127.0.0.1 behind what asks who they are")
		page := newPage(conf, listener.Addr(), how)
		return serveNode(ctx, n, observed.measured(guarded(page, n.handler)), listener, func() {
			more := append(webhooksOf(cfg.program, n.handler, conf, listener.Addr()), page.invitation(listener.Addr())...)
			more = append(more, clusterLines(conf, n.runtime.Status(), observed.address())...)
			serveBanner(cfg.started(bannerOutput(conf, out, errOut), hidden), "parley serve: "+source, conf, listener.Addr(), cfg.quiet, more...)
		})
	})
	return explainCluster(conf, err)
}

// started returns the writer of the banner: out, or a log on out if the log is in JSON. A quiet server
// prints a banner too.
func (cfg *serveConfig) started(out io.Writer, hidden *cli.Secrets) io.Writer {
	if cfg.logFormat != "json" {
		return out
	}
	log, err := cli.NewLogger(out, cfg.logFormat, false, hidden)
	if err != nil {
		return out // The format was validated before.
	}
	return startLog{log}
}

// stopped returns nil for the error of a cancelled start.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bannerOutput returns the stream for the banner, which must not be the stream of events.
func bannerOutput(conf *config.Server, out, errOut io.Writer) io.Writer {
	if conf.Events.Stdout {
		return errOut
	}
	return out
}

// registryOf registers the providers of a configuration.
func registryOf(p *cli.Program, configured map[string]providers.Registration) (*providers.Registry, error) {
	return p.NewProviders(demo.DefaultPace, os.Getenv, configured)
}

// CheckAgents returns an error for the first agent whose models cannot be called.
func CheckAgents(p *cli.Program, file string, conf *config.Server) error {
	reg, err := registryOf(p, conf.Providers)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, a := range conf.Agents {
		if err := checkAgent(reg, a.Agent, true, conf.BlankKeys); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// checkAgent validates every model of an agent and its subagents, as the runtime does, with the error
// texts of this program. If others is set, a model in a format that the program does not implement is
// left to the runtime, which logs a warning. blank is BlankKeys of the configuration.
func checkAgent(reg *providers.Registry, a *agent.Agent, others bool, blank map[string]string) error {
	for _, spec := range append([]string{a.Model, a.Compaction.Model}, a.Fallbacks...) {
		if spec == "" { // inherited from the parent or the conversation
			continue
		}
		other := fmt.Sprintf("use %q, which is offline", cli.DemoModel)
		provider, _, _ := strings.Cut(spec, "/")
		if named, ok := blank[provider]; ok {
			other = fmt.Sprintf("export %s, which apiKeyEnv names and is blank, or %s", named, other)
		}
		err := cli.CheckModel(reg, spec, other)
		var unspoken *cli.UnspokenError
		if err != nil && !(others && errors.As(err, &unspoken)) {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
	}
	for _, sub := range a.Subagents {
		if err := checkAgent(reg, sub, others, blank); err != nil {
			return fmt.Errorf("agent %q: sub%w", a.Name, err)
		}
	}
	return nil
}

// manner configures how a configuration is served.
type manner struct {
	program *cli.Program
	// registry has the models; nil creates one.
	registry *providers.Registry
	// dev is set for "parley dev".
	dev bool
	// insecure lets nodes communicate without certificates.
	insecure bool
	// measure is that of nodeConfig.
	measure func(storage.Bucket) storage.Bucket
	// out is standard output. outcomes is the writer of outcome lines, nil for none.
	out, outcomes io.Writer
	// observers get the events in addition to those of the program.
	observers []observability.Sink
	// secrets collects the secrets of the configuration.
	secrets *cli.Secrets
	// file is the configuration that dev serves and reloads, "" without one. refused returns the error
	// of its newest content, nil if it is served.
	file    string
	refused func() error
}

// newConfigured builds the node of a configuration.
func newConfigured(ctx context.Context, conf *config.Server, at net.Addr, how manner, log *slog.Logger) (*backend, error) {
	reg := how.registry
	if reg == nil {
		var err error
		if reg, err = registryOf(how.program, conf.Providers); err != nil {
			return nil, err
		}
	}
	warnKeys(log, reg, conf.BlankKeys)
	for _, a := range conf.Agents {
		warnSchemas(log, reg, a.Agent)
	}
	targets, err := targetsOf(how.program.Targets, conf.Channels)
	if err != nil {
		return nil, err
	}
	how.secrets.Add(cli.SecretsOf(conf)...)
	how.secrets.Add(reg.Secrets()...)
	cfg := nodeConfig{
		bucket: conf.Bucket, providers: reg, listen: advertisedAddress(conf, at), log: log,
		cluster: clusterOptions(conf.Cluster, how.insecure), strictReads: conf.StrictReads, measure: how.measure,
		memoryBytes: conf.Limits.MemoryBytes, followerBytes: conf.Limits.FollowerBytes, idleBytes: conf.Limits.IdleBytes, reserveBytes: conf.Limits.ReserveBytes,
		events:   eventsConfig{Events: conf.Events, dev: how.dev, out: how.out, observers: slices.Concat(how.program.Observers, how.observers)},
		channels: channelsOf(how.program, conf.Channels),
		webhooks: conf.Webhooks, targets: targets,
		edge: parleyhttp.Options{
			Dev: how.dev && isLoopback(at), PublicURL: conf.PublicURL, TrustedProxies: conf.TrustedProxies,
			MaxBodyBytes: conf.Limits.BodyBytes, MaxTextBytes: conf.Limits.TextBytes, MaxAttachments: conf.Limits.Attachments,
			SpoolBytes: conf.Limits.SpoolBytes, ReaderBytes: conf.Limits.ReaderBytes,
		},
	}
	if how.dev {
		cfg.segmentBatches = devSegmentBatches
	}
	cfg.events.prompts = cfg.events.confides(conf.Bucket)
	if how.outcomes != nil {
		cfg.events.observers = append(cfg.events.observers, outcomeLines(how.outcomes))
	}
	if b := conf.Beta; b != nil {
		cfg.edge.Beta = &parleyhttp.Beta{Path: b.Path, Agents: b.Agents, Workflows: b.Workflows}
	}
	if len(conf.Workflows) > 0 {
		cfg.edge.Runs = &parleyhttp.Runs{Path: "/", Workflows: conf.Workflows}
	}
	for _, w := range how.program.Workflows {
		cfg.agents = append(cfg.agents, w.Definition())
	}
	for _, a := range conf.Agents {
		arm(a.Agent)
		cfg.agents = append(cfg.agents, a.Agent)
		for _, path := range a.Mounts {
			cfg.mounts = append(cfg.mounts, parleyhttp.Mount{Path: path, Agent: a.Agent.Name})
		}
	}
	reached := len(cfg.mounts)+len(conf.Workflows)+len(conf.Channels) > 0 || conf.Beta != nil || how.program.Channels != nil || len(how.program.Mounts) > 0
	if !reached {
		log.Warn("no agent has a mount", "remedy", "add for example mounts: [/agents/echo]")
	}
	return newBackend(ctx, cfg)
}

// guarded adds the middleware of a configuration to a handler. CORS is outermost, so that preflights
// pass and a page can read the reason of a rejection. Then follow the extensions of the program and
// the API of the console, whose page is public. Without a token, [home] guards everything but
// webhooks.
func guarded(p pageOf, next http.Handler) http.Handler {
	mounts := muxOf(p.how.program.Mounts)
	open := extended(p.how.program, mounts, p.api(next))
	h, _ := next.(*parleyhttp.Handler)
	// Platforms send no token, use the name of a tunnel, and sign their deliveries.
	webhook := func(r *http.Request) bool { return h != nil && h.IsWebhook(r) || provesSender(mounts, r) }
	token := unless(webhook, bearer(p.conf.Auth.Bearer, open), open)
	handler := p.page(originsOf(p.conf.CORS, p.how.dev).middleware(token))
	if !p.how.dev && p.conf.Auth.Bearer != "" {
		return handler
	}
	return unless(webhook, newHome(p.conf, !p.how.dev && !p.local).middleware(handler), handler)
}

// serves lists every mount of a configuration and its agent.
func serves(conf *config.Server) []string {
	var lines []string
	for _, a := range conf.Agents {
		for _, path := range a.Mounts {
			lines = append(lines, fmt.Sprintf("%s (%s, model %s)", path, a.Agent.Name, a.Agent.Model))
		}
	}
	for _, w := range conf.Workflows {
		lines = append(lines, workflowPath(w))
	}
	for _, c := range conf.Channels {
		lines = append(lines, webhookPath(c))
	}
	return lines
}

// serveBanner prints the URLs of a server, followed by more.
func serveBanner(out io.Writer, title string, conf *config.Server, addr net.Addr, quiet bool, more ...string) {
	base := localURL(addr)
	if quiet {
		for _, a := range conf.Agents {
			for _, path := range a.Mounts {
				fmt.Fprintln(out, base+strings.TrimSuffix(path, "/"))
			}
		}
		for _, w := range conf.Workflows {
			fmt.Fprintln(out, base+workflowPath(w))
		}
		return
	}
	fmt.Fprintf(out, "%s, conversations in %s\n\n", title, conf.Bucket.Place())
	for _, a := range conf.Agents {
		for _, path := range a.Mounts {
			fmt.Fprintf(out, "  %s/<any id>  agent %q, model %s\n", base+strings.TrimSuffix(path, "/"), a.Agent.Name, a.Agent.Model)
		}
	}
	for _, w := range conf.Workflows {
		fmt.Fprintf(out, "  %s  workflow %q\n", base+workflowPath(w), w)
	}
	for _, c := range conf.Channels {
		fmt.Fprintf(out, "  %s  webhooks of %s, agent %q\n", base+webhookPath(c), c.Kind, c.Agent)
	}
	if b := conf.Beta; b != nil {
		fmt.Fprintf(out, "\nClients of the beta line: base URL %s%s%s.\n", base+strings.TrimSuffix(b.Path, "/"), listed("agents", b.Agents), listed("workflows", b.Workflows))
	}
	if conf.PublicURL != "" {
		fmt.Fprintf(out, "\nPublic URL: %s\n", conf.PublicURL)
	}
	for _, line := range more {
		fmt.Fprintln(out, "\n"+line)
	}
	fmt.Fprintln(out, "\nPress Ctrl-C to stop.")
}

// workflowPath returns the path at which runs of a workflow are started.
func workflowPath(name string) string { return "/workflows/" + name }

// webhookPath returns the path of a declared channel's webhook.
func webhookPath(c config.Channel) string {
	route := "/webhook"
	if c.Kind == config.KindSlack {
		route = "/events"
	}
	return "/channels/" + c.Name + route
}

// listed formats names with their kind, "" for no names.
func listed(kind string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", " + kind + " " + strings.Join(names, ", ")
}
