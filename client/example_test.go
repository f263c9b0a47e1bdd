package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage/local"
)

// serve runs a whole server in memory, with an agent that repeats its input, one word per pace. A
// program would name the URL of its server instead.
func serve(pace time.Duration) (url string, stop func(), err error) {
	store := local.NewMemory()
	models := providers.NewRegistry(nil)
	models.RegisterProtocol(demo.API, demo.New(pace))
	if err := models.RegisterProvider("demo", demo.Registration()); err != nil {
		return "", nil, err
	}
	runtime, err := actors.New(store, &actors.Options{
		Agents: []*agent.Agent{{Name: "echo", Model: "demo/parrot"}}, Providers: models, Pace: time.Millisecond,
	})
	if err != nil {
		return "", nil, err
	}
	handler, err := parleyhttp.New(runtime, runtime.Reader(), []parleyhttp.Mount{{Path: "/agents/echo", Agent: "echo"}}, nil)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	<-runtime.Ready()
	web := httptest.NewServer(handler)
	return web.URL + "/agents/echo", func() {
		handler.Drain()
		web.Close()
		cancel()
		<-ended
		store.Close()
	}, nil
}

func Example() {
	mount, stop, err := serve(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.New(client.JoinID(mount, "order/4711"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := c.Send(ctx, client.Message{Body: "Where is it?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := c.Wait(ctx, receipt)
	if err != nil { // errors.Is(err, client.ErrFailed), client.ErrAborted
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Text)
	// Output: You said: Where is it? (3 words)
}

// A program with a display keeps a transcript: a snapshot, and the updates after it.
func ExampleConversation_Observe() {
	mount, stop, err := serve(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.New(client.JoinID(mount, "order-4712"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Send(ctx, client.Message{Body: "long 3"}); err != nil {
		fmt.Println(err)
		return
	}
	snap, err := c.History(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	drawing, err := client.NewTranscript(snap)
	if err != nil {
		fmt.Println(err)
		return
	}
	for update, err := range c.Observe(ctx, snap.Offset, nil) {
		if err == nil {
			err = drawing.Apply(update)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		now := drawing.Snapshot()
		if len(now.Settlements) == 1 {
			for _, m := range now.Messages {
				fmt.Println(m.Role, *m.Parts[0].Text)
			}
			fmt.Println(now.Settlements[0].Outcome == conversation.OutcomeCompleted)
			break
		}
	}
	// Output:
	// user long 3
	// assistant 1 2 3
	// true
}
