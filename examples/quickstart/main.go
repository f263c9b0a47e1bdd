package main

import (
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

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/storage/local"
)

// config is what the program is told.
type config struct {
	listen, data, model, token string
}

func main() {
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:8080", "address to listen on")
	flag.StringVar(&cfg.data, "data", "./quickstart-data", "folder that keeps the conversations")
	flag.StringVar(&cfg.model, "model", "demo/parrot", "model as provider/model")
	flag.StringVar(&cfg.token, "token", "open-sesame", "token that callers send as X-Token")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	store, err := local.Open(cfg.data, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	models, err := newModels()
	if err != nil {
		return err
	}
	runtime, err := actors.New(store, &actors.Options{
		Agents: []*agent.Agent{concierge(cfg.model)}, Providers: models,
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	agents, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/concierge", Agent: "concierge"}}, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newRouter(agents, cfg.token), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return runtime.Run(ctx) })
	g.Go(func() error {
		select {
		case <-runtime.Ready():
		case <-ctx.Done():
			return listener.Close()
		}
		fmt.Fprintf(out, "http://%s/agents/concierge/<any id>\n", listener.Addr())
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		agents.Drain() // ends live streams; their clients come back with their offsets
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(shut)
	})
	return g.Wait()
}

// newRouter is the program's own: its own routes beside the agents', its own
// middleware before them. Conversation ids may contain %2F and dots, so the router
// has to leave paths as they came.
func newRouter(agents http.Handler, token string) *mux.Router {
	r := mux.NewRouter().UseEncodedPath().SkipClean(true)
	r.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.PathPrefix("/agents/").Handler(requireToken(token, agents))
	return r
}

// requireToken lets only callers with the token pass. The protocol itself knows no
// authentication: that is the program's.
func requireToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != token {
			parleyhttp.LeaveBody(w, r) // it will not be read
			http.Error(w, "send your token as X-Token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newModels registers what the agent may name as its model.
func newModels() (*providers.Registry, error) {
	models := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin()})
	models.RegisterProtocol(demo.API, demo.New(demo.DefaultPace))
	models.RegisterProtocol(anthropicmessages.API, anthropicmessages.New(nil))
	models.RegisterProtocol(openairesponses.API, openairesponses.New(nil))
	return models, models.RegisterProvider("demo", demo.Registration())
}

// guest is what a conversation begins with: the initialData of its first message.
type guest struct {
	Name string `json:"name" jsonschema:"what to call the guest"`
}

// zoneInput is what the model says to the tool.
type zoneInput struct {
	Zone string `json:"zone,omitempty" jsonschema:"IANA time zone such as Europe/Berlin; UTC if left out"`
}

// clock is what the tool answers, and what clients may draw.
type clock struct {
	Zone string `json:"zone"`
	Time string `json:"time"`
}

// concierge defines the agent.
func concierge(model string) *agent.Agent {
	shown := agent.NewDataWriter[clock]("clock", nil)
	tell := func(ctx context.Context, in zoneInput) (clock, error) {
		loc, err := time.LoadLocation(in.Zone)
		if err != nil {
			return clock{}, fmt.Errorf("unknown zone %q: use an IANA name such as Europe/Berlin", in.Zone)
		}
		c := clock{Zone: loc.String(), Time: time.Now().In(loc).Format(time.Kitchen)}
		return c, shown.Write(ctx, c)
	}
	return &agent.Agent{
		Name:         "concierge",
		Model:        model,
		Instructions: "You are the concierge of a hotel. Answer briefly. Use the tool time when somebody asks for the time.",
		Tools:        []agent.Tool{agent.NewTool("time", "Tell the time in a zone.", tell, nil)},
		InitialData:  agent.SchemaFor[*guest](), // a pointer: a conversation may begin without
		Data:         []agent.Data{shown},
		Hooks: agent.Hooks{
			ResponseStarted: func(_ context.Context, t *agent.Turn) (map[string]any, error) {
				return map[string]any{"attempt": t.Attempt}, nil
			},
			ResponseFinished: func(_ context.Context, r *agent.Response) (map[string]any, error) {
				return map[string]any{"tokens": r.Usage.Total, "stopReason": r.StopReason}, nil
			},
		},
	}
}
