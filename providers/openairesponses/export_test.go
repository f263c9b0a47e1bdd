package openairesponses

import "github.com/parleyrun/parley/providers"

// AzureEndpoint is where a model is reached whose registration has a base URL.
func AzureEndpoint(registered string, getenv func(string) string) (string, error) {
	m, err := azure{getenv}.locate(providers.Model{BaseURL: registered})
	return m.BaseURL, err
}
