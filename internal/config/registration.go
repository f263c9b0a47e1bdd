package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// providers reads the providers of a file into dst, including those with a mistake, so that models may
// name them.
func (r *reader) providers(dst map[string]providers.Registration) func(value) {
	return func(v value) {
		for _, p := range r.entries(v, `{api: openai-completions, baseUrl: "http://127.0.0.1:9000/v1"}`) {
			if f := checkProviderID(p.name); f != (fault{}) {
				r.blameKey(p, f)
			}
			var reg providers.Registration
			r.registration(p, &reg)
			dst[p.name] = reg
		}
	}
}

func (r *reader) registration(v value, reg *providers.Registration) {
	api := "openai-completions"
	if len(r.opts.APIs) > 0 {
		api = r.opts.APIs[0]
	}
	fields := []field{
		{name: "api", example: api, read: r.text(&reg.API, r.checkAPI)},
		{name: "baseUrl", example: "https://api.example.com/v1", read: r.text(&reg.BaseURL, checkBaseURL)},
		{name: "apiKeyEnv", example: "EXAMPLE_API_KEY", read: r.apiKey(v.name, &reg.APIKey)},
		{name: "headers", example: "{X-Team: agents}", read: r.headers(&reg.Headers)},
		{name: "models", example: "{m1: {contextWindow: 8000}}", read: r.models(&reg.Models)},
		{name: "storeResponses", example: "true", read: r.truth(func(t bool) { reg.StoreResponses = t })},
		{name: "longCacheRetention", example: "true", read: r.truth(func(t bool) { reg.LongCacheRetention = t })},
		{name: "telemetry", example: "{providerName: openai}", read: r.telemetry(&reg.Telemetry)},
		{name: "gateway", example: "{id: default}", read: r.gateway(&reg.Edge)},
	}
	var own providers.ModelOverride
	r.fields(v, append(fields, r.modelFields(&own)...))
	reg.ContextWindow, reg.MaxTokens, reg.Reasoning, reg.Input, reg.Cost = own.ContextWindow, own.MaxTokens, own.Reasoning, own.Input, own.Cost
	reg.InputLimits, reg.Thinking, reg.Compat = own.InputLimits, own.Thinking, own.Compat
	if v.node.kind != mapping {
		return
	}
	if reg.API == providers.APIEdgeAIBinding {
		r.edge(v)
		return
	}
	if gateway, ok := r.given(v, "gateway"); ok {
		r.blameKey(gateway, fault{"requires the api " + providers.APIEdgeAIBinding, "remove it"})
	}
	if slices.Contains(r.opts.Catalog, v.name) {
		return
	}
	if !r.written(v, "api") {
		r.missing(v, "api", api)
	}
	if !r.written(v, "baseUrl") {
		r.missing(v, "baseUrl", "https://api.example.com/v1")
	}
}

// apiKey reads the variable of a provider's key. If it is unset or blank, the next source of a key
// applies.
func (r *reader) apiKey(provider string, dst *string) func(value) {
	return r.variableOr(dst, func(_ value, shown string, _ bool) { r.blankKeys[provider] = shown })
}

// edge reports keys that do not apply to a binding, which has no address and whose models the platform
// defines.
func (r *reader) edge(v value) {
	for _, p := range v.node.pairs {
		if child, ok := r.given(v, p.name); ok && !slices.Contains([]string{"api", "gateway", "telemetry"}, p.name) {
			r.blameKey(child, fault{"does not apply to the api " + providers.APIEdgeAIBinding, "remove it"})
		}
	}
}

// gateway reads the gateway of a binding's calls; false is none.
func (r *reader) gateway(dst **providers.Edge) func(value) {
	return func(v value) {
		if v.node.kind == boolean && v.node.text == "false" {
			*dst = &providers.Edge{NoGateway: true}
			return
		}
		g := &providers.EdgeGateway{}
		r.fields(v, []field{
			{name: "id", example: "default", read: func(v value) { g.ID, _ = r.checked(v, checkGatewayID) }, required: true},
			{name: "skipCache", example: "true", read: r.truth(func(t bool) { g.SkipCache = &t })},
			{name: "cacheTtl", example: "60", read: r.count(0, func(n int64) { g.CacheTTL = &n })},
			{name: "cacheKey", example: "prompts", read: r.text(&g.CacheKey)},
			{name: "metadata", example: "{team: agents}", read: r.metadata(&g.Metadata)},
			{name: "collectLog", example: "true", read: r.truth(func(t bool) { g.CollectLog = &t })},
			{name: "eventId", example: "import-7", read: r.text(&g.EventID)},
			{name: "requestTimeoutMs", example: "30000", read: r.whole(func(n int64) { g.RequestTimeoutMS = &n })},
		})
		*dst = &providers.Edge{Gateway: g}
	}
}

// metadata reads names and scalar values.
func (r *reader) metadata(dst *map[string]any) func(value) {
	return func(v value) {
		for _, entry := range r.entries(v, "agents") {
			if k := entry.node.kind; k == mapping || k == list {
				r.blameKey(entry, fault{fmt.Sprintf("is %s, want text, a number, true, false or null", k), "write for example " + entry.example})
				continue
			}
			var src any
			raw, wrong, f := appendJSON(nil, entry)
			if wrong != nil {
				if f != (fault{}) {
					r.blame(*wrong, f)
				}
				continue
			}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber() // keeps large numbers exact
			if err := d.Decode(&src); err != nil {
				panic("config: invalid JSON: " + err.Error())
			}
			if *dst == nil {
				*dst = map[string]any{}
			}
			(*dst)[entry.name] = src
		}
	}
}

