package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/internal/contain"
)

// RegistryOptions configures a Registry. Nil and every zero field are valid.
type RegistryOptions struct {
	// Catalog describes unregistered providers; nil means none.
	Catalog Catalog
	// Getenv looks up keys of providers without a registered key; nil means os.Getenv.
	Getenv func(name string) string
}

// Registry maps provider ids to registrations and api slugs to protocols. It is safe for concurrent
// use. Each model call uses the registrations at its start.
type Registry struct {
	catalog map[string]catalogEntry
	getenv  func(string) string

	mu         sync.RWMutex
	registered map[string]registered
	protocols  map[string]Protocol
}

// registered is the entry of an id: a registration or a provider.
type registered struct {
	reg      Registration
	provider *Provider // nil for a registration
}

// catalogEntry is a provider of the catalog. Its index is built on first use.
type catalogEntry struct {
	CatalogProvider
	index func() catalogIndex
}

type catalogIndex struct {
	list []CatalogModel
	byID map[string]*CatalogModel
}

func (p CatalogProvider) indexed() (index catalogIndex) {
	if p.Models == nil {
		return index
	}
	// A catalog whose Models panics has no models.
	index.list, _ = contain.Do("catalog of models", func() ([]CatalogModel, error) { return p.Models(), nil })
	index.byID = make(map[string]*CatalogModel, len(index.list))
	for i := range index.list {
		index.byID[index.list[i].ID] = &index.list[i]
	}
	return index
}

// find returns the entry of an id and the first entry; nil if absent.
func (e catalogEntry) find(id string) (listed, first *CatalogModel) {
	if e.Models == nil {
		return nil, nil
	}
	index := e.index()
	if len(index.list) > 0 {
		first = &index.list[0]
	}
	return index.byID[id], first
}

// NewRegistry returns a Registry without registrations. The caller must not change the catalog
// afterwards.
func NewRegistry(o *RegistryOptions) *Registry {
	if o == nil {
		o = &RegistryOptions{}
	}
	r := &Registry{
		catalog:    make(map[string]catalogEntry, len(o.Catalog)),
		getenv:     o.Getenv,
		registered: map[string]registered{},
		protocols:  map[string]Protocol{},
	}
	if own := r.getenv; own != nil {
		r.getenv = func(name string) string {
			value, _ := contain.Do("option Getenv", func() (string, error) { return own(name), nil })
			return value // an empty variable counts as unset
		}
	} else {
		r.getenv = os.Getenv
	}
	for id, p := range o.Catalog {
		r.catalog[id] = catalogEntry{p, sync.OnceValue(p.indexed)}
	}
	return r
}

// RegisterProvider registers a provider under an id and replaces any previous registration; nothing is
// merged. Its only error is *RegistrationError. It makes no network calls and does not validate keys.
func (r *Registry) RegisterProvider(id string, reg Registration) error {
	if problem := cmp.Or(idProblem(id), reg.problem(r.catalog[id].Models != nil)); problem != "" {
		return &RegistrationError{ProviderID: id, Problem: problem}
	}
	r.register(id, registered{reg: reg.clone()})
	return nil
}

func (r *Registry) register(id string, entry registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registered[id] = entry
}

// Registered reports whether a provider is registered under an id. Catalog entries do not count.
func (r *Registry) Registered(id string) bool {
	_, ok := r.entry(id)
	return ok
}

// RegisterProtocol sets the protocol of an api slug. The last registration wins, also over the
// built-in protocols of a program.
func (r *Registry) RegisterProtocol(api string, p Protocol) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.protocols[api] = p
}

// Supports reports whether a protocol is registered for an api slug.
func (r *Registry) Supports(api string) bool { return r.protocol(api) != nil }

// Resolve returns the model of a specifier, split at its first slash. A provider of RegisterProvider
// accepts any model id. One of SetProvider, or only in the catalog, accepts listed ids. Its error is
// always a *ModelError.
func (r *Registry) Resolve(spec string) (Model, error) {
	provider, _, _ := strings.Cut(spec, "/")
	entry, ok := r.entry(provider)
	return r.resolve(spec, entry, ok)
}

