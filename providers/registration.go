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

// Registration configures a provider. Every field is optional for a provider with catalog models;
// others need API and BaseURL. An empty string and a nil pointer, slice or map are unset; a zero
// behind a pointer is set. With API [APIEdgeAIBinding] only Edge and Telemetry are used in addition.
type Registration struct {
	// API is the slug of a registered protocol; it defaults to the catalog's.
	API string `json:"api,omitempty"`
	// BaseURL is the endpoint root; it defaults to the catalog's.
	BaseURL string `json:"baseUrl,omitempty"`
	// APIKey is used for every call; if it is blank the environment is used.
	APIKey string `json:"apiKey,omitempty"`
	// Headers are sent on every request; they override the catalog's by key.
	Headers map[string]string `json:"headers,omitempty"`
	// ContextWindow and MaxTokens are in tokens; they default to the catalog's, then 0.
	ContextWindow *int `json:"contextWindow,omitempty"`
	MaxTokens     *int `json:"maxTokens,omitempty"`
	// Reasoning defaults to the catalog's, then false.
	Reasoning *bool `json:"reasoning,omitempty"`
	// Input defaults to the catalog's, then to InputText only.
	Input []string `json:"input,omitempty"`
	// InputLimits override the catalog's, field by field.
	InputLimits InputLimits `json:"inputLimits,omitzero"`
	// Cost defaults to the catalog's, then to zero: a model without rates counts as free.
	Cost *Rates `json:"cost,omitempty"`
	// Thinking defaults to the catalog's; a map replaces the catalog's map completely.
	Thinking ThinkingMap `json:"thinkingLevelMap,omitempty"`
	// Compat overrides the catalog's, field by field.
	Compat Compat `json:"compat,omitzero"`
	// Models overrides the eight fields above for single models, by model id.
	Models map[string]ModelOverride `json:"models,omitempty"`
	// StoreResponses asks the vendor to store responses; only openai-responses and
	// azure-openai-responses support it.
	StoreResponses bool `json:"storeResponses,omitempty"`
	// LongCacheRetention asks the vendor to cache prompts longer than by default, for an hour to a
	// day. It may cost more, see Compat.SupportsLongCacheRetention.
	LongCacheRetention bool `json:"longCacheRetention,omitempty"`
	// Telemetry overrides the provider identity in observability events.
	Telemetry Telemetry `json:"telemetry,omitzero"`
	Edge      *Edge     `json:"-"`
}

// ModelOverride overrides fields of a registration for one model.
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

// RegistrationError reports an invalid provider: an id that cannot be part of a specifier, a blank API
// or BaseURL without a catalog default, gateway options without id, or an incomplete [Provider].
type RegistrationError struct {
	ProviderID string
	// Problem describes the fault and the requirement.
	Problem string
}

// Type returns the error type, "invalid_provider_registration".
func (e *RegistrationError) Type() string { return "invalid_provider_registration" }

// Meta returns the details of the error: the provider id as providerId.
func (e *RegistrationError) Meta() map[string]string {
	return map[string]string{"providerId": e.ProviderID}
}

// Error returns the provider and the problem.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("register provider %q: %s", e.ProviderID, e.Problem)
}

// idProblem returns why the id of a provider is invalid, or "". The id is the part of a specifier
// before its first slash.
func idProblem(id string) string {
	odd := strings.ContainsFunc(id, func(c rune) bool { return c == '/' || unicode.IsControl(c) })
	if id == "" || odd || id != strings.TrimSpace(id) || !utf8.ValidString(id) {
		return "provider id must not be empty, contain a slash or control characters, or begin or end with space; use an id such as \"local\""
	}
	return ""
}

// problem returns why r is invalid, or "". cataloged is set for a provider with catalog models.
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

// clone returns a deep copy of r.
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

// model resolves one model. entry is its catalog entry and first the provider's first entry; either
// may be nil.
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

// mergeHeaders merges headers by canonical key, so that two spellings of a key are never both sent.
// Within one map the last key in sorted order wins.
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
