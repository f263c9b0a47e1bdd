package providers

import (
	"net/url"
	"strconv"
)

// Telemetry is how observability events identify a provider. In a Registration
// it overrides; in a Model it is complete.
type Telemetry struct {
	// ProviderName defaults to the conventional name of the provider id.
	ProviderName string `json:"providerName,omitempty"`
	// ServerAddress and ServerPort default to those of the base URL. The port
	// is 0 unless the URL names one other than its scheme's own.
	ServerAddress string `json:"serverAddress,omitempty"`
	ServerPort    int    `json:"serverPort,omitempty"`
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

// providerName maps exact ids only: a gateway to a vendor is not the vendor.
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
	// Atoi fails on an absent port and leaves 0, which means just that.
	port, _ = strconv.Atoi(u.Port())
	if u.Scheme == "https" && port == 443 || u.Scheme == "http" && port == 80 {
		port = 0
	}
	return u.Hostname(), port
}
