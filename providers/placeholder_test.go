package providers_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// urlProtocol answers with the base URL of the call.
type urlProtocol struct{}

// Stream implements providers.Protocol.
func (urlProtocol) Stream(ctx context.Context, m providers.Model, _ providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		a.Text(m.BaseURL)
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

// covers: providers/18
func TestBaseURLPlaceholders(t *testing.T) {
	env := map[string]string{"ACCOUNT": "a1", "GATE_2": " g ", "BLANK": " "}
	for base, want := range map[string]string{
		"https://h/{ACCOUNT}/{GATE_2}/x": "https://h/a1/g/x",
		"https://{location}-h/v1":        "https://{location}-h/v1",
		"https://h/{}{x}":                "https://h/{}{x}",
		"https://h/{ACCOUNT}/{OTHER}":    "OTHER",
		"https://h/{BLANK}":              "BLANK",
	} {
		r := registry(t, env, map[string]providers.Registration{"own": {API: "a", BaseURL: base}})
		r.RegisterProtocol("a", urlProtocol{})
		got := ""
		for e, err := range r.Stream(t.Context(), "own/m", providers.Request{}, providers.Options{}) {
			var missing *providers.VariableError
			var typed *providers.Error
			var model *providers.ModelError
			switch {
			case errors.As(err, &missing) && errors.As(err, &typed) && errors.As(err, &model):
				got = missing.Name
				if typed.Kind != providers.KindUnresolved || missing.BaseURL != base || model.Spec != "own/m" {
					t.Errorf("%s: got %v", base, err)
				}
			case err != nil:
				t.Errorf("%s: %v", base, err)
			}
			if text, ok := e.(providers.TextDelta); ok {
				got = text.Text
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", base, got, want)
		}
	}
}
