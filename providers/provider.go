package providers

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Provider is a provider as one object: the models that it has, and how they are called.
// Unlike a [Registration] it takes nothing from the catalog, and only the models that it
// lists can be called.
type Provider struct {
	// ID is what specifiers name it by: not empty, without a slash or control
	// characters, and without space at either end.
	ID string
	// BaseURL is the endpoint of models without one of their own.
	BaseURL string
	// Headers are sent on every request. Those of a model win over them.
	Headers map[string]string
	// Authorize returns the credentials of a call, and is asked on every one that does
	// not bring its own. ctx is that of the call. Nil is the environment variables that
	// the catalog has for a provider of that ID.
	Authorize func(ctx context.Context, m Model) (Auth, error)
	// Models are those that can be called. Each needs an ID and an API.
	Models []CatalogModel
	// Protocols speak the APIs of this provider's models. An API that is not here is
	// spoken by the protocol that the Registry has for it.
	Protocols map[string]Protocol
}

// Auth is what a call is authorized by.
type Auth struct {
	// APIKey is a key, or with Bearer a token.
	APIKey string
	Bearer bool
	// Headers are sent, over those of the model; BaseURL replaces that of the model
	// unless it is empty.
	Headers map[string]string
	BaseURL string
}

// SetProvider registers p under its ID, in place of whatever was registered under that
// id. Its only error is *RegistrationError. The caller must not change p any more.
func (r *Registry) SetProvider(p *Provider) error {
	if problem := p.problem(); problem != "" {
		return &RegistrationError{ProviderID: p.ID, Problem: problem}
	}
	r.register(p.ID, registered{provider: p})
	return nil
}

func (p *Provider) problem() string {
	if problem := idProblem(p.ID); problem != "" {
		return problem
	}
	if p.BaseURL != "" && strings.TrimSpace(p.BaseURL) == "" {
		return "baseUrl is blank; name the root of the endpoint, or leave it empty"
	}
	seen := map[string]bool{}
	for i, m := range p.Models {
		switch {
		case strings.TrimSpace(m.ID) == "":
			return fmt.Sprintf("model %d has no id", i+1)
		case strings.TrimSpace(m.API) == "":
			return fmt.Sprintf("model %q has no api", m.ID)
		case seen[m.ID]:
			return fmt.Sprintf("model %q is listed twice", m.ID)
		}
		seen[m.ID] = true
	}
	return ""
}

// model resolves one of the models.
func (p *Provider) model(id string) (Model, error) {
	i := slices.IndexFunc(p.Models, func(m CatalogModel) bool { return m.ID == id })
	if i < 0 {
		var known []string
		for _, m := range p.Models {
			known = append(known, m.ID)
		}
		return Model{}, &ModelError{Spec: p.ID + "/" + id, Err: ErrUnknownModel, Known: known}
	}
	entry := p.Models[i]
	entry.BaseURL = nonEmpty(entry.BaseURL, p.BaseURL)
	entry.Headers = mergeHeaders(p.Headers, entry.Headers)
	return Registration{}.model(p.ID, id, &entry, nil), nil
}