func (r *Registry) resolve(spec string, entry registered, ok bool) (Model, error) {
	m, err := r.find(spec, entry, ok)
	if err == nil {
		m.BaseURL, m.Query = splitQuery(m.BaseURL)
		m.Telemetry = r.telemetry(m, entry)
	}
	return m, err
}

// find returns the model of a specifier without its telemetry.
func (r *Registry) find(spec string, entry registered, ok bool) (Model, error) {
	provider, id, slash := strings.Cut(spec, "/")
	if !slash {
		return Model{}, &ModelError{Spec: spec, Err: ErrNoSlash}
	}
	known := r.catalog[provider]
	switch {
	case !ok && known.Models == nil:
		return Model{}, &ModelError{Spec: spec, Err: ErrUnknownProvider, Known: r.ids()}
	case id == "":
		return Model{}, &ModelError{Spec: spec, Err: ErrNoModelID}
	case entry.provider != nil:
		return entry.provider.model(id)
	case entry.reg.API == APIEdgeAIBinding:
		listed, _ := r.catalog[edgeCatalog].find(id)
		return entry.reg.edgeModel(provider, id, listed), nil
	}
	listed, first := known.find(id)
	if !ok && listed == nil {
		return Model{}, &ModelError{Spec: spec, Err: ErrUnlistedModel}
	}
	return entry.reg.model(provider, id, listed, first), nil
}

// ids returns the registered ids, sorted.
func (r *Registry) ids() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.registered))
}

