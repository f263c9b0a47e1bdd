package providers

import (
	"fmt"
	"slices"
	"strings"
)

// CredentialsError says that a model of a vendor that the catalog knows would be called without
// credentials.
type CredentialsError struct {
	// Spec names the model.
	Spec string
	// Variables may each hold the key, and each of Sets is what may be set in place of one, as a whole.
	// Without either the key has to be registered.
	Variables []string
	Sets      [][]string
}

// Error names what to set.
func (e *CredentialsError) Error() string {
	ways := e.Ways()
	if len(ways) == 0 {
		return fmt.Sprintf("model %q has no key: register its provider with one", e.Spec)
	}
	return fmt.Sprintf("model %q has no key: set %s, or register its provider with one", e.Spec, strings.Join(ways, " or "))
}

// Ways lists what may be set, each as a whole.
func (e *CredentialsError) Ways() []string {
	ways := slices.Clone(e.Variables)
	for _, set := range e.Sets {
		ways = append(ways, strings.Join(set, " + "))
	}
	return ways
}

// Check reports what is known to keep a model from being called, without contacting anybody: a
// *ModelError, as of Resolve, with ErrUnknownProtocol, or with the *VariableError of an endpoint; or a
// *CredentialsError for a vendor of the catalog at its own address. Whether a key is right shows on the
// first call.
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

// Keyless returns, for each registered provider that needs a key and finds none anywhere, the
// error of one of its models, in the order of the ids. It contacts no server.
func (r *Registry) Keyless() []*CredentialsError {
	var out []*CredentialsError
	for _, id := range r.ids() {
		if m := r.sample(id); r.Credentials(m) == "" && r.needsKey(m) {
			out = append(out, r.keyless(m))
		}
	}
	return out
}

// CredentialsOf is Credentials of a provider as a whole.
func (r *Registry) CredentialsOf(provider string) string { return r.Credentials(r.sample(provider)) }

// sample returns a model of a provider: the first one that is listed, or else one without an
// id that is reached as any would be.
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

// needsKey reports whether a model is called at its vendor's, without anything that may be a key among
// its headers. A server of one's own may need none.
func (r *Registry) needsKey(m Model) bool {
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cf-Aig-Authorization"} {
		if m.Headers[name] != "" {
			return false
		}
	}
	known := r.catalog[m.Provider]
	return known.Models != nil && slices.ContainsFunc(known.index().list, func(c CatalogModel) bool { return c.BaseURL == m.BaseURL })
}
