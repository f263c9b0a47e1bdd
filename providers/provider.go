package providers

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Provider defines a provider completely: its models and how to call them. Unlike a [Registration] it
// inherits nothing from the catalog, and only listed models can be called.
type Provider struct {
	// ID is the provider part of specifiers. It must not be empty, contain a slash or control
	// characters, or begin or end with space.
	ID string
	// BaseURL is the endpoint of models without their own.
	BaseURL string
	// Headers are sent on every request. Headers of a model override them.
	Headers map[string]string
	// Authorize returns the credentials of a call. It runs for every call whose Options have none. ctx
	// is that of the call. If it is nil, the catalog's environment variables of the ID are used.
	Authorize func(ctx context.Context, m Model) (Auth, error)
	// Models are the callable models. Each needs an ID and an API.
	Models []CatalogModel
	// Protocols implement the APIs of the models. For other APIs the protocols of the Registry are
	// used.
	Protocols map[string]Protocol
}

// Auth contains the credentials of a call.
type Auth struct {
	// APIKey is a key, or a token if Bearer is set.
	APIKey string
	Bearer bool
	// Headers override those of the model; BaseURL replaces that of the model unless it is empty.
	Headers map[string]string
	BaseURL string
}

// SetProvider registers p under its ID and replaces any previous registration. Its only error is
// *RegistrationError. The caller must not change p afterwards.
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
