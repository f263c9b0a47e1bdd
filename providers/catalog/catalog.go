package catalog

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/parleyrun/parley/providers"
)

//go:embed catalog.json.gz
var packed embed.FS

// packedName is the file of the catalog, in packed and in this directory.
const packedName = "catalog.json.gz"

// maxUnpacked bounds the catalog, in bytes of JSON.
const maxUnpacked = 1 << 20

// Source describes the origin of the data.
type Source struct {
	// Package and Version name the source package, Integrity is the base64 of its SHA-512. Generated
	// is the time at which its authors collected the data, in RFC 3339.
	Package   string `json:"package"`
	Version   string `json:"version"`
	Generated string `json:"generated"`
	Integrity string `json:"integrity"`
}

// Builtin returns the shared catalog. The caller must not change it. It is decoded when the models of
// any provider are first requested.
func Builtin() providers.Catalog { return builtin() }

// Provenance returns the origin of the catalog.
func Provenance() Source { return load().source }

var builtin = sync.OnceValue(func() providers.Catalog {
	out := environments()
	for id, entry := range out {
		entry.Models = func() []providers.CatalogModel { return load().models[id] }
		out[id] = entry
	}
	for alias, id := range aliases() {
		entry := out[id]
		entry.AliasOf = id
		out[alias] = entry
	}
	return out
})

type loaded struct {
	source Source
	models map[string][]providers.CatalogModel
}

// load is a variable so that a test can detect decoding.
var load = sync.OnceValue(func() loaded {
	f, err := packed.Open(packedName)
	if err != nil {
		panic(err) // packed is part of the program
	}
	doc, err := unpack(f)
	if err != nil {
		panic("catalog: " + err.Error()) // a test decodes it
	}
	return loaded{doc.Source, doc.models()}
})

// document is the JSON of the catalog. Shared values are stored once and referenced by index, from 1
// on.
type document struct {
	Source    Source                  `json:"source"`
	Thinking  []providers.ThinkingMap `json:"thinking"`
	Compat    []providers.Compat      `json:"compat"`
	Headers   []map[string]string     `json:"headers"`
	Limits    []providers.InputLimits `json:"inputLimits"`
	Providers []provider              `json:"providers"`
}

type provider struct {
	ID string `json:"id"`
	// Endpoints are referenced by models, from 0 on.
	Endpoints []endpoint `json:"endpoints"`
	Models    []model    `json:"models"`
}

type endpoint struct {
	API     string `json:"api"`
	BaseURL string `json:"baseUrl"`
}

type model struct {
	ID            string `json:"id"`
	Endpoint      int    `json:"endpoint,omitempty"`
	ContextWindow int    `json:"contextWindow"`
	MaxTokens     int    `json:"maxTokens"`
	Reasoning     bool   `json:"reasoning,omitempty"`
	Images        bool   `json:"images,omitempty"`
	// Cost contains the rates of input, output, cache reads and cache writes, in US dollars per
	// million tokens. In a tier the first number is the token threshold.
	Cost     [4]float64   `json:"cost"`
	Tiers    [][5]float64 `json:"tiers,omitempty"`
	Thinking int          `json:"thinking,omitempty"`
	Compat   int          `json:"compat,omitempty"`
	Headers  int          `json:"headers,omitempty"`
	Limits   int          `json:"inputLimits,omitempty"`
}

// unpack reads a packed catalog.
func unpack(r io.Reader) (*document, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(raw) > maxUnpacked {
		return nil, fmt.Errorf("unpack: is longer than %d bytes", maxUnpacked)
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return &doc, doc.check()
}

// check reports references out of range.
func (d *document) check() error {
	for _, p := range d.Providers {
		if len(p.Models) == 0 {
			return fmt.Errorf("provider %s has no models", p.ID)
		}
		for _, m := range p.Models {
			if m.Endpoint < 0 || m.Endpoint >= len(p.Endpoints) || !within(m.Thinking, d.Thinking) || !within(m.Compat, d.Compat) ||
				!within(m.Headers, d.Headers) || !within(m.Limits, d.Limits) {
				return fmt.Errorf("model %s/%s has an unknown reference", p.ID, m.ID)
			}
		}
	}
	return nil
}

func within[T any](place int, list []T) bool { return place >= 0 && place <= len(list) }

// at returns the value at a reference, or the zero value for 0.
func at[T any](place int, list []T) (v T) {
	if place > 0 {
		v = list[place-1]
	}
	return v
}

// models returns the models of each provider.
func (d *document) models() map[string][]providers.CatalogModel {
	text, images := []string{providers.InputText}, []string{providers.InputText, providers.InputImage}
	out := make(map[string][]providers.CatalogModel, len(d.Providers))
	for _, p := range d.Providers {
		list := make([]providers.CatalogModel, len(p.Models))
		for i, m := range p.Models {
			list[i] = providers.CatalogModel{
				ID: m.ID, API: p.Endpoints[m.Endpoint].API, BaseURL: p.Endpoints[m.Endpoint].BaseURL,
				Headers:       at(m.Headers, d.Headers),
				ContextWindow: m.ContextWindow, MaxTokens: m.MaxTokens, Reasoning: m.Reasoning,
				Thinking: at(m.Thinking, d.Thinking), Compat: at(m.Compat, d.Compat),
				Input: text, InputLimits: at(m.Limits, d.Limits), Cost: m.cost(),
			}
			if m.Images {
				list[i].Input = images
			}
		}
		out[p.ID] = list
	}
	return out
}

func (m model) cost() providers.Cost {
	c := providers.Cost{Rates: rates(m.Cost[:])}
	for _, t := range m.Tiers {
		c.Tiers = append(c.Tiers, providers.CostTier{InputTokensAbove: int64(t[0]), Rates: rates(t[1:])})
	}
	return c
}

func rates(r []float64) providers.Rates {
	return providers.Rates{Input: r[0], Output: r[1], CacheRead: r[2], CacheWrite: r[3]}
}
