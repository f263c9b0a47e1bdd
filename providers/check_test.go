package providers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// TestCheck covers every error of Check.
func TestCheck(t *testing.T) {
	known := providers.Catalog{"acme": {
		EnvKeys: []providers.EnvKey{{Name: "ACME_KEY"}, {Name: "ACME_TOKEN"}}, EnvSets: [][]string{{"ACME_PROFILE", "ACME_REGION"}},
		Models: func() []providers.CatalogModel {
			return []providers.CatalogModel{{ID: "m", API: "spoken", BaseURL: "https://acme.example"}, {ID: "odd", API: "unheard", BaseURL: "https://acme.example"},
				{ID: "there", API: "spoken", BaseURL: "https://{ACME_HOST}"}}
		},
	}, "open": {Models: func() []providers.CatalogModel {
		return []providers.CatalogModel{{ID: "m", API: "spoken", BaseURL: "https://open.example"}}
	}}}
	own := func(id string, reg providers.Registration) func(r *providers.Registry) error {
		return func(r *providers.Registry) error { return r.RegisterProvider(id, reg) }
	}
	for _, tc := range []struct {
		name, spec, key string
		register        func(r *providers.Registry) error
		want            error // nil, a condition, or an error of the expected type
		text            string
	}{
		{"listed, and a key", "acme/m", "k", nil, nil, ""},
		{"no slash", "acme", "k", nil, providers.ErrNoSlash, ""},
		{"no model", "acme/", "k", nil, providers.ErrNoModelID, ""},
		{"mistyped provider", "acne/m", "k", nil, providers.ErrUnknownProvider, ""},
		{"mistyped model", "acme/n", "k", nil, providers.ErrUnlistedModel, ""},
		{"unlisted of a registered provider", "acme/n", "k", own("acme", providers.Registration{}), nil, ""},
		{"an unknown format", "acme/odd", "k", nil, providers.ErrUnknownProtocol, ""},
		{"an address that lacks a variable", "acme/there", "k", nil, &providers.VariableError{}, ""},
		{"no key", "acme/m", "", nil, &providers.CredentialsError{}, `model "acme/m" has no key: set ACME_KEY or ACME_TOKEN or ACME_PROFILE + ACME_REGION, or register its provider with one`},
		{"no way to have one", "open/m", "", nil, &providers.CredentialsError{}, `model "open/m" has no key: register its provider with one`},
		{"a registered key", "acme/m", "", own("acme", providers.Registration{APIKey: "k"}), nil, ""},
		{"a header that is one", "acme/m", "", own("acme", providers.Registration{Headers: map[string]string{"Authorization": "Bearer k"}}), nil, ""},
		{"a header that is none", "acme/m", "", own("acme", providers.Registration{Headers: map[string]string{"X-Trace": "k"}}), &providers.CredentialsError{}, ""},
		{"a server of one's own", "acme/m", "", own("acme", providers.Registration{BaseURL: "http://localhost:1"}), nil, ""},
		{"a provider of one's own", "mine/m", "", own("mine", providers.Registration{API: "spoken", BaseURL: "http://localhost:1"}), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{"ACME_TOKEN": tc.key}
			r := providers.NewRegistry(&providers.RegistryOptions{Catalog: known, Getenv: func(name string) string { return env[name] }})
			r.RegisterProtocol("spoken", urlProtocol{})
			if tc.register != nil {
				if err := tc.register(r); err != nil {
					t.Fatal(err)
				}
			}
			err := r.Check(tc.spec)
			var missing *providers.VariableError
			var keyless *providers.CredentialsError
			ok := errors.Is(err, tc.want)
			switch tc.want.(type) {
			case *providers.VariableError:
				ok = errors.As(err, &missing)
			case *providers.CredentialsError:
				ok = errors.As(err, &keyless)
			}
			if !ok || tc.text != "" && err.Error() != tc.text {
				t.Errorf("got %v, want %T %v %s", err, tc.want, tc.want, tc.text)
			}
		})
	}
}

// TestKeyless lists the registered providers that need a key and have none.
func TestKeyless(t *testing.T) {
	env := map[string]string{"ACME_TOKEN": " "}
	r := registry(t, env, map[string]providers.Registration{
		"acme": {}, "own": {API: "a", BaseURL: "http://b/"}, "edge": {API: "edge-ai-binding"},
	})
	got := r.Keyless()
	if len(got) != 1 || !strings.HasPrefix(got[0].Spec, "acme/") || !slices.Equal(got[0].Ways(), []string{"ACME_TOKEN", "ACME_API_KEY"}) || r.CredentialsOf("acme") != "" {
		t.Errorf("got %v, credentials %q, want acme without a key", got, r.CredentialsOf("acme"))
	}
	env["ACME_API_KEY"] = "k"
	if got := r.Keyless(); len(got) != 0 || r.CredentialsOf("acme") != "ACME_API_KEY" {
		t.Errorf("got %v, credentials %q, want those of ACME_API_KEY", got, r.CredentialsOf("acme"))
	}
}
