package providers

import (
	"context"
	"fmt"
	"net/http"
)

// APIEdgeAIBinding is the slug of an edge platform's binding to its models. It has no endpoint, so a
// registration with it needs neither BaseURL nor other fields. Calls fail until a protocol is
// registered for it, such as that of providers/edge.
const APIEdgeAIBinding = "edge-ai-binding"

// edgeCatalog is the provider id of the edge platform's catalog entries.
const edgeCatalog = "cloudflare-workers-ai"

// Edge configures calls through the binding of an edge platform.
type Edge struct {
	// Binding calls the models. It is read once, at registration.
	Binding EdgeBinding
	// Gateway is passed unchanged to every call of the binding. Nil means the gateway "default".
	// Registration rejects a gateway without an ID.
	Gateway *EdgeGateway
	// NoGateway passes no gateway.
	NoGateway bool
}

// EdgeBinding is the binding of an edge platform. Implementations are safe for concurrent
// use.
type EdgeBinding interface {
	// Run calls a model. inputs is a JSON object in the model's own request format. The response is in
	// the model's format too; the caller closes its body.
	Run(ctx context.Context, modelID string, inputs *Body, o EdgeRunOptions) (*http.Response, error)
}

// EdgeRunOptions are the options of one call of a binding.
type EdgeRunOptions struct {
	// ReturnRawResponse requests the unmodified response of the model.
	ReturnRawResponse bool
	// ExtraHeaders are sent to the model; nil means none.
	ExtraHeaders http.Header
	// Gateway is nil for none.
	Gateway *EdgeGateway
}

// EdgeGateway selects the gateway of a call. Unset fields are omitted.
type EdgeGateway struct {
	ID        string `json:"id"`
	SkipCache *bool  `json:"skipCache,omitempty"`
	// CacheTTL is in seconds.
	CacheTTL *int64 `json:"cacheTtl,omitempty"`
	CacheKey string `json:"cacheKey,omitempty"`
	// Metadata values are strings, numbers, booleans or nil.
	Metadata   map[string]any `json:"metadata,omitempty"`
	CollectLog *bool          `json:"collectLog,omitempty"`
	EventID    string         `json:"eventId,omitempty"`
	// RequestTimeoutMS is in milliseconds.
	RequestTimeoutMS *int64 `json:"requestTimeoutMs,omitempty"`
}

// resolved returns the configuration that calls receive.
func (e Edge) resolved() *Edge {
	switch {
	case e.NoGateway:
		e.Gateway = nil
	case e.Gateway == nil:
		e.Gateway = &EdgeGateway{ID: "default"}
	}
	e.NoGateway = e.Gateway == nil
	return &e
}

// edgeModel resolves a model of a registration with the API APIEdgeAIBinding. entry is from the edge
// platform's own catalog, whatever the id of the registration.
func (r Registration) edgeModel(provider, id string, entry *CatalogModel) Model {
	only := Registration{API: APIEdgeAIBinding, Telemetry: r.Telemetry}
	base := CatalogModel{}
	if entry != nil {
		base = *entry
	}
	base.BaseURL, base.Headers = "", nil
	m := only.model(provider, id, &base, nil)
	edge := Edge{}
	if r.Edge != nil {
		edge = *r.Edge
	}
	m.Edge = edge.resolved()
	return m
}

// EdgeError is the Err of an *Error if the binding's response is not a success. [Classify] determines
// the kind. A request that is too large is KindContextOverflow, because compaction helps.
type EdgeError struct {
	// Status and StatusText are those of the response; the text may be empty.
	Status     int
	StatusText string
	// Err is the *VendorError of the response, or nil.
	Err error
}

// Type returns the error type, "edge_ai_binding_error".
func (e *EdgeError) Type() string { return "edge_ai_binding_error" }

// Meta returns the details of the error: status, statusText unless it is empty, and the reason
// "request_too_large" for a request that is too large.
func (e *EdgeError) Meta() map[string]any {
	meta := map[string]any{"status": e.Status}
	if e.StatusText != "" {
		meta["statusText"] = e.StatusText
	}
	if e.Status == http.StatusRequestEntityTooLarge {
		meta["reason"] = "request_too_large"
	}
	return meta
}

// Unwrap returns Err.
func (e *EdgeError) Unwrap() error { return e.Err }

// Error returns the status, and the reason if there is one.
func (e *EdgeError) Error() string {
	s := fmt.Sprintf("edge binding returned %d", e.Status)
	if e.StatusText != "" {
		s += " " + e.StatusText
	}
	if reason, ok := e.Meta()["reason"]; ok {
		s += fmt.Sprintf(" (%s)", reason)
	}
	return s
}
