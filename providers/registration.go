package providers

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Registration says how to reach a provider. Every field is optional for a
// provider with catalog models; others need API and BaseURL. An empty string
// and a nil pointer, slice or map mean "not given"; zero behind a pointer is a
// value like any other. With API [APIEdgeAIBinding] only Edge and Telemetry count
// beside it.
type Registration struct {
	// API is the slug of a registered protocol; default: the catalog's.
	API string `json:"api,omitempty"`
	// BaseURL is the endpoint root; default: the catalog's.
	BaseURL string `json:"baseUrl,omitempty"`
	// APIKey is used on every call; a blank one falls through to the environment.
	APIKey string `json:"apiKey,omitempty"`
	// Headers are sent on every request, over the catalog's, per key.
	Headers map[string]string `json:"headers,omitempty"`
	// ContextWindow and MaxTokens are in tokens; default: the catalog's, then 0.
	ContextWindow *int `json:"contextWindow,omitempty"`
	MaxTokens     *int `json:"maxTokens,omitempty"`
	// Reasoning defaults to the catalog's, then false.
	Reasoning *bool `json:"reasoning,omitempty"`
	// Input defaults to the catalog's, then InputText alone.
	Input []string `json:"input,omitempty"`
	// InputLimits go over the catalog's, field by field.
	InputLimits InputLimits `json:"inputLimits,omitzero"`
	// Cost defaults to the catalog's, then nothing: a model without a price is counted
	// as free.
	Cost *Rates `json:"cost,omitempty"`
	// Thinking defaults to the catalog's; a map replaces the other as a whole.
	Thinking ThinkingMap `json:"thinkingLevelMap,omitempty"`
	// Compat goes over the catalog's, field by field.
	Compat Compat `json:"compat,omitzero"`
	// Models overrides the eight fields above for single models, by model id.
	Models map[string]ModelOverride `json:"models,omitempty"`
	// StoreResponses asks the vendor to keep responses; only the protocols
	// openai-responses and azure-openai-responses know it.
	StoreResponses bool `json:"storeResponses,omitempty"`
	// LongCacheRetention asks the vendor to keep prompts in its cache for longer than by
	// default, for an hour to a day, which may cost more: see Compat.SupportsLongCacheRetention.
	LongCacheRetention bool `json:"longCacheRetention,omitempty"`
	// Telemetry overrides the identity that observability reports.
	Telemetry Telemetry `json:"telemetry,omitzero"`
	// Edge is the binding of an edge platform.
	Edge *Edge `json:"-"`
}

// ModelOverride holds what one model of a registration has of its own.
type ModelOverride struct {
	ContextWindow *int     `json:"contextWindow,omitempty"`
	MaxTokens     *int     `json:"maxTokens,omitempty"`
	Reasoning     *bool    `json:"reasoning,omitempty"`
	Input         []string `json:"input,omitempty"`
	Cost          *Rates   `json:"cost,omitempty"`

	InputLimits InputLimits `json:"inputLimits,omitzero"`

	Thinking ThinkingMap `json:"thinkingLevelMap,omitempty"`
	Compat   Compat      `json:"compat,omitzero"`
}

// RegistrationError reports a provider that cannot be registered: its id cannot stand in a
// specifier, API or BaseURL is blank or lacks a catalog default, gateway options have no
// id, or a [Provider] is not whole.
type RegistrationError struct {
	// ProviderID is the id of the rejected registration.
	ProviderID string
	// Problem says what is wrong, and what is needed.
	Problem string
}

// Type is the error's type, "invalid_provider_registration".
func (e *RegistrationError) Type() string { return "invalid_provider_registration" }

// Meta is the error's meta: the id of the provider as providerId.
func (e *RegistrationError) Meta() map[string]string {
	return map[string]string{"providerId": e.ProviderID}
}

// Error names the provider and what is needed.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("register provider %q: %s", e.ProviderID, e.Problem)
}

// idProblem is what is wrong with the id of a provider, "" if it is one. A specifier names it
// before its first slash.
func idProblem(id string) string {
	odd := strings.ContainsFunc(id, func(c rune) bool { return c == '/' || unicode.IsControl(c) })
	if id == "" || odd || id != strings.TrimSpace(id) || !utf8.ValidString(id) {
		return "the id of a provider is not empty and has no slash, no control character and no space at either end, for example \"local\""
	}
	return ""
}

