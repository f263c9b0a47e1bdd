package providers

import "cmp"

// Catalog is what is known about providers without any registration, by
// provider id. It is data: a Registry reads the ids and variables in NewRegistry, and the
// models of a provider when one of them is asked for. Package catalog beside this one has
// one.
type Catalog map[string]CatalogProvider

// CatalogProvider describes one provider.
type CatalogProvider struct {
	// EnvKeys are the environment variables that may hold its key, first match wins.
	EnvKeys []EnvKey
	// EnvSets are what people may set in place of a key, any one of them as a whole. Whether
	// something is there, the protocol says, which is a CredentialFinder.
	EnvSets [][]string
	// AliasOf is the id that this one is an older name of, "" for none.
	AliasOf string
	// Models returns at least one model, in a fixed order: the first one supplies
	// protocol and endpoint of models that are not listed. It is called when a model of
	// the provider is asked for, and only then, so that a large catalog costs nothing
	// until it is needed; it returns the same each time, and is safe for concurrent use. A
	// provider whose Models is nil counts as unknown until it is registered.
	Models func() []CatalogModel
}

// EnvKey is an environment variable that may hold a key.
type EnvKey struct {
	Name string
	// Bearer tells that it is a bearer token, see Options.Bearer.
	Bearer bool
}

// CatalogModel describes one model; the fields mean what they mean in Model.
type CatalogModel struct {
	ID, API, BaseURL         string
	Headers                  map[string]string
	ContextWindow, MaxTokens int
	Reasoning                bool
	Thinking                 ThinkingMap
	Compat                   Compat
	// Input defaults to InputText alone.
	Input       []string
	InputLimits InputLimits
	Cost        Cost
}

// InputLimits bound what a vendor takes; zero fields are not known.
type InputLimits struct {
	// RequestBytes bounds the body of a request.
	RequestBytes int64 `json:"requestBytes,omitempty"`
	// Images bounds the images of a request, ImagesPerMessage those of a message.
	Images           int `json:"images,omitempty"`
	ImagesPerMessage int `json:"imagesPerMessage,omitempty"`
	// ImageBytes is what an image is best sent with, in bytes of base64, ImageSide its
	// width and its height in pixels. Vendors take more: see Transform for what is left
	// out, which is more where these say so.
	ImageBytes int64 `json:"imageBytes,omitempty"`
	ImageSide  int   `json:"imageSide,omitempty"`
}

// over returns l with the fields of base where its own are zero.
func (l InputLimits) over(base InputLimits) InputLimits {
	return InputLimits{
		RequestBytes: cmp.Or(l.RequestBytes, base.RequestBytes), Images: cmp.Or(l.Images, base.Images), ImagesPerMessage: cmp.Or(l.ImagesPerMessage, base.ImagesPerMessage),
		ImageBytes: cmp.Or(l.ImageBytes, base.ImageBytes), ImageSide: cmp.Or(l.ImageSide, base.ImageSide),
	}
}
