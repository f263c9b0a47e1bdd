package providers

import (
	"fmt"
	"slices"
	"strings"
)

// CredentialsError reports that a model of a cataloged vendor would be called without credentials.
type CredentialsError struct {
	Spec string
	// Variables are the variables that may hold the key. Each of Sets is an alternative set of
	// variables. If both are empty, the key must be registered.
	Variables []string
	Sets      [][]string
}

// Error lists the variables to set.
func (e *CredentialsError) Error() string {
	ways := e.Ways()
	if len(ways) == 0 {
		return fmt.Sprintf("model %q has no key: register its provider with one", e.Spec)
	}
	return fmt.Sprintf("model %q has no key: set %s, or register its provider with one", e.Spec, strings.Join(ways, " or "))
}

// Ways lists the alternatives, each complete.
func (e *CredentialsError) Ways() []string {
	ways := slices.Clone(e.Variables)
	for _, set := range e.Sets {
		ways = append(ways, strings.Join(set, " + "))
	}
	return ways
}

// Check reports known reasons why a model cannot be called, without network access. It returns a
// *ModelError like Resolve, also with ErrUnknownProtocol or the *VariableError of an endpoint. It
// returns a *CredentialsError for a cataloged vendor at its own address. It does not validate keys.
func (r *Registry) Check(spec string) error {
	provider, _, _ := strings.Cut(spec, "/")
	entry, ok := r.entry(provider)
	m, err := r.resolve(spec, entry, ok)
	if err != nil {
		return err
	}
	if r.protocolOf(entry, m.API) == nil {
		return &ModelError{Spec: spec, API: m.API, Err: ErrUnknownProtocol}
	}
	if _, err := r.Endpoint(m); err != nil {
		return &ModelError{Spec: spec, Err: err}
	}
	if r.Credentials(m) == "" && r.needsKey(m) {
		return r.keyless(m)
	}
	return nil
}

// Keyless returns one error for each registered provider that needs a key and has none, sorted by id.
// It makes no network calls.
func (r *Registry) Keyless() []*CredentialsError {
	var out []*CredentialsError
	for _, id := range r.ids() {
		if m := r.sample(id); r.Credentials(m) == "" && r.needsKey(m) {
			out = append(out, r.keyless(m))
		}
	}
	return out
}

// CredentialsOf returns Credentials for a provider as a whole.
func (r *Registry) CredentialsOf(provider string) string { return r.Credentials(r.sample(provider)) }

// sample returns a model of a provider: the first one listed, or a model without an id that has the
// provider's endpoint.
func (r *Registry) sample(provider string) Model {
	entry, ok := r.entry(provider)
	id := "any"
	if listed := r.listed(provider, entry); len(listed) > 0 {
		id = listed[0]
	}
	m, err := r.resolve(provider+"/"+id, entry, ok)
	if err != nil {
		m = Model{Provider: provider}
	}
	return m
}

func (r *Registry) keyless(m Model) *CredentialsError {
	return &CredentialsError{Spec: m.Spec(), Variables: r.EnvKeys(m.Provider), Sets: r.catalog[m.Provider].EnvSets}
}

// needsKey reports whether a model is called at its vendor's address without a possible key in its
// headers. A self-hosted server may need no key.
func (r *Registry) needsKey(m Model) bool {
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cf-Aig-Authorization"} {
		if m.Headers[name] != "" {
			return false
		}
	}
	known := r.catalog[m.Provider]
	return known.Models != nil && slices.ContainsFunc(known.index().list, func(c CatalogModel) bool { return c.BaseURL == m.BaseURL })
}