// Models returns all listed models: of the catalog without aliases, of registrations with model
// overrides, and of providers. They are sorted by provider. Within a provider they are in the order of
// its list, followed by those of a registration.
func (r *Registry) Models() []Model {
	r.mu.RLock()
	entries := maps.Clone(r.registered)
	r.mu.RUnlock()
	ids := slices.Collect(maps.Keys(entries))
	for id, p := range r.catalog {
		if _, ok := entries[id]; !ok && p.AliasOf == "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var out []Model
	for _, id := range ids {
		entry, ok := entries[id]
		for _, model := range r.listed(id, entry) {
			if m, err := r.resolve(id+"/"+model, entry, ok); err == nil {
				out = append(out, m)
			}
		}
	}
	return out
}

// listed returns the ids of the models of a provider.
func (r *Registry) listed(provider string, entry registered) []string {
	var ids []string
	var known catalogIndex
	if e, ok := r.catalog[provider]; ok {
		known = e.index()
	}
	if entry.provider != nil {
		known = catalogIndex{list: entry.provider.Models}
	}
	for _, m := range known.list {
		ids = append(ids, m.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(entry.reg.Models)) {
		if known.byID[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Endpoint returns the base URL of a model with its environment variables expanded. It returns a
// *VariableError for the first variable that is not set.
func (r *Registry) Endpoint(m Model) (string, error) { return expand(m.BaseURL, r.getenv) }

// Stream calls the model of a specifier. When the sequence is ranged over, it resolves the model, its
// protocol and, unless o contains one, its key. A specifier that does not resolve yields an *Error of
// KindUnresolved.
func (r *Registry) Stream(ctx context.Context, spec string, req Request, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// Read the registration once, so that a key is never sent to the endpoint of a newer
		// registration.
		id, _, _ := strings.Cut(spec, "/")
		entry, ok := r.entry(id)
		m, err := r.resolve(spec, entry, ok)
		p := r.protocolOf(entry, m.API)
		if err == nil && p == nil {
			err = &ModelError{Spec: spec, API: m.API, Err: ErrUnknownProtocol}
		}
		if err != nil {
			yield(nil, &Error{Kind: KindUnresolved, Provider: m.Provider, Err: err})
			return
		}
		call, err := r.authorized(ctx, &m, entry, o)
		if err != nil {
			yield(nil, err)
			return
		}
		if m.BaseURL, err = r.Endpoint(m); err == nil {
			m.Query, err = expand(m.Query, r.getenv)
		}
		if err != nil {
			yield(nil, &Error{Kind: KindUnresolved, Provider: m.Provider, Err: &ModelError{Spec: spec, Err: err}})
			return
		}
		if _, ok := p.(historyProtocol); !ok {
			req = req.flat()
		}
		secrets := append(secretsOf(call.APIKey, m.Headers), querySecrets(m.Query)...)
		call.Odd = hidingOdd(call.Odd, secrets)
		for reply, err := range contain.Stream(ctx, "provider "+m.Provider, func() iter.Seq2[reply, error] {
			return replies(p.Stream(ctx, m, req, call), func(err error) error { return HideInError(r.keyed(err, m, entry), secrets) })
		}) {
			if err == nil {
				err = reply.err
			}
			if !yield(reply.event, err) {
				return
			}
		}
	}
}

// reply is one value of a protocol's stream. err is an error of this package or frozen.
type reply struct {
	event Event
	err   error
}

// replies runs inside the containment of the protocol. An [*Error] keeps its type for callers that
// read its fields.
func replies(stream iter.Seq2[Event, error], shown func(error) error) iter.Seq2[reply, error] {
	return func(yield func(reply, error) bool) {
		for event, err := range stream {
			if err != nil {
				err = frozen(shown(err))
			}
			if !yield(reply{event, err}, nil) {
				return
			}
		}
	}
}

// frozen returns an error whose methods run no code of the protocol's author, not even inside an
// [*Error].
func frozen(err error) error {
	const desc = "error of a provider"
	var e *Error
	if !errors.As(err, &e) || e == nil {
		return contain.Freeze(desc, err)
	}
	c := *e
	if c.Err = contain.Freeze(desc, e.Err); err == error(e) {
		return &c
	}
	whole := contain.Freeze(desc, err)
	return &hiddenError{whole.Error(), []error{&c, whole}}
}

// keyed adds the source of the key to an authorization error.
func (r *Registry) keyed(err error, m Model, entry registered) error {
	e, ok := err.(*Error) // a wrapped error is complete
	if !ok || e.Kind != KindAuth || e.Key != "" {
		return err
	}
	c := *e // a Protocol may return the same error twice
	if c.Key = r.Credentials(m); c.Key == "" {
		c.Wants = r.EnvKeys(m.Provider)
	}
	return &c
}

// authorized returns o with the credentials of the call, unless it has some. It applies the other
// parts of a provider's Auth to m.
func (r *Registry) authorized(ctx context.Context, m *Model, entry registered, o Options) (Options, error) {
	if strings.TrimSpace(o.APIKey) != "" {
		return o, nil
	}
	if entry.provider == nil || entry.provider.Authorize == nil {
		key := r.credentials(m.Provider, entry.reg)
		o.APIKey, o.Bearer = key.value, key.bearer
		return o, nil
	}
	auth, err := contain.Do("authorization of provider "+m.Provider, func() (Auth, error) { return entry.provider.Authorize(ctx, *m) })
	if err != nil {
		if ctx.Err() != nil {
			return o, &Error{Kind: KindAborted, Provider: m.Provider, Err: context.Cause(ctx)}
		}
		return o, &Error{Kind: KindAuth, Provider: m.Provider, Err: fmt.Errorf("authorize call: %w", err)}
	}
	o.APIKey, o.Bearer = strings.TrimSpace(auth.APIKey), auth.Bearer
	m.Headers = mergeHeaders(m.Headers, auth.Headers)
	if auth.BaseURL != "" {
		m.BaseURL, m.Query = splitQuery(auth.BaseURL)
	}
	return o, nil
}

func (r *Registry) entry(id string) (registered, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	entry, ok := r.registered[id]
	return entry, ok
}

func (r *Registry) protocol(api string) Protocol {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.protocols[api]
}

func (r *Registry) protocolOf(entry registered, api string) Protocol {
	if entry.provider != nil && entry.provider.Protocols[api] != nil {
		return entry.provider.Protocols[api]
	}
	return r.protocol(api)
}
