package inspect_test

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/inspect"
	"github.com/parleyrun/parley/storage/local"
)

// Verify reads every conversation of a bucket and checks its hash chain.
func ExampleVerify() {
	store := local.NewMemory()
	defer store.Close()
	models := providers.NewRegistry(nil)
	if err := demo.Register(models, 0); err != nil {
		fmt.Println(err)
		return
	}
	runtime, err := actors.New(store, &actors.Options{Agents: []*agent.Agent{{Name: "clerk", Model: "demo/parrot"}}, Providers: models})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	<-runtime.Ready()
	for _, id := range []string{"order-7", "order-8"} {
		at := conversation.Address{Agent: "clerk", ID: id}
		receipt, err := runtime.Dispatch(ctx, at, agent.Text("Hello"))
		if err == nil {
			_, err = runtime.Wait(ctx, at, receipt)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	stop()
	<-ended

	found := func(f inspect.Finding) { fmt.Println(f.Severity, f.Key) }
	summary, err := inspect.Verify(context.Background(), store, inspect.Scope{}, nil, found)
	fmt.Println(summary.Conversations, summary.Corruption, err)
	// Output:
	// 2 0 <nil>
}
