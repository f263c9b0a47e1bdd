package providers

import (
	"strings"

	"github.com/parleyrun/parley/internal/contain"
)

// credential is a key and its source.
type credential struct {
	value, from string
	bearer      bool
}

// FromRegistration is the result of Credentials for a registered key.
const FromRegistration = "registration"

// APIKey returns the current key of a provider: the registered one unless it is blank, else that of
// the first environment variable of the provider that is not blank, else "". It trims space around a
// key.
func (r *Registry) APIKey(provider string) string {
	entry, _ := r.entry(provider)
	return r.credentials(provider, entry.reg).value
}

// CredentialFinder is a Protocol that does not need a key, because it finds credentials in the same
// places as its vendor's own tools.
type CredentialFinder interface {
	Protocol
	// FindCredentials returns the source of credentials for a call of m without a key: variables
	// joined by " + ", a file or a service; "" for none. It does not read the credentials and makes no
	// network calls. A service that would be queried counts as found.
	FindCredentials(m Model) string
}

// KeyChecker is a Protocol that does not use some values as keys, such as a placeholder for
// credentials found elsewhere.
type KeyChecker interface {
	Protocol
	// IsKey reports whether calls use the value as a key.
	IsKey(key string) bool
}

// Credentials returns the source of credentials for a call of a model: FromRegistration, the names of
// environment variables joined by " + ", the result of a CredentialFinder, or "" for none. A Provider
// with its own Authorize counts as a registration.
func (r *Registry) Credentials(m Model) string {
	entry, _ := r.entry(m.Provider)
	if entry.provider != nil && entry.provider.Authorize != nil {
		return FromRegistration
	}
	p := r.protocolOf(entry, m.API)
	checker, checks := p.(KeyChecker)
	c := r.credentials(m.Provider, entry.reg)
	from, _ := contain.Do("provider "+m.Provider, func() (string, error) {
		if c.value != "" && (!checks || checker.IsKey(c.value)) {
			return c.from, nil
		}
		if finder, ok := p.(CredentialFinder); ok {
			return finder.FindCredentials(m), nil
		}
		return "", nil
	})
	return from
}

// EnvKeys returns the variables that may hold the key of a provider without a registered key; the
// first match wins. It returns nil for a provider that is not in the catalog.
func (r *Registry) EnvKeys(provider string) (names []string) {
	for _, k := range r.catalog[provider].EnvKeys {
		names = append(names, k.Name)
	}
	return names
}

func (r *Registry) credentials(provider string, reg Registration) credential {
	if key := strings.TrimSpace(reg.APIKey); key != "" {
		return credential{value: key, from: FromRegistration}
	}
	if reg.API == APIEdgeAIBinding {
		return credential{}
	}
	for _, k := range r.catalog[provider].EnvKeys {
		if key := strings.TrimSpace(r.getenv(k.Name)); key != "" {
			return credential{key, k.Name, k.Bearer}
		}
	}
	return credential{}
}
