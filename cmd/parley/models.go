package main

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

const demoModel = "demo/parrot"

// vendor is a provider behind a key.
type vendor struct {
	id, api, baseURL string
	baseEnv, keyEnv  string
}

// vendors are what "provider/model" may begin with beside the demo. An
// environment variable points each at any server that speaks the same protocol.
func vendors() []vendor {
	return []vendor{
		{"openai", openaicompletions.API, "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"},
		{"anthropic", anthropicmessages.API, "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"},
	}
}

// newProviders registers what this program can call: the built-in providers, and
// the configured ones beside them or in their place.
func newProviders(pace time.Duration, env func(string) string, configured map[string]providers.Registration) (*providers.Registry, error) {
	reg := providers.NewRegistry(&providers.RegistryOptions{Getenv: env})
	reg.RegisterProtocol(demo.API, demo.New(pace))
	reg.RegisterProtocol(openaicompletions.API, openaicompletions.New(nil))
	reg.RegisterProtocol(anthropicmessages.API, anthropicmessages.New(nil))
	all := map[string]providers.Registration{"demo": demo.Registration()}
	for _, v := range vendors() {
		all[v.id] = providers.Registration{
			API: v.api, BaseURL: cmp.Or(strings.TrimSpace(env(v.baseEnv)), v.baseURL), APIKey: strings.TrimSpace(env(v.keyEnv)),
			Input: []string{providers.InputText, providers.InputImage},
		}
	}
	maps.Copy(all, configured)
	for id, r := range all {
		if err := reg.RegisterProvider(id, r); err != nil {
			return nil, fmt.Errorf("register provider %s: %w", id, err)
		}
	}
	return reg, nil
}

// builtinProviders are the ids that need no configuration.
func builtinProviders() []string {
	ids := []string{"demo"}
	for _, v := range vendors() {
		ids = append(ids, v.id)
	}
	return ids
}

// protocols are the API slugs a configured provider may speak.
func protocols() []string { return []string{anthropicmessages.API, openaicompletions.API} }

// checkModel tells a user what is wrong with a model before anything starts. other
// is what they may do instead of setting a key.
func checkModel(reg *providers.Registry, spec, other string) error {
	m, err := reg.Resolve(spec)
	if err != nil {
		return fmt.Errorf("model %q cannot be used: %w; try %q, openai/<model> or anthropic/<model>", spec, err, demoModel)
	}
	for _, v := range vendors() {
		if m.Provider == v.id && m.BaseURL == v.baseURL && reg.APIKey(v.id) == "" {
			return fmt.Errorf("model %q needs a key: set %s and start again, or %s", spec, v.keyEnv, other)
		}
	}
	return nil
}
