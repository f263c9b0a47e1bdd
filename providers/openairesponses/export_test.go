package openairesponses

import "github.com/parleyrun/parley/providers"

// AzureEndpoint returns the endpoint of a model with a registered base URL.
func AzureEndpoint(registered string, getenv func(string) string) (string, error) {
	m, err := azure{getenv}.locate(providers.Model{BaseURL: registered})
	return m.BaseURL, err
}