// telemetry reads the names of a provider in events.
func (r *reader) telemetry(dst *providers.Telemetry) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "providerName", example: "openai", read: r.text(&dst.ProviderName)},
			{name: "serverAddress", example: "api.example.com", read: r.text(&dst.ServerAddress)},
			{name: "serverPort", example: "443", read: func(v value) {
				r.whole(func(n int64) {
					if n > math.MaxUint16 {
						r.blame(v, fault{fmt.Sprintf("is %d, want 1 to %d", n, math.MaxUint16), "write for example " + v.example})
						return
					}
					dst.ServerPort = int(n)
				})(v)
			}},
		})
	}
}

func (r *reader) checkAPI(s string) fault {
	if len(r.opts.APIs) == 0 || slices.Contains(r.opts.APIs, s) {
		return fault{}
	}
	f := fault{problem: quote(s) + " is not a known api", remedy: "use one of " + strings.Join(r.opts.APIs, ", ")}
	if near := nearest(s, r.opts.APIs); near != "" {
		f.remedy = "did you mean " + near + "?"
	}
	return f
}

// headers reads the headers of every request of a provider. Values may be secrets.
func (r *reader) headers(dst *map[string]string) func(value) {
	return func(v value) {
		first := map[string]string{}
		for _, h := range r.entries(v, "") {
			folded := strings.ToLower(h.name)
			if other, ok := first[folded]; ok {
				r.blameKey(h, fault{fmt.Sprintf("is the same header as %s", quote(other)), "remove one of the two"})
				continue
			}
			first[folded] = h.name
			if f := checkHeaderName(h.name); f != (fault{}) {
				r.blameKey(h, f)
				continue
			}
			if s, ok := r.checked(h, checkHeaderValue); ok {
				if *dst == nil {
					*dst = map[string]string{}
				}
				(*dst)[h.name] = s
			}
		}
	}
}

func (r *reader) models(dst *map[string]providers.ModelOverride) func(value) {
	return func(v value) {
		for _, m := range r.entries(v, "{contextWindow: 8000}") {
			if m.name == "" || strings.ContainsAny(m.name, " \t\r\n") {
				r.blameKey(m, fault{quote(m.name) + " is not the id of a model", "write the provider's id, without spaces"})
			}
			var own providers.ModelOverride
			r.fields(m, r.modelFields(&own))
			if *dst == nil {
				*dst = map[string]providers.ModelOverride{}
			}
			(*dst)[m.name] = own
		}
	}
}

// modelFields returns the keys that a provider and its models share.
func (r *reader) modelFields(dst *providers.ModelOverride) []field {
	return []field{
		{name: "contextWindow", example: "8000", read: r.count(0, func(n int64) { dst.ContextWindow = new(int(n)) })},
		{name: "maxTokens", example: "2000", read: r.count(0, func(n int64) { dst.MaxTokens = new(int(n)) })},
		{name: "reasoning", example: "false", read: r.truth(func(t bool) { dst.Reasoning = new(t) })},
		{name: "input", example: "[text, image]", read: func(v value) {
			r.texts(&dst.Input, checkInput)(v)
			if v.node.kind == list && len(v.node.items) == 0 {
				r.blame(v, fault{"is empty, but a model needs an input", "write [text] or [text, image], or remove the key"})
			}
		}},
		{name: "inputLimits", example: "{images: 20}", read: r.inputLimits(&dst.InputLimits)},
		{name: "cost", example: "{input: 3, output: 15}", read: r.cost(&dst.Cost)},
		{name: "thinkingLevelMap", example: "{xhigh: xhigh, minimal: null}", read: r.thinking(&dst.Thinking)},
		{name: "compat", example: "{maxTokensField: max_tokens}", read: r.compat(&dst.Compat)},
	}
}

// inputLimits reads a model's limits on images and bytes.
func (r *reader) inputLimits(dst *providers.InputLimits) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "requestBytes", example: "32_000_000", read: r.whole(func(n int64) { dst.RequestBytes = n })},
			{name: "images", example: "20", read: r.whole(func(n int64) { dst.Images = int(n) })},
			{name: "imagesPerMessage", example: "8", read: r.whole(func(n int64) { dst.ImagesPerMessage = int(n) })},
			{name: "imageBytes", example: "5_000_000", read: r.whole(func(n int64) { dst.ImageBytes = n })},
			{name: "imageSide", example: "8000", read: r.whole(func(n int64) { dst.ImageSide = int(n) })},
		})
	}
}

// cost reads the prices of a model, in US dollars per million tokens.
func (r *reader) cost(dst **providers.Rates) func(value) {
	return func(v value) {
		var rates providers.Rates
		r.fields(v, []field{
			{name: "input", example: "3", read: r.float(&rates.Input, perMillion, maxDollars)},
			{name: "output", example: "15", read: r.float(&rates.Output, perMillion, maxDollars)},
			{name: "cacheRead", example: "0.3", read: r.float(&rates.CacheRead, perMillion, maxDollars)},
			{name: "cacheWrite", example: "3.75", read: r.float(&rates.CacheWrite, perMillion, maxDollars)},
		})
		*dst = &rates
	}
}

// perMillion is the unit of prices.
const perMillion = "US dollars per million tokens"

// maxDollars is above any plausible price.
const maxDollars = 1e6

// float reads a number from 0 to most; want describes it.
func (r *reader) float(dst *float64, want string, most float64) func(value) {
	return func(v value) {
		if !r.is(v, number) {
			return
		}
		n, err := strconv.ParseFloat(v.node.text, 64)
		if err != nil || !(n >= 0 && n <= most) { // also false for NaN
			r.blame(v, fault{"is " + quote(v.node.text) + ", want " + want + ", from 0 to " + strconv.FormatFloat(most, 'f', -1, 64), "write for example " + v.example})
			return
		}
		*dst = n
	}
}
