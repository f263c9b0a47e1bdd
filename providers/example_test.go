package providers_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
)

func Example() {
	registry := providers.NewRegistry(nil)
	if err := demo.Register(registry, 0); err != nil {
		panic(err)
	}

	req := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "good morning"}}},
	}}
	for event, err := range registry.Stream(context.Background(), "demo/parrot", req, providers.Options{}) {
		if err != nil {
			panic(err)
		}
		switch e := event.(type) {
		case providers.TextDelta:
			fmt.Print(e.Text)
		case providers.Done:
			fmt.Printf("\n%s, %d tokens\n", e.StopReason, e.Usage.Output)
		}
	}
	// Output:
	// You said: good morning (2 words)
	// stop, 6 tokens
}

func ExampleRegistry_RegisterProvider() {
	registry := providers.NewRegistry(nil)
	err := registry.RegisterProvider("local", providers.Registration{
		API:           "openai-completions",
		BaseURL:       "http://127.0.0.1:11434/v1",
		ContextWindow: new(32_768),
		Models: map[string]providers.ModelOverride{
			"thinker": {Reasoning: new(true), ContextWindow: new(131_072)},
		},
	})
	if err != nil {
		panic(err)
	}
	for _, spec := range []string{"local/small", "local/thinker"} {
		m, err := registry.Resolve(spec)
		if err != nil {
			panic(err)
		}
		fmt.Println(m.ID, m.ContextWindow, m.Reasoning, m.Telemetry.ServerPort)
	}

	err = registry.RegisterProvider("incomplete", providers.Registration{API: "openai-completions"})
	var invalid *providers.RegistrationError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Type(), invalid.ProviderID)
	}
	// Output:
	// small 32768 false 11434
	// thinker 131072 true 11434
	// invalid_provider_registration incomplete
}
