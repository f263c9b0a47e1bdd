package parley_test

import (
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// butler is a model format that needs no network.
type butler struct{}

// Stream implements providers.Protocol.
func (butler) Stream(ctx context.Context, m providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		a.Text("This is " + m.Spec() + ". " + req.System)
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

// A program with its own model format runs a command, as Main does with the command line.
func ExampleProgram() {
	program := &parley.Program{
		Agents:    []*agent.Agent{{Name: "desk", Model: "house/large", Instructions: "The desk is open."}},
		Protocols: map[string]providers.Protocol{"butler": butler{}},
		Providers: map[string]providers.Registration{"house": {API: "butler", BaseURL: "http://127.0.0.1:9000"}},
	}
	code := program.Run(context.Background(), []string{"run", "desk", "-m", "Good morning"}, os.Stdout, os.Stderr)
	fmt.Println("exit", code)
	// Output:
	// assistant: This is house/large. The desk is open.
	// [completed]
	// exit 0
}
