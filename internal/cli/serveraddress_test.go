package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/catalog"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/openairesponses"
)

// lastHost records the host of the last request and rejects all but token requests.
type lastHost struct{ host string }

func (l *lastHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.host = r.URL.Host; strings.Contains(l.host, "metadata") {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Metadata-Flavor": {"Google"}}, Body: io.NopCloser(strings.NewReader(`{"access_token":"t","expires_in":3600}`))}, nil
	}
	return nil, errors.New("not sent")
}

// For a model of each format of each provider, the server that events report is the host that gets the
// request.
// covers: providers/59
func TestServerAddressIsCalled(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"https://api.openai.com/auth":{"chatgpt_account_id":"a"}}`))
	common := map[string]string{
		"HOME": t.TempDir(), "AZURE_OPENAI_RESOURCE_NAME": "own-resource", "CLOUDFLARE_ACCOUNT_ID": "a", "CLOUDFLARE_GATEWAY_ID": "g",
		"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west1",
	}
	for name, more := range map[string]map[string]string{
		"keys":              {"": "key"},
		"keys, elsewhere":   {"": "key", "AWS_REGION": "cn-north-1", "AZURE_OPENAI_BASE_URL": "https://llm.example:8443/openai", "GOOGLE_CLOUD_LOCATION": "global"},
		"no key":            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_USE_FIPS_ENDPOINT": "true"},
		"no key, elsewhere": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "GOOGLE_CLOUD_LOCATION": "eu"},
		"words for a key":   {"": "<authenticated>", "GOOGLE_CLOUD_LOCATION": "us"},
	} {
		t.Run(name, func(t *testing.T) {
			env := func(variable string) string {
				if v, ok := more[variable]; ok {
					return v
				}
				if strings.HasSuffix(variable, "_KEY") || strings.HasSuffix(variable, "_TOKEN") || variable == "AWS_BEARER_TOKEN_BEDROCK" {
					return more[""]
				}
				return common[variable]
			}
			seen := &lastHost{}
			client := &http.Client{Transport: seen}
			reg := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin(), Getenv: env})
			openaicompletions.Register(reg, &openaicompletions.Options{Client: client})
			anthropicmessages.Register(reg, &anthropicmessages.Options{Client: client})
			openairesponses.Register(reg, &openairesponses.Options{Client: client, Getenv: env})
			googlegenerativeai.Register(reg, &googlegenerativeai.Options{Client: client, Getenv: env})
			mistralconversations.Register(reg, &mistralconversations.Options{Client: client})
			bedrockconverse.Register(reg, &bedrockconverse.Options{Client: client, Getenv: env})
			if err := reg.RegisterProvider("openai-codex", providers.Registration{APIKey: "e." + claims + ".s"}); err != nil {
				t.Fatal(err)
			}
			called, done := 0, map[string]bool{}
			for _, m := range reg.Models() {
				if kind := m.Provider + " " + m.API + " " + m.BaseURL; done[kind] {
					continue
				} else {
					done[kind] = true
				}
				seen.host = ""
				var failure error
				for _, err := range reg.Stream(t.Context(), m.Spec(), providers.Request{Messages: []providers.Message{
					{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "x"}}},
				}}, providers.Options{}) {
					failure = err
				}
				server := m.Telemetry.ServerAddress
				if m.Telemetry.ServerPort != 0 {
					server = fmt.Sprintf("%s:%d", server, m.Telemetry.ServerPort)
				}
				if seen.host != "" {
					called++
				}
				if server != seen.host {
					t.Errorf("%s: events report the server %q, the request went to %q (%v)", m.Spec(), server, seen.host, failure)
				}
			}
			// One provider has no default base URL, so its models cannot be called.
			if called != len(done)-1 {
				t.Errorf("%d of %d kinds of models were called, want all but 1", called, len(done))
			}
		})
	}
}
