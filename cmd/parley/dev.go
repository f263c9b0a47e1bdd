package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
)

const (
	// localPace suits a bucket whose synced writes take about a millisecond.
	localPace = 50 * time.Millisecond
	// closeTimeout bounds the wait for requests that are still open at the end.
	closeTimeout = 2 * time.Second

	mountPath = "/agents/assistant"
)

// devConfig is what "parley dev" is told.
type devConfig struct {
	listen string
	data   string
	model  string
	quiet  bool
}

func devCommand() *cobra.Command {
	cfg := devConfig{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve the demo agent on this machine, durably, with nothing to set up",
		Long: "dev serves one agent over HTTP, with all conversations in a local folder.\n" +
			"Stop it, kill it, start it again: what was accepted is carried on.",
		Example: "  parley dev\n  OPENAI_API_KEY=… parley dev --model openai/<model>",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dev(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.listen, "listen", "127.0.0.1:5173", "address to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&cfg.data, "data", "./.parley", "folder that keeps the conversations")
	cmd.Flags().StringVar(&cfg.model, "model", demoModel, "model as provider/model")
	cmd.Flags().BoolVar(&cfg.quiet, "quiet", false, "print the URL and nothing else")
	return cmd
}

// dev serves until ctx ends.
func dev(ctx context.Context, cfg devConfig, out, errOut io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelInfo}))
	reg, err := newProviders(demo.DefaultPace, os.Getenv)
	if err != nil {
		return err
	}
	if err := checkModel(reg, cfg.model); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen, or --listen 127.0.0.1:0 for any free port", cfg.listen, err)
	}
	defer listener.Close()
	store, err := local.Open(cfg.data, &local.Options{Logger: log})
	if err != nil {
		return fmt.Errorf("open the data folder: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	bucket, err := s3.New(&s3.Options{
		Endpoint: local.Endpoint, Bucket: local.Bucket, Region: local.Region, PathStyle: true, Transport: store,
	})
	if err != nil {
		return err
	}
	runtime, err := actors.New(bucket, &actors.Options{
		Agents: []*agent.Agent{assistant(cfg.model)}, Providers: reg, Logger: log, Pace: localPace,
	})
	if err != nil {
		return err
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: mountPath, Agent: "assistant"}},
		&parleyhttp.Options{Logger: log, Dev: isLoopback(listener.Addr())})
	if err != nil {
		return err
	}
	return serve(ctx, runtime, handler, listener, func() { banner(out, cfg, listener.Addr()) })
}

// serve runs the node and its HTTP server until ctx ends or one of them fails,
// then stops both in order: no new requests, live streams ended, conversations
// released. ready is called once requests are taken.
func serve(ctx context.Context, runtime *actors.Runtime, handler *parleyhttp.Handler, l net.Listener, ready func()) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return runtime.Run(ctx) })
	g.Go(func() error {
		select {
		case <-runtime.Ready():
		case <-ctx.Done():
			return nil
		}
		ready()
		server := &http.Server{Handler: loopbackCORS(handler), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		g.Go(func() error {
			<-ctx.Done()
			handler.Drain()
			shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if err := server.Shutdown(shut); err != nil {
				return errors.Join(err, server.Close())
			}
			return nil
		})
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// isLoopback reports whether only this machine can reach the address: then errors
// may tell their causes.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// localURL is how this machine reaches a listener, also one on every address.
func localURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + addr.String()
}

// goRun matches where "go run" keeps what it runs: a temporary folder, or its cache.
var goRun = regexp.MustCompile(`/go-build\d+/|/[0-9a-f]{64}-d/`)

// invocation is how the user calls this program: "go run" leaves nothing on PATH.
func invocation(args []string) string {
	if goRun.MatchString(filepath.ToSlash(args[0])) {
		return "go run ./cmd/parley"
	}
	return args[0]
}

// banner tells a newcomer what to do next.
func banner(out io.Writer, cfg devConfig, addr net.Addr) {
	url := localURL(addr) + mountPath
	if cfg.quiet {
		fmt.Fprintln(out, url)
		return
	}
	self := invocation(os.Args)
	fmt.Fprintf(out, `parley dev: agent "assistant", model %s, data in %s

  %s/<any id>

Try it in another shell:

  curl -X POST %s/hello -H 'Content-Type: application/json' -d '{"kind":"user","body":"help"}'
  curl %s/hello
  curl -N '%s/hello?view=updates&offset=-1&live=sse'

or, with the reply as it comes:

  %s send %s/hello 'long 100'

Stop this server while it answers, or kill it (pkill -9 -f 'parley dev'), and start it again: the answer goes on.
`, cfg.model, cfg.data, url, url, url, url, self, url)
	if strings.HasPrefix(cfg.model, "demo/") {
		fmt.Fprintf(out, "\nThe demo model is offline. For a real one: OPENAI_API_KEY=… %s dev --model openai/<model>\n", self)
	}
	fmt.Fprintln(out, "Ctrl-C stops it.")
}
