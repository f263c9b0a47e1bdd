package providers

import (
	"net/url"
	"strconv"
)

// Telemetry identifies a provider in observability events. In a Registration it overrides; in a Model
// it is complete.
type Telemetry struct {
	// ProviderName defaults to the conventional name of the provider id.
	ProviderName string `json:"providerName,omitempty"`
	// ServerAddress and ServerPort default to the called server: that of the base URL, or of Locator's
	// result. The port is 0 unless the URL names a port other than the default of its scheme.
	ServerAddress string `json:"serverAddress,omitempty"`
	ServerPort    int    `json:"serverPort,omitempty"`
}

// Locator is a Protocol that computes the base URL of its calls from that of the model, the
// environment and the credentials.
type Locator interface {
	Protocol
	// Locate returns the base URL of a call of m with the credentials of o. It makes no network calls.
	// m.BaseURL contains no environment variables.
	Locate(m Model, o Options) (string, error)
}

// telemetry identifies the server that a call of m currently reaches.
func (r *Registry) telemetry(m Model, entry registered) Telemetry {
	if base, err := r.Endpoint(m); err == nil {
		m.BaseURL = base
	}
	if l, ok := r.protocolOf(entry, m.API).(Locator); ok {
		key := r.credentials(m.Provider, entry.reg)
		// If the address is unknown, the call reports the reason.
		if base, err := l.Locate(m, Options{APIKey: key.value, Bearer: key.bearer}); err == nil {
			m.BaseURL = base
		}
	}
	return resolveTelemetry(entry.reg.Telemetry, m.Provider, m.BaseURL)
}

func resolveTelemetry(override Telemetry, provider, baseURL string) Telemetry {
	t := override
	if t.ProviderName == "" {
		t.ProviderName = providerName(provider)
	}
	address, port := serverOf(baseURL)
	if t.ServerAddress == "" {
		t.ServerAddress = address
	}
	if t.ServerPort == 0 {
		t.ServerPort = port
	}
	return t
}

// providerName maps exact ids only, because a gateway to a vendor is not the vendor.
func providerName(provider string) string {
	switch provider {
	case "amazon-bedrock":
		return "aws.bedrock"
	case "azure", "azure-openai-responses":
		return "azure.ai.openai"
	case "google":
		return "gcp.gemini"
	case "google-vertex":
		return "gcp.vertex_ai"
	case "mistral":
		return "mistral_ai"
	case "moonshotai", "moonshotai-cn":
		return "moonshot_ai"
	case "xai":
		return "x_ai"
	}
	return provider
}

func serverOf(baseURL string) (address string, port int) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return "", 0
	}
	// Atoi fails on an absent port and leaves 0, as intended.
	port, _ = strconv.Atoi(u.Port())
	if u.Scheme == "https" && port == 443 || u.Scheme == "http" && port == 80 {
		port = 0
	}
	return u.Hostname(), port
}
