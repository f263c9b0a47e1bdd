package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/cmd/parley/internal/config"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
)

// serveConfig is what "parley serve" is told.
type serveConfig struct {
	file      string
	logFormat string
	quiet     bool
}

func serveCommand() *cobra.Command {
	cfg := serveConfig{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the agents of a configuration file",
		Long: "serve runs the agents of a configuration file over HTTP, with all conversations in the\n" +
			"folder or the bucket that the file names.\n\n" +
			"SIGTERM and Ctrl-C stop it in order: what is under way is released, and the next start\n" +
			"carries it on. A second signal ends it at once, which loses nothing either.\n\n" +
			"Exit code: 0 after an orderly end, 75 if another process serves the bucket, 1 anything else.",
		Example: "  parley serve\n  parley serve --config /etc/parley.yaml --log-format json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("serve takes no argument; name the file behind --config: parley serve --config %s", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveFile(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.file, "config", "./parley.yaml", "the configuration file")
	cmd.Flags().StringVar(&cfg.logFormat, "log-format", "text", "form of the log on standard error: text or json")
	cmd.Flags().BoolVar(&cfg.quiet, "quiet", false, "print the URLs and nothing else, log warnings and errors only")
	return cmd
}

// newLogger returns the log of a server.
func newLogger(out io.Writer, format string, quiet bool) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if quiet {
		opts.Level = slog.LevelWarn
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, opts)), nil
	}
	return nil, fmt.Errorf("--log-format %q is not known; use text or json", format)
}

// configOptions say what a configuration file may name.
func configOptions() *config.Options {
	return &config.Options{Env: os.LookupEnv, APIs: protocols(), Providers: builtinProviders()}
}

// serveFile serves a configuration until ctx ends.
func serveFile(ctx context.Context, cfg serveConfig, out, errOut io.Writer) error {
	log, err := newLogger(errOut, cfg.logFormat, cfg.quiet)
	if err != nil {
		return err
	}
	conf, err := config.Load(cfg.file, configOptions())
	if err != nil {
		return err
	}
	if err := checkAgents(cfg.file, conf); err != nil {
		return err
	}
	listener, err := listen(conf.Listen, "set another address at listen in "+cfg.file)
	if err != nil {
		return err
	}
	defer listener.Close()
	n, err := newConfigured(conf, listener.Addr(), false, log)
	if err != nil {
		return fmt.Errorf("serve %s: %w", cfg.file, err)
	}
	handler := guarded(conf, false, n.handler)
	return serveNode(ctx, n, handler, listener, func() {
		serveBanner(out, "parley serve: "+cfg.file, conf, listener.Addr(), cfg.quiet)
	})
}

// registryOf registers the providers of a configuration.
func registryOf(configured map[string]providers.Registration) (*providers.Registry, error) {
	return newProviders(demo.DefaultPace, os.Getenv, configured)
}

// checkAgents tells a user which agent's models cannot be called.
func checkAgents(file string, conf *config.Server) error {
	reg, err := registryOf(conf.Providers)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, a := range conf.Agents {
		if err := checkAgent(reg, a.Agent); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// checkAgent looks at every model that an agent and its subagents name: one that
// cannot be called would be found out only when it is needed.
func checkAgent(reg *providers.Registry, a *agent.Agent) error {
	for _, spec := range append([]string{a.Model, a.Compaction.Model}, a.Fallbacks...) {
		if spec == "" { // the parent's, or the conversation's
			continue
		}
		if err := checkModel(reg, spec, fmt.Sprintf("use %q, which is offline", demoModel)); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
	}
	for _, sub := range a.Subagents {
		if err := checkAgent(reg, sub); err != nil {
			return fmt.Errorf("agent %q: sub%w", a.Name, err)
		}
	}
	return nil
}

// newConfigured builds the node of a configuration, one of "parley dev" or another.
func newConfigured(conf *config.Server, at net.Addr, dev bool, log *slog.Logger) (*backend, error) {
	reg, err := registryOf(conf.Providers)
	if err != nil {
		return nil, err
	}
	cfg := nodeConfig{
		bucket: conf.Bucket, providers: reg, listen: at.String(), log: log,
		edge: parleyhttp.Options{
			Dev: dev && isLoopback(at), PublicURL: conf.PublicURL, TrustedProxies: conf.TrustedProxies,
			MaxBodyBytes: conf.Limits.BodyBytes, MaxTextBytes: conf.Limits.TextBytes, MaxAttachments: conf.Limits.Attachments,
		},
	}
	if dev {
		cfg.compactBatches = devCompactBatches
	}
	for _, a := range conf.Agents {
		cfg.agents = append(cfg.agents, a.Agent)
		for _, path := range a.Mounts {
			cfg.mounts = append(cfg.mounts, parleyhttp.Mount{Path: path, Agent: a.Agent.Name})
		}
	}
	if len(cfg.mounts) == 0 {
		log.Warn("no agent has a mount, so clients can reach none; add for example mounts: [/agents/echo]")
	}
	n, err := newBackend(cfg)
	return n, lockedOut(err)
}

// guarded puts the middleware of a configuration before a handler. CORS comes
// first, so that preflights pass and a page can read why it was refused.
func guarded(conf *config.Server, dev bool, next http.Handler) http.Handler {
	return origins{list: conf.CORS.Origins, loopback: dev}.middleware(bearer(conf.Auth.Bearer, next))
}

// serves names what a configuration serves: every mount and what answers there.
func serves(conf *config.Server) []string {
	var lines []string
	for _, a := range conf.Agents {
		for _, path := range a.Mounts {
			lines = append(lines, fmt.Sprintf("%s (%s, model %s)", path, a.Agent.Name, a.Agent.Model))
		}
	}
	return lines
}

// serveBanner says where everything is.
func serveBanner(out io.Writer, title string, conf *config.Server, addr net.Addr, quiet bool) {
	base := localURL(addr)
	if quiet {
		for _, a := range conf.Agents {
			for _, path := range a.Mounts {
				fmt.Fprintln(out, base+strings.TrimSuffix(path, "/"))
			}
		}
		return
	}
	fmt.Fprintf(out, "%s, conversations in %s\n\n", title, bucketName(conf.Bucket))
	for _, a := range conf.Agents {
		for _, path := range a.Mounts {
			fmt.Fprintf(out, "  %s/<any id>  agent %q, model %s\n", base+strings.TrimSuffix(path, "/"), a.Agent.Name, a.Agent.Model)
		}
	}
	if conf.PublicURL != "" {
		fmt.Fprintf(out, "\nClients reach it under %s.\n", conf.PublicURL)
	}
	fmt.Fprintln(out, "\nCtrl-C stops it.")
}
