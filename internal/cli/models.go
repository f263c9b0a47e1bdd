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

// NewProviders registers the providers that this program can call. Later sources replace earlier ones:
// the catalog, base URLs of the environment, the program, the configuration.
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

// fromEnvironment registers servers whose base URLs are set by variables. A server at OPENAI_BASE_URL
// usually supports chat-completions only, whatever format the vendor's own models use.
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

// Allow registers the provider of a model from the command line, where no configuration applies, if
// the catalog does not list the model.
func Allow(reg *providers.Registry, spec string) error {
	if _, err := reg.Resolve(spec); !errors.Is(err, providers.ErrUnlistedModel) {
		return nil // other errors are reported when the model is checked
	}
	provider, _, _ := strings.Cut(spec, "/")
	return reg.RegisterProvider(provider, providers.Registration{})
}

// BuiltinProviders returns the provider ids that need no configuration.
func BuiltinProviders() []string { return append(catalogProviders(), "demo") }

// catalogProviders returns the provider ids whose registration may be empty.
func catalogProviders() []string { return slices.Sorted(maps.Keys(catalog.Builtin())) }

// protocols returns the API slugs that a configured provider may use.
func protocols() []string {
	return []string{
		anthropicmessages.API, openaicompletions.API, openairesponses.API, openairesponses.APIAzure, openairesponses.APICodex,
		googlegenerativeai.API, googlegenerativeai.APIVertex, bedrockconverse.API, mistralconversations.API, providers.APIEdgeAIBinding,
	}
}

// CheckModel validates a model before anything starts. other is the alternative to setting a key,
// which the error names.
func CheckModel(reg *providers.Registry, spec, other string) error {
	err := reg.Check(spec)
	provider, _, _ := strings.Cut(spec, "/")
	var wrong *providers.ModelError
	var missing *providers.VariableError
	var keyless *providers.CredentialsError
	switch {
	case err == nil && provider == "demo" && spec != DemoModel:
		// A program may register another provider under the id "demo", which lists its own models.
		if m, err := reg.Resolve(spec); err == nil && m.API == demo.API {
			return fmt.Errorf("model %q cannot be used: the demo has one model, %q", spec, DemoModel)
		}
		return nil
	case err == nil:
		return nil
	case errors.Is(err, providers.ErrUnlistedModel):
		return fmt.Errorf("model %q cannot be used: the catalog does not list it; parley models --provider %s prints the listed ones, "+
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

// UnspokenError reports a model in a format that the program does not implement.
type UnspokenError struct{ Spec, API string }

// Error implements error.
func (e *UnspokenError) Error() string {
	return fmt.Sprintf("model %q cannot be used: this program does not support its format %s; parley models lists others", e.Spec, e.API)
}
