package googlegenerativeai

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// Environment variables of APIVertex, apart from its credentials. The first project that is set is
// used.
const (
	envProject    = "GOOGLE_CLOUD_PROJECT"
	envOldProject = "GCLOUD_PROJECT"
	envLocation   = "GOOGLE_CLOUD_LOCATION"
	envKey        = "GOOGLE_CLOUD_API_KEY"
)

// Reasons why a call without an API key has no address.
var (
	ErrNoProject  = errors.New("no project: set " + envProject + " or " + envOldProject + ", or an API key as " + envKey)
	ErrNoLocation = errors.New("no location: set " + envLocation + ", to global for example, or an API key as " + envKey)
)

const (
	locationName = "{location}"
	catalogHost  = locationName + "-aiplatform.googleapis.com"
	globalHost   = "aiplatform.googleapis.com"
	global       = "global"
)

// NewVertex returns the protocol of APIVertex over HTTP. A call without an API key is authorized by an
// access token of the application default credentials. Close drops the token and closes idle
// connections.
func NewVertex(o *Options) providers.Protocol {
	options := o.orDefault()
	adc := newCredentials(options.Getenv, options.Client)
	v := &vertex{getenv: options.Getenv, tokens: &tokenSource{fetch: adc.token}, found: adc.found}
	v.HTTP = providers.NewHTTP(codec{resource: vertexResource, maxEventBytes: options.MaxEventBytes},
		&providers.HTTPOptions{Client: options.Client, Authorize: v.authorize, FindCredentials: v.find})
	return v
}

var _ providers.KeyChecker = (*vertex)(nil)

// vertex completes the address of a call and authorizes it.
type vertex struct {
	*providers.HTTP
	getenv func(string) string
	tokens *tokenSource
	found  func() string
}

// Close implements io.Closer.
func (v *vertex) Close() error {
	v.tokens.close()
	return v.HTTP.Close()
}

// Stream implements providers.Protocol.
func (v *vertex) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		if !v.IsKey(o.APIKey) {
			o.APIKey = ""
		}
		at, err := v.locate(m, o)
		if err != nil {
			yield(nil, &providers.Error{Kind: providers.KindUnresolved, Provider: m.Provider, Err: err})
			return
		}
		v.HTTP.Stream(ctx, at, req, o)(yield)
	}
}

// Locate implements providers.Locator.
func (v *vertex) Locate(m providers.Model, o providers.Options) (string, error) {
	at, err := v.locate(m, o)
	return at.BaseURL, err
}

// find returns the source of the next token, if the model can be called with one.
func (v *vertex) find(m providers.Model) string {
	if _, err := v.locate(m, providers.Options{}); err != nil {
		return ""
	}
	return v.found()
}

// IsKey implements providers.KeyChecker.
func (*vertex) IsKey(key string) bool {
	key = strings.TrimSpace(key)
	return key != "" && key != "gcp-vertex-credentials" && !(strings.HasPrefix(key, "<") && strings.HasSuffix(key, ">"))
}

var (
	versioned = regexp.MustCompile(`/v\d+[a-z0-9]*$`)
	// A location is part of a host name.
	locations = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// locate returns the model with its base URL. A base URL without a placeholder for the location is
// used unchanged.
func (v *vertex) locate(m providers.Model, o providers.Options) (providers.Model, error) {
	base, location := strings.TrimRight(m.BaseURL, "/"), v.env(envLocation)
	if base == "" {
		base = "https://" + catalogHost
	}
	// A call with a key has neither project nor location, because the key implies them.
	byKey := v.IsKey(o.APIKey) && !o.Bearer
	if byKey {
		base = strings.Replace(base, catalogHost, globalHost, 1)
	}
	whole := byKey || strings.HasPrefix(m.ID, "projects/")
	if err := v.missing(!whole, !whole || strings.Contains(base, locationName)); err != nil {
		return m, err
	}
	base = strings.Replace(base, catalogHost, hostOf(location), 1)
	if !versioned.MatchString(base) {
		base += "/v1"
	}
	if !whole {
		base += "/projects/" + url.PathEscape(v.project()) + "/locations/" + location
	}
	m.BaseURL = strings.ReplaceAll(base, locationName, location)
	return m, nil
}

// missing returns the error for missing environment variables.
func (v *vertex) missing(project, location bool) error {
	place := v.env(envLocation)
	noProject, noLocation := project && v.project() == "", location && place == ""
	switch {
	case noProject && noLocation:
		return fmt.Errorf("%w; %w", ErrNoProject, ErrNoLocation)
	case noProject:
		return ErrNoProject
	case noLocation:
		return ErrNoLocation
	case location && !locations.MatchString(place):
		return fmt.Errorf("%s=%q is not a location", envLocation, place)
	}
	return nil
}

// hostOf returns the vendor's host for a location, which may be a multi-region.
func hostOf(location string) string {
	switch location {
	case global:
		return globalHost
	case "us", "eu":
		return "aiplatform." + location + ".rep.googleapis.com"
	}
	return strings.Replace(catalogHost, locationName, location, 1)
}

func (v *vertex) env(name string) string { return strings.TrimSpace(v.getenv(name)) }

func (v *vertex) project() string {
	if p := v.env(envProject); p != "" {
		return p
	}
	return v.env(envOldProject)
}

// vertexResource returns the resource of a model: of the vendor, of another publisher, or a full
// resource name.
func vertexResource(id string) string {
	if strings.HasPrefix(id, "projects/") || strings.HasPrefix(id, "publishers/") {
		return escaped(id)
	}
	publisher, model, ok := strings.Cut(id, "/")
	if !ok {
		publisher, model = "google", id
	}
	return "publishers/" + url.PathEscape(publisher) + "/models/" + url.PathEscape(model)
}

// authorize sets an access token for a call without a key. Configured authorization headers count as a
// key.
func (v *vertex) authorize(ctx context.Context, r *http.Request, _ providers.Model, o providers.Options) error {
	if o.APIKey != "" || r.Header.Get("Authorization") != "" || r.Header.Get(keyHeader) != "" {
		return nil
	}
	t, err := v.tokens.get(ctx)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+t.value)
	if t.quotaProject != "" && r.Header.Get("X-Goog-User-Project") == "" {
		r.Header.Set("X-Goog-User-Project", t.quotaProject)
	}
	return nil
}
