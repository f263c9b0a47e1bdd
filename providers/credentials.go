package providers

import (
	"strings"

	"github.com/parleyrun/parley/internal/contain"
)

// credential is a key and where it was found.
type credential struct {
	value, from string
	bearer      bool
}

// FromRegistration is what Credentials says of a key that a registration has.
const FromRegistration = "registration"

// APIKey returns the key of a provider as it stands now: the registered one
// unless it is blank, else the first of the provider's environment variables
// that is not, else "". Space around a key is dropped.
func (r *Registry) APIKey(provider string) string {
	entry, _ := r.entry(provider)
	return r.credentials(provider, entry.reg).value
}

// CredentialFinder is a Protocol whose calls can do without a key, since it finds
// credentials where its vendor's own tools do.
type CredentialFinder interface {
	Protocol
	// FindCredentials says where a call of m without a key would find its credentials now:
	// variables joined by " + ", a file or a service; "" for nowhere. It is not for
	// what they are, and contacts nobody: a service that would be asked is found.
	FindCredentials(m Model) string
}

// KeyChecker is a Protocol that takes some keys for none: what stands in the place of one
// where a program finds its credentials elsewhere.
type KeyChecker interface {
	Protocol
	// IsKey reports whether a call with a key is made by it.
	IsKey(key string) bool
}

// Credentials says where a call of a model would find its credentials now:
// FromRegistration, the names of environment variables joined by " + ", what a protocol
// that is a CredentialFinder says, or "" for nowhere. A Provider that authorizes calls
// itself counts as a registration.
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

// EnvKeys are the variables that hold the key of a provider which has none registered,
// first match wins; nil for a provider that the catalog does not have.
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
