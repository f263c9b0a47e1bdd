package killrun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// serverEnv holds a serverConfig in JSON. It makes this binary the server.
const serverEnv = "PARLEY_KILLRUN_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(serverEnv); text != "" {
		if err := runServer(text); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(authorEnv); text != "" {
		var c careless
		if err := errors.Join(json.Unmarshal([]byte(text), &c), c.serve()); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type serverConfig struct {
	Place  noderun.Place
	Vendor string // URL of the test process
	Ledger string // file for the notes of tools
	Idle   time.Duration
}

// runServer is the main function: it serves until SIGTERM.
func runServer(text string) (err error) {
	var cfg serverConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	bucket, closeBucket, err := cfg.Place.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	ledger, err := os.OpenFile(cfg.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close()
	models := providers.NewRegistry(nil)
	models.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	err = models.RegisterProvider("fake", providers.Registration{
		API: openaicompletions.API, BaseURL: cfg.Vendor + "/v1", APIKey: "none", Input: []string{providers.InputText, providers.InputImage},
	})
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	runtime, err := actors.New(bucket, &actors.Options{
		Agents: []*agent.Agent{worker(&desk{ledger: ledger, vendor: cfg.Vendor})}, Providers: models, Logger: logger,
		Pace: 50 * time.Millisecond, RetryPause: 20 * time.Millisecond, EvictAfter: cfg.Idle,
	})
	if err != nil {
		return err
	}
	agents, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/worker", Agent: "worker"}}, &parleyhttp.Options{Logger: logger})
	if err != nil {
		return err
	}
	return serve(ctx, runtime, agents)
}

// serve runs the node and its listener, and prints the URL once it is ready.
func serve(ctx context.Context, runtime *actors.Runtime, agents *parleyhttp.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: agents, ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var runErr, serveErr error
	wg.Go(func() {
		defer cancel()
		runErr = runtime.Run(ctx)
	})
	wg.Go(func() {
		defer cancel()
		select {
		case <-runtime.Ready():
		case <-ctx.Done():
			return
		}
		fmt.Printf("http://%s\n", listener.Addr())
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			serveErr = err
		}
	})
	<-ctx.Done()
	agents.Drain()
	shut, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	err = server.Shutdown(shut)
	wg.Wait()
	return errors.Join(err, runErr, serveErr)
}

// desk is the state shared by the tools.
type desk struct {
	mu     sync.Mutex
	ledger *os.File
	vendor string
}

// ledgerLine is a note of a tool. The file is not synced: it has to outlive the process, not the
// machine.
type ledgerLine struct {
	Call, Submission string
	Attempt          int
	Began, Ended     bool
	Result           string
}

func (d *desk) note(l ledgerLine) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.ledger.Write(append(b, '\n'))
	return err
}

type toolInput struct {
	Ms int `json:"ms,omitempty" jsonschema:"milliseconds to work"`
}

// toolOutput names the call it comes from.
type toolOutput struct {
	Call   string `json:"call"`
	Result string `json:"result"`
}

// datum is the n-th piece of data of a tool or hook.
type datum struct {
	Call string `json:"call"`
	N    int    `json:"n"`
}

// tool makes a tool that notes its begin and its result. It reports its begin to the test process.
func (d *desk) tool(name string, work func(ctx context.Context, call agent.Call, in toolInput) error) agent.Tool {
	run := func(ctx context.Context, in toolInput) (toolOutput, error) {
		call, _ := agent.CallFrom(ctx)
		line := ledgerLine{Call: string(call.ID), Submission: string(call.Submission), Attempt: call.Attempt, Began: true}
		if err := d.note(line); err != nil {
			return toolOutput{}, err
		}
		if resp, err := http.Post(d.vendor+"/began", "text/plain", strings.NewReader(name)); err == nil {
			resp.Body.Close()
		}
		if err := work(ctx, call, in); err != nil {
			return toolOutput{}, err
		}
		// Each run of a call returns another result.
		out := toolOutput{Call: string(call.ID), Result: fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())}
		line.Began, line.Ended, line.Result = false, true, out.Result
		return out, d.note(line)
	}
	return agent.NewTool(name, "A tool of the kill run.", run, nil)
}

// notesPerCall is the number of data writes of the tool note.
const notesPerCall = 3

var errWrong = errors.New("this tool is always wrong")

func worker(d *desk) *agent.Agent {
	shown := agent.NewDataWriter[datum]("note", nil)
	wait := func(ctx context.Context, ms int) error {
		timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	write := func(ctx context.Context, call agent.Call, in toolInput) error {
		for n := range notesPerCall {
			if err := shown.Write(ctx, datum{string(call.ID), n}); err != nil {
				return err
			}
			if err := wait(ctx, in.Ms/notesPerCall); err != nil {
				return err
			}
		}
		return nil
	}
	return &agent.Agent{
		Name: "worker", Model: "fake/model", Instructions: "Do what the message says.", ToolConcurrency: 2,
		Tools: []agent.Tool{
			d.tool("quick", func(context.Context, agent.Call, toolInput) error { return nil }),
			d.tool("slow", func(ctx context.Context, _ agent.Call, in toolInput) error { return wait(ctx, in.Ms) }),
			d.tool("wrong", func(context.Context, agent.Call, toolInput) error { return errWrong }),
			d.tool("note", write),
		},
		Data: []agent.Data{shown},
		Hooks: agent.Hooks{
			ResponseStarted: func(_ context.Context, t *agent.Turn) (map[string]any, error) {
				return map[string]any{"attempt": t.Attempt}, nil
			},
			ResponseFinished: func(ctx context.Context, r *agent.Response) (map[string]any, error) {
				return map[string]any{"finished": true}, shown.Write(ctx, datum{"", r.Attempt})
			},
		},
	}
}
