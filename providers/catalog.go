package providers

import "cmp"

// Catalog describes providers that are known without registration, by provider id. NewRegistry reads
// ids and variables; a Registry reads the models of a provider on first use. Package providers/catalog
// contains a Catalog.
type Catalog map[string]CatalogProvider

type CatalogProvider struct {
	// EnvKeys are the environment variables that may hold the key; the first match wins.
	EnvKeys []EnvKey
	// EnvSets are alternatives to a key. Each is a set of variables that must be set together. A
	// protocol that is a CredentialFinder decides whether they suffice.
	EnvSets [][]string
	// AliasOf is the current id of a provider whose id was renamed, "" for none.
	AliasOf string
	// Models returns at least one model, always the same, in a fixed order. The first one supplies
	// protocol and endpoint of models that are not listed. It is called on first use of a model of the
	// provider, so a large catalog costs nothing until then. It is safe for concurrent use. A provider
	// with nil Models is unknown until it is registered.
	Models func() []CatalogModel
}

// EnvKey is an environment variable that may hold a key.
type EnvKey struct {
	Name string
	// Bearer marks a bearer token, see Options.Bearer.
	Bearer bool
}

// CatalogModel describes one model; the fields correspond to those of Model.
type CatalogModel struct {
	ID, API, BaseURL         string
	Headers                  map[string]string
	ContextWindow, MaxTokens int
	Reasoning                bool
	Thinking                 ThinkingMap
	Compat                   Compat
	// Input defaults to InputText only.
	Input       []string
	InputLimits InputLimits
	Cost        Cost
}

// InputLimits bounds the input that a vendor accepts; zero means unknown.
type InputLimits struct {
	// RequestBytes bounds the body of a request.
	RequestBytes int64 `json:"requestBytes,omitempty"`
	// Images bounds the images of a request, ImagesPerMessage those of a message.
	Images           int `json:"images,omitempty"`
	ImagesPerMessage int `json:"imagesPerMessage,omitempty"`
	// ImageBytes is the preferred size of an image in bytes of base64, ImageSide the preferred width
	// and height in pixels. Vendors accept more. Transform omits images beyond the vendor's maximum,
	// which is raised where these are larger.
	ImageBytes int64 `json:"imageBytes,omitempty"`
	ImageSide  int   `json:"imageSide,omitempty"`
}

// over returns l with zero fields taken from base.
func (l InputLimits) over(base InputLimits) InputLimits {
	return InputLimits{
		RequestBytes: cmp.Or(l.RequestBytes, base.RequestBytes), Images: cmp.Or(l.Images, base.Images), ImagesPerMessage: cmp.Or(l.ImagesPerMessage, base.ImagesPerMessage),
		ImageBytes: cmp.Or(l.ImageBytes, base.ImageBytes), ImageSide: cmp.Or(l.ImageSide, base.ImageSide),
	}
}
