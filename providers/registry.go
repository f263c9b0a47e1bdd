package providers

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"sync"
)

// Conditions a *ModelError reports.
var (
	// ErrNoSlash: the specifier is not of the form provider/model.
	ErrNoSlash = errors.New("model specifier has no slash")
	// ErrNoModelID: nothing follows the slash after a known provider.
	ErrNoModelID = errors.New("model specifier has no model id")
	// ErrUnknownProvider: the provider is neither registered nor in the catalog.
	ErrUnknownProvider = errors.New("provider is not registered")
	// ErrUnknownModel: the provider is not registered, and its catalog does not list the model.
	ErrUnknownModel = errors.New("model is not in the catalog of its provider")
	// ErrUnknownProtocol: no protocol is registered for the model's api slug.
	ErrUnknownProtocol = errors.New("no protocol is registered for the model's api")
)

// ModelError reports a specifier that names no model to call.
type ModelError struct {
	// Spec is the specifier as given.
	Spec string
	// API is the slug without protocol; set for ErrUnknownProtocol only.
	API string
	// Err is one of the five conditions.
	Err error
}

// Error names specifier and condition.
func (e *ModelError) Error() string {
	s := "resolve model \"" + e.Spec + "\": " + e.Err.Error()
	if e.API != "" {
		s += " \"" + e.API + "\""
	}
	return s
}

// Unwrap returns the condition.
func (e *ModelError) Unwrap() error { return e.Err }

// RegistryOptions changes a Registry. Nil and every zero field work.
type RegistryOptions struct {
	// Catalog is what is known without registrations; nil means
	// BuiltinCatalog, an empty one means nothing.
	Catalog Catalog
	// Getenv looks up keys that no registration has; nil means os.Getenv.
	Getenv func(name string) string
}

// Registry maps provider ids to registrations and api slugs to protocols. It is
// safe for concurrent use; each call of a model sees what is registered then.
type Registry struct {
	catalog map[string]catalogIndex
	getenv  func(string) string

	mu            sync.RWMutex
	registrations map[string]Registration
	protocols     map[string]Protocol
}

type catalogIndex struct {
	envKeys []string
	first   *CatalogModel
	models  map[string]*CatalogModel
}

// NewRegistry returns a Registry without registrations. The catalog must not be
// changed afterwards.
func NewRegistry(o *RegistryOptions) *Registry {
	if o == nil {
		o = &RegistryOptions{}
	}
	r := &Registry{
		catalog:       map[string]catalogIndex{},
		getenv:        o.Getenv,
		registrations: map[string]Registration{},
		protocols:     map[string]Protocol{},
	}
	if r.getenv == nil {
		r.getenv = os.Getenv
	}
	catalog := o.Catalog
	if catalog == nil {
		catalog = BuiltinCatalog()
	}
	for id, p := range catalog {
		index := catalogIndex{envKeys: p.EnvKeys, models: make(map[string]*CatalogModel, len(p.Models))}
		for i := range p.Models {
			m := &p.Models[i]
			if i == 0 {
				index.first = m
			}
			index.models[m.ID] = m
		}
		r.catalog[id] = index
	}
	return r
}

// RegisterProvider registers a provider under the id specifiers name it by, in
// place of any earlier registration of that id; nothing is merged. Its only
// error is *RegistrationError. Nothing is contacted and no key checked: what is
// wrong with them shows on the first call.
func (r *Registry) RegisterProvider(id string, reg Registration) error {
	complete := reg.API == APIEdgeAIBinding || reg.API != "" && reg.BaseURL != ""
	if !complete && r.catalog[id].first == nil {
		return &RegistrationError{ProviderID: id}
	}
	reg = reg.clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registrations[id] = reg
	return nil
}

// RegisterProtocol makes p the protocol of an api slug; the last one wins.
func (r *Registry) RegisterProtocol(api string, p Protocol) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.protocols[api] = p
}

// Resolve finds the model of a specifier, split at its first slash. A
// registered provider takes any model id; a provider known from the catalog
// alone only those it lists. Its error is always a *ModelError.
func (r *Registry) Resolve(spec string) (Model, error) {
	provider, _, _ := strings.Cut(spec, "/")
	reg, registered := r.registration(provider)
	return r.resolve(spec, reg, registered)
}

func (r *Registry) resolve(spec string, reg Registration, registered bool) (Model, error) {
	provider, id, ok := strings.Cut(spec, "/")
	if !ok {
		return Model{}, &ModelError{Spec: spec, Err: ErrNoSlash}
	}
	known := r.catalog[provider]
	entry := known.models[id]
	switch {
	case !registered && known.first == nil:
		return Model{}, &ModelError{Spec: spec, Err: ErrUnknownProvider}
	case id == "":
		return Model{}, &ModelError{Spec: spec, Err: ErrNoModelID}
	case !registered && entry == nil:
		return Model{}, &ModelError{Spec: spec, Err: ErrUnknownModel}
	}
	return reg.model(provider, id, entry, known.first), nil
}

// APIKey returns the key of a provider as it stands now: the registered one
// unless it is blank, else the first of the provider's environment variables
// that is not, else "". Space around a key is dropped.
func (r *Registry) APIKey(provider string) string {
	reg, _ := r.registration(provider)
	return r.apiKey(provider, reg)
}

func (r *Registry) apiKey(provider string, reg Registration) string {
	if key := strings.TrimSpace(reg.APIKey); key != "" {
		return key
	}
	for _, name := range r.catalog[provider].envKeys {
		if key := strings.TrimSpace(r.getenv(name)); key != "" {
			return key
		}
	}
	return ""
}

// Stream calls the model of a specifier: when the sequence is ranged over, it
// resolves the model, finds its protocol and, unless o brings one, its key. A
// specifier that cannot be called yields an *Error of KindUnresolved.
func (r *Registry) Stream(ctx context.Context, spec string, req Request, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// One look at the registration, so that a key never meets the endpoint
		// of a registration made in between.
		provider, _, _ := strings.Cut(spec, "/")
		reg, registered := r.registration(provider)
		m, err := r.resolve(spec, reg, registered)
		p := r.protocol(m.API)
		if err == nil && p == nil {
			err = &ModelError{Spec: spec, API: m.API, Err: ErrUnknownProtocol}
		}
		if err != nil {
			yield(nil, &Error{Kind: KindUnresolved, Provider: m.Provider, Err: err})
			return
		}
		call := o
		if strings.TrimSpace(call.APIKey) == "" {
			call.APIKey = r.apiKey(provider, reg)
		}
		if _, ok := p.(historyProtocol); !ok {
			req = req.flat()
		}
		secrets := secretsOf(call.APIKey, m.Headers)
		for event, err := range p.Stream(ctx, m, req, call) {
			if !yield(event, HideInError(err, secrets)) {
				return
			}
		}
	}
}

func (r *Registry) registration(provider string) (Registration, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	reg, ok := r.registrations[provider]
	return reg, ok
}

func (r *Registry) protocol(api string) Protocol {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.protocols[api]
}
