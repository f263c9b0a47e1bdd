package actors_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/local"
)

// A program sends a message to a conversation of its own agents and waits for the answer. It needs no
// HTTP.
func ExampleRuntime_Dispatch() {
	store := local.NewMemory() // local.Open keeps the conversations in a folder
	defer store.Close()
	models := providers.NewRegistry(nil)
	models.RegisterProtocol(demo.API, demo.New(0))
	if err := models.RegisterProvider("demo", demo.Registration()); err != nil {
		fmt.Println(err)
		return
	}
	clerk := &agent.Agent{Name: "clerk", Model: "demo/parrot", Instructions: "Be brief."}
	runtime, err := actors.New(store, &actors.Options{Agents: []*agent.Agent{clerk}, Providers: models})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	<-runtime.Ready()

	order := conversation.Address{Agent: "clerk", ID: "order-7"}
	receipt, err := runtime.Dispatch(ctx, order, agent.Text("long 3"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// The receipt may be stored: it is enough to wait for the reply, also after a restart.
	reply, err := runtime.Wait(ctx, order, receipt)
	var settled *conversation.SettledError
	switch {
	case errors.As(err, &settled):
		fmt.Println("the clerk gave up:", settled)
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("the clerk said:", reply.Text)
	}
	// No message is old enough yet to be summarized.
	fmt.Println(runtime.Compact(ctx, order, "Keep the numbers of orders."))
	stop()
	fmt.Println(<-ended)
	// Output:
	// the clerk said: 1 2 3
	// false <nil>
	// <nil>
}
