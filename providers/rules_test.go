package providers_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
)

// TestNames checks that the aliases are the same types.
// covers: providers/8, providers/77
func TestNames(t *testing.T) {
	for name, same := range map[string]bool{
		"ProviderRegistration":      reflect.TypeFor[providers.ProviderRegistration]() == reflect.TypeFor[providers.Registration](),
		"HTTPProviderRegistration":  reflect.TypeFor[providers.HTTPProviderRegistration]() == reflect.TypeFor[providers.Registration](),
		"EdgeAIBindingRegistration": reflect.TypeFor[providers.EdgeAIBindingRegistration]() == reflect.TypeFor[providers.Registration](),
		"GatewayOptions":            reflect.TypeFor[providers.GatewayOptions]() == reflect.TypeFor[providers.EdgeGateway](),
		"APIProvider":               reflect.TypeFor[providers.APIProvider]() == reflect.TypeFor[providers.Protocol](),
		"ProviderRegistrationError": reflect.TypeFor[providers.ProviderRegistrationError]() == reflect.TypeFor[providers.RegistrationError](),
		"EdgeAIBindingError":        reflect.TypeFor[providers.EdgeAIBindingError]() == reflect.TypeFor[providers.EdgeError](),
	} {
		if !same {
			t.Errorf("%s: got another type", name)
		}
	}
	for m := range reflect.TypeFor[*providers.Registry]().Methods() {
		if name := strings.ToLower(m.Name); strings.Contains(name, "unregister") || strings.Contains(name, "remove") || strings.Contains(name, "delete") {
			t.Errorf("%s: got a method that removes registrations", m.Name)
		}
	}
}

// TestRegistrationIsDeferred: registration makes no network calls. A wrong address or key fails the
// first call.
// covers: providers/12, providers/76
func TestRegistrationIsDeferred(t *testing.T) {
	asked := 0
	strict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
	}))
	defer strict.Close()
	r := providers.NewRegistry(nil)
	protocol := openaicompletions.New(nil)
	defer protocol.Close()
	r.RegisterProtocol(openaicompletions.API, protocol)
	for id, baseURL := range map[string]string{"nowhere": "http://127.0.0.1:1", "strict": strict.URL, "nonsense": "::"} {
		if err := r.RegisterProvider(id, providers.Registration{API: openaicompletions.API, BaseURL: baseURL, APIKey: "wrong"}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := r.Resolve(id + "/m"); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if asked != 0 {
		t.Error("registration: got a request, want none")
	}
	for id, want := range map[string]providers.ErrorKind{"nowhere": providers.KindNetwork, "strict": providers.KindAuth, "nonsense": providers.KindInvalidRequest} {
		for _, err := range r.Stream(t.Context(), id+"/m", providers.Request{}, providers.Options{}) {
			var e *providers.Error
			if !errors.As(err, &e) || e.Kind != want {
				t.Errorf("%s: got %v, want %s", id, err, want)
			}
		}
	}
}

// covers: providers/78
func TestRegistriesShareNothing(t *testing.T) {
	one, two := registry(t, nil, nil), registry(t, nil, nil)
	if err := one.RegisterProvider("own", providers.Registration{API: "api-1", BaseURL: "http://b/"}); err != nil {
		t.Fatal(err)
	}
	one.RegisterProtocol("api-1", echo{"one"})
	if _, err := two.Resolve("own/m"); !errors.Is(err, providers.ErrUnknownProvider) {
		t.Errorf("other registry: got the provider, %v", err)
	}
	if two.Supports("api-1") || !one.Supports("api-1") {
		t.Error("other registry: got the protocol")
	}
}
