package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

const (
	demoModel     = "demo/parrot"
	openAIBaseURL = "https://api.openai.com/v1"
)

// newProviders registers what this program can call. OPENAI_BASE_URL points
// "openai" at any server that speaks the same protocol.
func newProviders(pace time.Duration, env func(string) string) (*providers.Registry, error) {
	reg := providers.NewRegistry(&providers.RegistryOptions{Getenv: env})
	reg.RegisterProtocol(demo.API, demo.New(pace))
	reg.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	if err := reg.RegisterProvider("demo", demo.Registration()); err != nil {
		return nil, fmt.Errorf("register provider demo: %w", err)
	}
	base := strings.TrimSpace(env("OPENAI_BASE_URL"))
	if base == "" {
		base = openAIBaseURL
	}
	err := reg.RegisterProvider("openai", providers.Registration{
		API: openaicompletions.API, BaseURL: base, APIKey: strings.TrimSpace(env("OPENAI_API_KEY")),
		Input: []string{providers.InputText, providers.InputImage},
	})
	if err != nil {
		return nil, fmt.Errorf("register provider openai: %w", err)
	}
	return reg, nil
}

// checkModel tells a user what is wrong with a model before anything starts.
func checkModel(reg *providers.Registry, spec string) error {
	m, err := reg.Resolve(spec)
	if err != nil {
		return fmt.Errorf("model %q cannot be used: %w; try %q or openai/<model>", spec, err, demoModel)
	}
	if m.Provider == "openai" && m.BaseURL == openAIBaseURL && reg.APIKey("openai") == "" {
		return fmt.Errorf("model %q needs a key: set OPENAI_API_KEY and start again, or leave --model out for the offline demo", spec)
	}
	return nil
}