// problem is what keeps r from being registered, "" if nothing does. cataloged is set for a
// provider with catalog models.
func (r Registration) problem(cataloged bool) string {
	if r.API == APIEdgeAIBinding {
		if r.Edge != nil && r.Edge.Gateway != nil && strings.TrimSpace(r.Edge.Gateway.ID) == "" {
			return "gateway options need an id, for example \"default\""
		}
		return ""
	}
	switch {
	case r.API != "" && strings.TrimSpace(r.API) == "":
		return "api is blank; name a wire format, or leave it empty for that of the catalog"
	case r.BaseURL != "" && strings.TrimSpace(r.BaseURL) == "":
		return "baseUrl is blank; name the root of the endpoint, or leave it empty for that of the catalog"
	case !cataloged && (r.API == "" || r.BaseURL == ""):
		return "api and baseUrl are required for a provider without catalog models"
	}
	return ""
}

// clone makes r independent of the caller's maps, slices and pointers.
func (r Registration) clone() Registration {
	r.Headers = maps.Clone(r.Headers)
	r.ContextWindow = clonePointer(r.ContextWindow)
	r.MaxTokens = clonePointer(r.MaxTokens)
	r.Reasoning = clonePointer(r.Reasoning)
	r.Input = slices.Clone(r.Input)
	r.Cost = clonePointer(r.Cost)
	r.Thinking = r.Thinking.clone()
	models := make(map[string]ModelOverride, len(r.Models))
	for id, m := range r.Models {
		models[id] = ModelOverride{
			ContextWindow: clonePointer(m.ContextWindow),
			MaxTokens:     clonePointer(m.MaxTokens),
			Reasoning:     clonePointer(m.Reasoning),
			Input:         slices.Clone(m.Input),
			Cost:          clonePointer(m.Cost),
			Thinking:      m.Thinking.clone(),
			Compat:        m.Compat,
			InputLimits:   m.InputLimits,
		}
	}
	r.Models = models
	r.Edge = clonePointer(r.Edge)
	return r
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// model resolves one model. entry is its catalog entry and first the provider's
// first one; either may be nil.
func (r Registration) model(provider, id string, entry, first *CatalogModel) Model {
	own := r.Models[id]
	var base CatalogModel
	endpoint := first
	if entry != nil {
		base, endpoint = *entry, entry
	}
	if endpoint == nil {
		endpoint = &CatalogModel{}
	}
	m := Model{
		Provider:      provider,
		ID:            id,
		API:           nonEmpty(r.API, endpoint.API),
		BaseURL:       nonEmpty(r.BaseURL, endpoint.BaseURL),
		Headers:       mergeHeaders(base.Headers, r.Headers),
		ContextWindow: firstGiven(base.ContextWindow, own.ContextWindow, r.ContextWindow),
		MaxTokens:     firstGiven(base.MaxTokens, own.MaxTokens, r.MaxTokens),
		Reasoning:     firstGiven(base.Reasoning, own.Reasoning, r.Reasoning),
		Input:         firstInput(own.Input, r.Input, base.Input),
		InputLimits:   own.InputLimits.over(r.InputLimits.over(base.InputLimits)),
		Cost:          base.Cost,
		Thinking:      firstMap(own.Thinking, r.Thinking, base.Thinking),
		Compat:        own.Compat.Over(r.Compat.Over(base.Compat)),
	}
	m.Cost.Tiers = slices.Clone(m.Cost.Tiers)
	if rates := cmp.Or(own.Cost, r.Cost); rates != nil {
		m.Cost = Cost{Rates: *rates}
	}
	m.StoreResponses = r.StoreResponses && (m.API == "openai-responses" || m.API == "azure-openai-responses")
	m.LongCacheRetention = r.LongCacheRetention
	return m
}

func nonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstGiven[T any](otherwise T, values ...*T) T {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

func firstInput(lists ...[]string) []string {
	for _, l := range lists {
		if l != nil {
			return slices.Clone(l)
		}
	}
	return []string{InputText}
}

func firstMap(maps ...ThinkingMap) ThinkingMap {
	for _, m := range maps {
		if m != nil {
			return m.clone()
		}
	}
	return nil
}

// mergeHeaders compares keys as HTTP does, so that one spelling cannot be sent
// beside another. Sorted order decides between two spellings in one map.
func mergeHeaders(layers ...map[string]string) map[string]string {
	var merged map[string]string
	for _, m := range layers {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[http.CanonicalHeaderKey(k)] = m[k]
		}
	}
	return merged
}
