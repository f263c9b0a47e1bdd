package actors_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/local"
)

// running runs a runtime in memory with an agent that echoes its input, one word per pace.
func running(pace time.Duration, o actors.Options) (r *actors.Runtime, stop func()) {
	store := local.NewMemory()
	o.Providers = providers.NewRegistry(nil)
	if err := demo.Register(o.Providers, pace); err != nil {
		panic(err)
	}
	o.Agents = []*agent.Agent{{Name: "clerk", Model: "demo/parrot", Instructions: "Be brief."}}
	r, err := actors.New(store, &o)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-r.Ready()
	return r, func() {
		cancel()
		<-ended
		store.Close()
	}
}

// A program counts tokens as they are used: its functions are called for each event of the node.
func ExampleEventOptions() {
	settled := make(chan string, 1)
	var tokens int64
	counts := &observability.Callbacks{
		Turn: func(_ *observability.Envelope, t *observability.Turn) {
			if t.Response.Usage != nil {
				tokens += t.Response.Usage.Output
			}
		},
		SubmissionSettled: func(e *observability.Envelope, s *observability.SubmissionSettled) {
			settled <- e.Agent + " " + s.Outcome
		},
	}
	r, stop := running(0, actors.Options{Events: actors.EventOptions{Observers: []observability.Sink{counts}}})
	defer stop()

	if _, err := r.Dispatch(context.Background(), conversation.Address{Agent: "clerk", ID: "order-7"}, agent.Text("long 3")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-settled, tokens)
	// Output:
	// clerk completed 3
}

// Canceling an order aborts the agent's work on it. Emitted text stays.
func ExampleRuntime_Abort() {
	r, stop := running(time.Hour, actors.Options{}) // slow enough to be aborted
	defer stop()
	ctx, order := context.Background(), conversation.Address{Agent: "clerk", ID: "order-7"}
	receipt, err := r.Dispatch(ctx, order, agent.Text("long 10"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Abort(ctx, order))
	_, err = r.Wait(ctx, order, receipt)
	var settled *conversation.SettledError
	fmt.Println(errors.As(err, &settled) && settled.Outcome == conversation.OutcomeAborted)
	// Output:
	// true <nil>
	// true
}
