package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
)

// DemoModel needs no key and no network.
const DemoModel = "demo/parrot"

// NewProviders registers what this program can call: the providers of the catalog, those
// that the environment puts in their place, those of the program, and the configured ones
// in the place of all.
func (p *Program) NewProviders(pace time.Duration, env func(string) string, configured map[string]providers.Registration) (*providers.Registry, error) {
	reg := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin(), Getenv: env})
	reg.RegisterProtocol(demo.API, demo.New(pace))
	openaicompletions.Register(reg, nil)
	anthropicmessages.Register(reg, nil)
	openairesponses.Register(reg, &openairesponses.Options{Getenv: env})
	googlegenerativeai.Register(reg, &googlegenerativeai.Options{Getenv: env})
	mistralconversations.Register(reg, nil)
	bedrockconverse.Register(reg, &bedrockconverse.Options{Getenv: env})
	all, err := fromEnvironment(env)
	if err != nil {
		return nil, err
	}
	all["demo"] = demo.Registration()
	for api, protocol := range p.Protocols {
		reg.RegisterProtocol(api, protocol)
	}
	maps.Copy(all, p.Providers)
	maps.Copy(all, configured)
	for id, r := range all {
		if err := reg.RegisterProvider(id, r); err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// fromEnvironment registers servers that variables name in the place of a vendor's. What
// stands at OPENAI_BASE_URL rarely speaks anything but chat-completions, whatever format
// the vendor's own models are called in.
func fromEnvironment(env func(string) string) (map[string]providers.Registration, error) {
	all := map[string]providers.Registration{}
	for variable, of := range map[string]struct{ provider, api string }{
		"OPENAI_BASE_URL": {"openai", openaicompletions.API}, "ANTHROPIC_BASE_URL": {"anthropic", ""},
	} {
		url := strings.TrimSpace(env(variable))
		if url == "" {
			continue
		}
		if err := config.CheckURL(url); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		all[of.provider] = providers.Registration{API: of.api, BaseURL: url, Input: []string{providers.InputText, providers.InputImage}}
	}
	return all, nil
}

// Allow registers the provider of a model that somebody names on the command line, where
// no configuration could, if the catalog does not list the model.
func Allow(reg *providers.Registry, spec string) error {
	if _, err := reg.Resolve(spec); !errors.Is(err, providers.ErrUnlistedModel) {
		return nil // what else is wrong shows where the model is checked
	}
	provider, _, _ := strings.Cut(spec, "/")
	return reg.RegisterProvider(provider, providers.Registration{})
}

// BuiltinProviders are the ids that need no configuration.
func BuiltinProviders() []string { return append(catalogProviders(), "demo") }

// catalogProviders are the ids whose registration may leave everything out.
func catalogProviders() []string { return slices.Sorted(maps.Keys(catalog.Builtin())) }

// protocols are the API slugs a configured provider may speak.
func protocols() []string {
	return []string{
		anthropicmessages.API, openaicompletions.API, openairesponses.API, openairesponses.APIAzure, openairesponses.APICodex,
		googlegenerativeai.API, googlegenerativeai.APIVertex, bedrockconverse.API, mistralconversations.API, providers.APIEdgeAIBinding,
	}
}

// CheckModel tells a user what is wrong with a model before anything starts. other
// is what they may do instead of setting a key.
func CheckModel(reg *providers.Registry, spec, other string) error {
	err := reg.Check(spec)
	provider, _, _ := strings.Cut(spec, "/")
	var wrong *providers.ModelError
	var missing *providers.VariableError
	var keyless *providers.CredentialsError
	switch {
	case err == nil && provider == "demo" && spec != DemoModel:
		// Whatever a program registers under that id lists its own.
		if m, err := reg.Resolve(spec); err == nil && m.API == demo.API {
			return fmt.Errorf("model %q cannot be used: the demo has one model, %q", spec, DemoModel)
		}
		return nil
	case err == nil:
		return nil
	case errors.Is(err, providers.ErrUnlistedModel):
		return fmt.Errorf("model %q cannot be used: the catalog does not list it; parley models --provider %s shows what it lists, "+
			"and providers: {%s: {}} in the configuration allows every model", spec, provider, provider)
	case errors.As(err, &wrong) && errors.Is(err, providers.ErrUnknownProtocol):
		return &UnspokenError{Spec: spec, API: wrong.API}
	case errors.As(err, &missing):
		return fmt.Errorf("model %q cannot be used: %w; set it and start again, or %s", spec, missing, other)
	case errors.As(err, &keyless) && len(keyless.Variables) > 0:
		way := keyless.Variables[len(keyless.Variables)-1]
		if len(keyless.Sets) > 0 {
			way += ", or " + strings.Join(keyless.Sets[0], " + ") + ","
		}
		return fmt.Errorf("model %q needs a key: set %s and start again, or %s", spec, way, other)
	case errors.As(err, &keyless):
		return fmt.Errorf("model %q needs a token: name its variable with apiKeyEnv of %s in the configuration, or %s", spec, provider, other)
	}
	return fmt.Errorf("model %q cannot be used: %w; try %q, openai/<model> or anthropic/<model>; parley models lists others", spec, err, DemoModel)
}

// UnspokenError is a model in a format that the program does not speak.
type UnspokenError struct{ Spec, API string }

// Error implements error.
func (e *UnspokenError) Error() string {
	return fmt.Sprintf("model %q cannot be used: it is called in the format %s, which this program does not speak; parley models shows others", e.Spec, e.API)
}
