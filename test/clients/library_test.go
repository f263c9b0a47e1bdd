package clients_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/storage"
)

type joinInput struct {
	Words []string `json:"words"`
	// Gate is a gate of the model. The tool waits for it, so that the test controls its duration.
	Gate string `json:"gate"`
}

type joinOutput struct {
	Joined string `json:"joined"`
}

type failInput struct {
	Why string `json:"why"`
}

type progress struct {
	Percent int `json:"percent"`
}

// progressInput is the input of the tool progress: a percentage, and those that follow it.
type progressInput struct {
	Percent int   `json:"percent"`
	Then    []int `json:"then,omitempty"`
}

type approveInput struct {
	Names []string `json:"names"`
	// Ms is the timeout of each approval in milliseconds; 0 waits indefinitely.
	Ms int `json:"ms,omitempty"`
}

type room struct {
	Room string `json:"room"`
}

// libraryRun is a workflow that a tool starts without waiting for it.
var libraryRun = agent.NewWorkflow("start", func(context.Context, struct{}) (string, error) { return "over", nil }, nil)

func libraryAgents(model string) []*agent.Agent {
	show := agent.NewDataWriter[progress]("progress", nil)
	tools := []agent.Tool{
		agent.NewTool("join", "Join words.", func(ctx context.Context, in joinInput) (joinOutput, error) {
			return joinOutput{strings.Join(in.Words, " ")}, waitGate(ctx, model, in.Gate)
		}, nil),
		agent.NewTool("fail", "Fail.", func(_ context.Context, in failInput) (joinOutput, error) {
			return joinOutput{}, errors.New(in.Why)
		}, nil),
		agent.NewTool("progress", "Show progress.", func(ctx context.Context, in progressInput) (string, error) {
			for _, percent := range append([]int{in.Percent}, in.Then...) {
				if err := show.Write(ctx, progress{percent}); err != nil {
					return "", err
				}
			}
			return "shown", nil
		}, nil),
		agent.NewTool("approve", "Wait for approvals.", func(ctx context.Context, in approveInput) (string, error) {
			for _, name := range in.Names {
				if _, err := agent.Wait[bool](ctx, name, &agent.WaitOptions{Timeout: time.Duration(in.Ms) * time.Millisecond}); err != nil {
					return "", err
				}
			}
			return "approved", nil
		}, &agent.ToolOptions{Durable: true}),
		libraryRun.Tool("Start a run.", nil),
	}
	hooks := agent.Hooks{
		ResponseStarted: func(context.Context, *agent.Turn) (map[string]any, error) {
			return map[string]any{"mood": "tense", "usage": map[string]any{"started": true}}, nil
		},
		ResponseFinished: func(context.Context, *agent.Response) (map[string]any, error) {
			return map[string]any{"mood": "calm", "usage": map[string]any{"finished": true}}, nil
		},
	}
	return []*agent.Agent{
		{Name: "completions", Model: "first/m1", Tools: tools, Data: []agent.Data{show}, Hooks: hooks, ThinkingLevel: agent.ThinkingLow},
		{Name: "messages", Model: "second/m2", Tools: tools, Data: []agent.Data{show}, ThinkingLevel: agent.ThinkingLow},
		{Name: "strict", Model: "first/m1", InitialData: agent.SchemaFor[room]()},
		libraryRun.Definition(),
	}
}

func waitGate(ctx context.Context, model, gate string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, model+"/gate/"+gate, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("gate %q: status %d", gate, resp.StatusCode)
	}
	return nil
}

// startLibrary runs the agents in this process, and returns the base URL of their mounts.
func startLibrary(t *testing.T, bucket storage.Bucket, model string) string {
	t.Helper()
	reg := providers.NewRegistry(&providers.RegistryOptions{Getenv: func(string) string { return "" }})
	reg.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	reg.RegisterProtocol(anthropicmessages.API, anthropicmessages.New(nil))
	for id, r := range map[string]providers.Registration{
		"first":  {API: openaicompletions.API, BaseURL: model + "/v1"},
		"second": {API: anthropicmessages.API, BaseURL: model},
	} {
		r.APIKey, r.Reasoning = modelKey, new(true)
		if err := reg.RegisterProvider(id, r); err != nil {
			t.Fatal(err)
		}
	}
	var log waiting.Log
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	agents := libraryAgents(model)
	runtime, err := actors.New(bucket, &actors.Options{Agents: agents, Providers: reg, Logger: logger, Pace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var mounts []parleyhttp.Mount
	for _, a := range agents[:len(agents)-1] { // all but the workflow
		mounts = append(mounts, parleyhttp.Mount{Path: "/" + a.Name, Agent: a.Name})
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), mounts, &parleyhttp.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Drain()
		server.CloseClientConnections()
		server.Close()
		cancel()
		if err := <-done; err != nil || t.Failed() {
			t.Errorf("runtime of the library stopped: %v\n%s", err, tail(log.String()))
		}
	})
	select {
	case <-runtime.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("start runtime of the library: %v", err)
	}
	return server.URL
}
