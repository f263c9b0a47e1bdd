package providers

import (
	"context"
	"fmt"
	"net/http"
)

// APIEdgeAIBinding is the slug of an edge platform's binding to its models. It has no
// endpoint, so a registration with it needs no BaseURL, and nothing else either. No
// protocol for it is registered by itself: calls fail until one is, which package edge
// beside this one has.
const APIEdgeAIBinding = "edge-ai-binding"

// edgeCatalog is the provider whose catalog entries are those of the edge platform.
const edgeCatalog = "cloudflare-workers-ai"

// Edge says how models are called through the binding of an edge platform.
type Edge struct {
	// Binding calls the models. It is read once, at registration.
	Binding EdgeBinding
	// Gateway goes to every call of the binding as it is. Nil is the gateway "default";
	// one without an ID is refused at registration.
	Gateway *EdgeGateway
	// NoGateway passes no gateway at all.
	NoGateway bool
}

// EdgeBinding is the binding of an edge platform. Implementations are safe for concurrent
// use.
type EdgeBinding interface {
	// Run calls a model. inputs is the request, a JSON object in the model's own format.
	// The response is in that format too; the caller closes its body.
	Run(ctx context.Context, modelID string, inputs *Body, o EdgeRunOptions) (*http.Response, error)
}

// EdgeRunOptions are those of one call of a binding.
type EdgeRunOptions struct {
	// ReturnRawResponse asks for the response as the model gave it.
	ReturnRawResponse bool
	// ExtraHeaders are sent to the model; nil means none.
	ExtraHeaders http.Header
	// Gateway is nil for none.
	Gateway *EdgeGateway
}

// EdgeGateway is the gateway that a call takes. What is not given is left out.
type EdgeGateway struct {
	ID        string `json:"id"`
	SkipCache *bool  `json:"skipCache,omitempty"`
	// CacheTTL is in seconds.
	CacheTTL *int64 `json:"cacheTtl,omitempty"`
	CacheKey string `json:"cacheKey,omitempty"`
	// Metadata values are texts, numbers, true, false or nil.
	Metadata   map[string]any `json:"metadata,omitempty"`
	CollectLog *bool          `json:"collectLog,omitempty"`
	EventID    string         `json:"eventId,omitempty"`
	// RequestTimeoutMS is in milliseconds.
	RequestTimeoutMS *int64 `json:"requestTimeoutMs,omitempty"`
}

// resolved is what a call of the binding is given.
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

// edgeModel resolves a model of a registration with the API APIEdgeAIBinding. entry is
// that of the edge platform's own catalog, whatever the id of the registration.
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

// EdgeError is the Err of the *Error that a protocol of the binding ends a call with when
// the binding's response is no success. [Classify] has the kind: a request that is too
// large is KindContextOverflow, which compaction helps.
type EdgeError struct {
	// Status and StatusText are those of the response; the text may be empty.
	Status     int
	StatusText string
	// Err is what the response says, a *VendorError, or nil.
	Err error
}

// Type is the error's type, "edge_ai_binding_error".
func (e *EdgeError) Type() string { return "edge_ai_binding_error" }

// Meta is the error's meta: status, statusText unless it is empty, and for a request that
// is too large the reason "request_too_large".
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

// Unwrap returns what the response says.
func (e *EdgeError) Unwrap() error { return e.Err }

// Error names the status, and the reason if there is one.
func (e *EdgeError) Error() string {
	s := fmt.Sprintf("edge binding answered %d", e.Status)
	if e.StatusText != "" {
		s += " " + e.StatusText
	}
	if reason, ok := e.Meta()["reason"]; ok {
		s += fmt.Sprintf(" (%s)", reason)
	}
	return s
}
