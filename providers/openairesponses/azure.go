package openairesponses

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// Environment variables of APIAzure. A registered base URL overrides the first two.
const (
	envAzureBase        = "AZURE_OPENAI_BASE_URL"
	envAzureResource    = "AZURE_OPENAI_RESOURCE_NAME"
	envAzureVersion     = "AZURE_OPENAI_API_VERSION"         // api-version query parameter, default "v1"
	envAzureDeployments = "AZURE_OPENAI_DEPLOYMENT_NAME_MAP" // model=deployment,model2=deployment2
)

// ErrNoAzureEndpoint reports that no endpoint of an Azure resource is configured.
var ErrNoAzureEndpoint = errors.New("no endpoint: set " + envAzureBase + " or " + envAzureResource + ", or register a baseUrl")

// NewAzure returns the protocol of APIAzure over HTTP. Its Close closes idle connections.
func NewAzure(o *Options) providers.Protocol {
	a := azure{o.orDefault().Getenv}
	return &located{newHTTP(codec{variant: a, maxEventBytes: o.orDefault().MaxEventBytes}, o), a.locate}
}

// azure is the variant of APIAzure.
type azure struct{ getenv func(string) string }

// locate returns the model with its endpoint.
func (a azure) locate(m providers.Model) (providers.Model, error) {
	switch resource := a.env(envAzureResource); {
	case m.BaseURL != "":
	case a.env(envAzureBase) != "":
		m.BaseURL = a.env(envAzureBase)
	case resource != "":
		m.BaseURL = "https://" + resource + ".openai.azure.com/openai/v1"
	default:
		return m, ErrNoAzureEndpoint
	}
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return m, fmt.Errorf("parse endpoint: %w", err)
	}
	for _, domain := range []string{"openai.azure.com", "cognitiveservices.azure.com", "ai.azure.com"} {
		if !providers.OnHost(m, domain) {
			continue
		}
		switch strings.TrimRight(u.Path, "/") {
		case "", "/openai", "/openai/v1", "/openai/v1/responses":
			u.Path, u.RawQuery = "/openai/v1", ""
			m.BaseURL, m.Query = u.String(), "" // a version of another API
		}
	}
	return m, nil
}

func (a azure) env(name string) string { return strings.TrimSpace(a.getenv(name)) }

func (a azure) address(m providers.Model, o providers.Options, h http.Header) (string, error) {
	switch {
	case o.Bearer:
		providers.SetBearer(h, m, o.APIKey)
	case o.APIKey != "":
		h.Set("Api-Key", o.APIKey)
	}
	version := a.env(envAzureVersion)
	if version == "" {
		version = "v1"
	}
	return "/responses?api-version=" + url.QueryEscape(version), nil
}

func (a azure) finish(b *body, m providers.Model, req providers.Request, o providers.Options) {
	openAI{}.finish(b, m, req, o)
	b.Model, b.PromptCacheKept = a.deployment(m.ID), "" // OpenAI only
}

// deployment returns the deployment name of a model.
func (a azure) deployment(model string) string {
	for pair := range strings.SplitSeq(a.env(envAzureDeployments), ",") {
		name, deployment, ok := strings.Cut(pair, "=")
		if deployment = strings.TrimSpace(deployment); ok && strings.TrimSpace(name) == model && deployment != "" {
			return deployment
		}
	}
	return model
}
