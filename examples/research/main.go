package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/storage/local"
)

// config is what the program is told.
type config struct {
	listen, data            string
	lead, fallback, critic  string // models
	openAIURL, anthropicURL string
}

func main() {
	cfg := config{openAIURL: os.Getenv("OPENAI_BASE_URL"), anthropicURL: os.Getenv("ANTHROPIC_BASE_URL")}
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:8080", "address to listen on")
	flag.StringVar(&cfg.data, "data", "./research-data", "folder that keeps the conversations")
	flag.StringVar(&cfg.lead, "model", "openai/gpt-5", "model of the lead and the reader")
	flag.StringVar(&cfg.fallback, "fallback", "anthropic/claude-haiku-4-5", "model to go on with when that one fails")
	flag.StringVar(&cfg.critic, "critic", "anthropic/claude-opus-4-6", "model of the critic")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It writes to out where conversations are reached.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	store, err := local.Open(cfg.data, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	models, err := newModels(cfg)
	if err != nil {
		return err
	}
	runtime, err := actors.New(store, &actors.Options{
		Agents:    []*agent.Agent{newTeam(cfg.lead, cfg.fallback, cfg.critic, newLibrary())},
		Providers: models, Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/research", Agent: "research"}}, nil)
	if err != nil {
		return err
	}
	return serve(ctx, cfg.listen, runtime, handler, out)
}

// serve runs the runtime and its server until ctx ends or one of them fails.
func serve(ctx context.Context, listen string, runtime *actors.Runtime, handler *parleyhttp.Handler, out io.Writer) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return runtime.Run(ctx) })
	g.Go(func() error {
		select {
		case <-runtime.Ready():
		case <-ctx.Done():
			return listener.Close()
		}
		fmt.Fprintf(out, "http://%s/agents/research\n", listener.Addr())
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		handler.Drain() // ends live streams; their clients come back with their offsets
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(shut)
	})
	return g.Wait()
}

// newModels registers what the team may name as its models. How large a model's
// context is decides when a conversation is compacted.
func newModels(cfg config) (*providers.Registry, error) {
	models := providers.NewRegistry(nil)
	models.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	models.RegisterProtocol(anthropicmessages.API, anthropicmessages.New(nil))
	err := models.RegisterProvider("openai", providers.Registration{
		API: openaicompletions.API, BaseURL: cmp.Or(cfg.openAIURL, "https://api.openai.com/v1"),
		APIKey: os.Getenv("OPENAI_API_KEY"), ContextWindow: new(400_000), MaxTokens: new(100_000), Reasoning: new(true),
	})
	if err != nil {
		return nil, err
	}
	err = models.RegisterProvider("anthropic", providers.Registration{
		API: anthropicmessages.API, BaseURL: cmp.Or(cfg.anthropicURL, "https://api.anthropic.com"),
		APIKey: os.Getenv("ANTHROPIC_API_KEY"), ContextWindow: new(200_000), MaxTokens: new(32_000), Reasoning: new(true),
	})
	return models, err
}
