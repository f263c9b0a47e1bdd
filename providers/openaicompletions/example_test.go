package openaicompletions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// A registration with a base URL is enough to call a server that implements chat completions. Any of
// its models may be named.
func ExampleRegister() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"I am at %s.\"}}]}\n\n", r.URL.Path)
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	registry := providers.NewRegistry(nil)
	openaicompletions.Register(registry, nil)
	err := registry.RegisterProvider("local", providers.Registration{
		API: openaicompletions.API, BaseURL: server.URL + "/v1", APIKey: "any", ContextWindow: new(8000),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "Where are you?"}}},
	}}
	for event, err := range registry.Stream(context.Background(), "local/small", ask, providers.Options{}) {
		switch e := event.(type) {
		case providers.TextDelta:
			fmt.Println(e.Text)
		case providers.Done:
			fmt.Println(e.StopReason)
		case nil:
			fmt.Println(err)
		}
	}
	// Output:
	// I am at /v1/chat/completions.
	// stop
}
