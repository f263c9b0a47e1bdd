package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// binding is a binding for registrations that are never called.
type binding struct{}

func (binding) Run(context.Context, string, *providers.Body, providers.EdgeRunOptions) (*http.Response, error) {
	return nil, errors.New("unexpected call")
}

// edgeCatalog contains the edge platform's own models.
var edgeCatalog = providers.Catalog{
	"cloudflare-workers-ai": {
		EnvKeys: []providers.EnvKey{{Name: "CLOUDFLARE_API_KEY"}},
		Models: listed(providers.CatalogModel{
			ID: "@cf/m", API: "openai-completions", BaseURL: "https://edge.example", ContextWindow: 9, MaxTokens: 8, Reasoning: true,
			Headers: map[string]string{"X-A": "1"}, Input: []string{"text", "image"}, Cost: providers.Cost{Rates: providers.Rates{Input: 1}},
		}),
	},
}

// covers: providers/7, providers/44, providers/46, providers/47, providers/48, providers/52, providers/53, providers/54
// covers: providers/73
func TestEdgeRegistration(t *testing.T) {
	own := &providers.EdgeGateway{ID: "own", SkipCache: new(false)}
	ask := func(e *providers.Edge) *providers.Edge {
		t.Helper()
		r := providers.NewRegistry(&providers.RegistryOptions{Catalog: edgeCatalog})
		// Fields about endpoints and model properties are ignored for this API.
		if err := r.RegisterProvider("any", providers.Registration{
			API: providers.APIEdgeAIBinding, Edge: e, ContextWindow: new(1), BaseURL: "http://b/", Headers: map[string]string{"X-B": "2"}, StoreResponses: true,
			Telemetry: providers.Telemetry{ProviderName: "edge", ServerPort: 7},
		}); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]providers.Model{
			"@cf/m": {
				ContextWindow: 9, MaxTokens: 8, Reasoning: true, Input: []string{"text", "image"}, Cost: providers.Cost{Rates: providers.Rates{Input: 1}},
			},
			"anthropic/unlisted": {Input: []string{"text"}},
		} {
			want.Provider, want.ID, want.API = "any", id, "edge-ai-binding"
			want.Telemetry = providers.Telemetry{ProviderName: "edge", ServerPort: 7}
			m, err := r.Resolve("any/" + id)
			if err != nil {
				t.Fatal(err)
			}
			want.Edge = m.Edge
			if diff := cmp.Diff(want, m); diff != "" {
				t.Errorf("%s (-want +got):\n%s", id, diff)
			}
		}
		m, err := r.Resolve("any/m")
		if err != nil {
			t.Fatal(err)
		}
		return m.Edge
	}
	for name, tt := range map[string]struct {
		edge *providers.Edge
		want *providers.Edge
	}{
		"without a binding":   {nil, &providers.Edge{Gateway: &providers.EdgeGateway{ID: "default"}}},
		"the default gateway": {&providers.Edge{Binding: binding{}}, &providers.Edge{Binding: binding{}, Gateway: &providers.EdgeGateway{ID: "default"}}},
		"a gateway":           {&providers.Edge{Binding: binding{}, Gateway: own}, &providers.Edge{Binding: binding{}, Gateway: own}},
		"no gateway":          {&providers.Edge{Binding: binding{}, NoGateway: true, Gateway: own}, &providers.Edge{Binding: binding{}, NoGateway: true}},
	} {
		if diff := cmp.Diff(tt.want, ask(tt.edge)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEdgeGatewayNeedsAnID: gateway options replace the default gateway, so they need an id.
// covers: providers/49
func TestEdgeGatewayNeedsAnID(t *testing.T) {
	for _, gateway := range []providers.EdgeGateway{{}, {SkipCache: new(true)}, {ID: " \t", CacheKey: "k"}} {
		r := providers.NewRegistry(nil)
		err := r.RegisterProvider("edge", providers.Registration{API: "edge-ai-binding", Edge: &providers.Edge{Binding: binding{}, Gateway: &gateway}})
		var typed *providers.RegistrationError
		if !errors.As(err, &typed) || typed.ProviderID != "edge" || !strings.Contains(err.Error(), "need an id") || r.Registered("edge") {
			t.Errorf("%+v: got %v, registered %t, want a *RegistrationError", gateway, err, r.Registered("edge"))
		}
	}
}

// TestEdgeCallNeedsAProtocol: the registration is valid, and the call returns the missing protocol.
// covers: providers/44, providers/51, providers/81
func TestEdgeCallNeedsAProtocol(t *testing.T) {
	r := providers.NewRegistry(nil)
	if err := r.RegisterProvider("edge", providers.Registration{API: "edge-ai-binding", Edge: &providers.Edge{Binding: binding{}}}); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range r.Stream(t.Context(), "edge/m", providers.Request{}, providers.Options{}) {
		last = err
	}
	if want := `call model of edge: unresolved: resolve model "edge/m": no protocol is registered for the model's api "edge-ai-binding"`; last == nil || last.Error() != want {
		t.Errorf("got %v, want %s", last, want)
	}
	r.RegisterProtocol("edge-ai-binding", echo{"edge"})
	if got := textOf(t, r.Stream(t.Context(), "edge/m", providers.Request{}, providers.Options{})); got != "edge edge/m  " {
		t.Errorf("got %q", got)
	}
}

// TestEdgeBindingIsReadOnce: the binding is read at registration.
// covers: providers/45
func TestEdgeBindingIsReadOnce(t *testing.T) {
	r, e := providers.NewRegistry(nil), &providers.Edge{Binding: binding{}}
	if err := r.RegisterProvider("edge", providers.Registration{API: "edge-ai-binding", Edge: e}); err != nil {
		t.Fatal(err)
	}
	e.Binding, e.NoGateway = nil, true
	if m, err := r.Resolve("edge/m"); err != nil || m.Edge.Binding == nil || m.Edge.Gateway == nil {
		t.Errorf("registration changed with the caller's value: got %+v, %v", m.Edge, err)
	}
}

// covers: providers/9, providers/50
func TestEdgeGatewayNames(t *testing.T) {
	const text = `{"id":"g","skipCache":true,"cacheTtl":60,"cacheKey":"k","metadata":{"a":1,"b":null},"collectLog":false,"eventId":"e","requestTimeoutMs":5}`
	var g providers.GatewayOptions
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(g); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := json.Marshal(providers.EdgeGateway{ID: "g"}); err != nil || string(got) != `{"id":"g"}` {
		t.Errorf("unset fields are sent: got %s, %v", got, err)
	}
}

// covers: providers/55
func TestEdgeError(t *testing.T) {
	for _, tt := range []struct {
		err  providers.EdgeAIBindingError
		meta map[string]any
		text string
		kind providers.ErrorKind
	}{
		{providers.EdgeError{Status: 413, StatusText: "Too Large"}, map[string]any{"status": 413, "statusText": "Too Large", "reason": "request_too_large"},
			"edge binding returned 413 Too Large (request_too_large)", providers.KindContextOverflow},
		{providers.EdgeError{Status: 502}, map[string]any{"status": 502}, "edge binding returned 502", providers.KindOverloaded},
	} {
		if tt.err.Type() != "edge_ai_binding_error" || !cmp.Equal(tt.err.Meta(), tt.meta) || tt.err.Error() != tt.text {
			t.Errorf("%d: got %s, %v, %q", tt.err.Status, tt.err.Type(), tt.err.Meta(), tt.err.Error())
		}
		if got := providers.Classify(tt.err.Status, "", tt.err.Error()); got != tt.kind {
			t.Errorf("%d is of kind %s", tt.err.Status, got)
		}
	}
}
