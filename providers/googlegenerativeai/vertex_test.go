package googlegenerativeai_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

const catalogBase = "https://{location}-aiplatform.googleapis.com"

// covers: providers/133
func TestVertexAddresses(t *testing.T) {
	const rest = ":streamGenerateContent?alt=sse"
	with := func(location string) map[string]string {
		return map[string]string{"GOOGLE_CLOUD_PROJECT": "proj", "GOOGLE_CLOUD_LOCATION": location}
	}
	key, token := providers.Options{APIKey: "key"}, providers.Options{}
	const model = "/publishers/google/models/gemini-3-pro"
	for _, tt := range []struct {
		name, base, id string
		env            map[string]string
		o              providers.Options
		want           string
		err            error
	}{
		{"a region", catalogBase, "gemini-3-pro", with("us-east5"), token,
			"https://us-east5-aiplatform.googleapis.com/v1/projects/proj/locations/us-east5" + model, nil},
		{"no base", "", "gemini-3-pro", with("us-east5"), token, "https://us-east5-aiplatform.googleapis.com/v1/projects/proj/locations/us-east5" + model, nil},
		{"global", catalogBase, "gemini-3-pro", with("global"), token, "https://aiplatform.googleapis.com/v1/projects/proj/locations/global" + model, nil},
		{"several regions", catalogBase, "gemini-3-pro", with("eu"), token, "https://aiplatform.eu.rep.googleapis.com/v1/projects/proj/locations/eu" + model, nil},
		{"key", catalogBase, "gemini-3-pro", with("us-east5"), key, "https://aiplatform.googleapis.com/v1" + model, nil},
		{"key beside an odd location", catalogBase, "gemini-3-pro", with("evil.example/"), key, "https://aiplatform.googleapis.com/v1" + model, nil},
		{"key alone", catalogBase, "gemini-3-pro", nil, key, "https://aiplatform.googleapis.com/v1" + model, nil},
		{"a token for a key", catalogBase, "gemini-3-pro", with("us"), providers.Options{APIKey: "t", Bearer: true},
			"https://aiplatform.us.rep.googleapis.com/v1/projects/proj/locations/us" + model, nil},
		{"the older variable", catalogBase, "gemini-3-pro", map[string]string{"GCLOUD_PROJECT": " old:proj ", "GOOGLE_CLOUD_LOCATION": "global"}, token,
			"https://aiplatform.googleapis.com/v1/projects/old:proj/locations/global" + model, nil},
		{"a publisher", catalogBase, "meta/llama 4", with("global"), token,
			"https://aiplatform.googleapis.com/v1/projects/proj/locations/global/publishers/meta/models/llama%204", nil},
		{"a publisher's resource", catalogBase, "publishers/x/models/m", nil, key, "https://aiplatform.googleapis.com/v1/publishers/x/models/m", nil},
		{"a whole resource", catalogBase, "projects/p/locations/l/endpoints/7", map[string]string{"GOOGLE_CLOUD_LOCATION": "us-east5"}, token,
			"https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/7", nil},
		{"one's own server", "https://own.example/proxy/", "gemini-3-pro", with("us-east5"), token,
			"https://own.example/proxy/v1/projects/proj/locations/us-east5" + model, nil},
		{"one's own version", "https://own.example/v1beta1", "gemini-3-pro", nil, key, "https://own.example/v1beta1" + model, nil},
		{"one's own place for the location", "https://{location}.own.example/v1", "gemini-3-pro", with("us-east5"), token,
			"https://us-east5.own.example/v1/projects/proj/locations/us-east5" + model, nil},
		{"a whole resource of one's own server", "https://own.example", "projects/p/locations/l/endpoints/7", nil, token,
			"https://own.example/v1/projects/p/locations/l/endpoints/7", nil},
		{"no project", catalogBase, "gemini-3-pro", map[string]string{"GOOGLE_CLOUD_LOCATION": "global"}, token, "", googlegenerativeai.ErrNoProject},
		{"no location", catalogBase, "gemini-3-pro", map[string]string{"GOOGLE_CLOUD_PROJECT": "proj"}, token, "", googlegenerativeai.ErrNoLocation},
		{"neither", catalogBase, "gemini-3-pro", nil, token, "", googlegenerativeai.ErrNoProject},
		{"neither, the other", catalogBase, "gemini-3-pro", nil, token, "", googlegenerativeai.ErrNoLocation},
		{"no location for one's own place", "https://{location}.own.example", "gemini-3-pro", nil, key, "", googlegenerativeai.ErrNoLocation},
		{"no location for the host", catalogBase, "projects/p/locations/l/endpoints/7", nil, token, "", googlegenerativeai.ErrNoLocation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := googlegenerativeai.VertexURL(providers.Model{ID: tt.id, BaseURL: tt.base}, tt.o, env(tt.env))
			if !errors.Is(err, tt.err) || err == nil && got != tt.want+rest {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	if _, err := googlegenerativeai.VertexURL(providers.Model{ID: "m", BaseURL: catalogBase}, token, env(with("evil.example/"))); err == nil {
		t.Error("location with a host: got no error")
	}
}

// TestVertexOnTheWire covers placeholder keys, and headers that contain a key.
// covers: providers/16, providers/125, providers/134, providers/135
func TestVertexOnTheWire(t *testing.T) {
	variables := map[string]string{"GOOGLE_CLOUD_PROJECT": "proj", "GOOGLE_CLOUD_LOCATION": "global"}
	const model, rest = "/publishers/google/models/gemini-3-pro", ":streamGenerateContent?alt=sse"
	for name, tt := range map[string]struct {
		key     string
		headers map[string]string
		path    string
		want    map[string]string
	}{
		"key":      {"secret", nil, "/v1beta" + model + rest, map[string]string{"X-Goog-Api-Key": "secret"}},
		"no key":   {"", nil, "/v1beta/projects/proj/locations/global" + model + rest, map[string]string{"Authorization": "Bearer granted", "X-Goog-User-Project": "payer"}},
		"blank":    {" ", nil, "/v1beta/projects/proj/locations/global" + model + rest, map[string]string{"Authorization": "Bearer granted", "X-Goog-User-Project": "payer"}},
		"marker":   {"gcp-vertex-credentials", nil, "/v1beta/projects/proj/locations/global" + model + rest, map[string]string{"Authorization": "Bearer granted", "X-Goog-User-Project": "payer"}},
		"brackets": {"<authenticated>", nil, "/v1beta/projects/proj/locations/global" + model + rest, map[string]string{"Authorization": "Bearer granted", "X-Goog-User-Project": "payer"}},
		"header": {"", map[string]string{"Authorization": "Bearer own"}, "/v1beta/projects/proj/locations/global" + model + rest,
			map[string]string{"Authorization": "Bearer own"}},
		"key in a header": {"", map[string]string{"X-Goog-Api-Key": "own"}, "/v1beta/projects/proj/locations/global" + model + rest,
			map[string]string{"X-Goog-Api-Key": "own"}},
		"who pays": {"", map[string]string{"X-Goog-User-Project": "other"}, "/v1beta/projects/proj/locations/global" + model + rest,
			map[string]string{"Authorization": "Bearer granted", "X-Goog-User-Project": "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got request
			values := map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": userFile(t, newTokenServer(t, userTokens("granted")))}
			for k, v := range variables {
				values[k] = v
			}
			protocol, m := serve(t, googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: env(values)}), recorder(&got))
			m.Headers = tt.headers
			_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, providertest.Ask("x"), providers.Options{APIKey: tt.key}))
			if failure != nil || broken != nil {
				t.Fatal(failure, broken)
			}
			if diff := cmp.Diff(request{tt.path, tt.want}, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/133
func TestVertexNeedsAnAddress(t *testing.T) {
	protocol := googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: env(nil)})
	_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), providers.Model{Provider: "v", ID: "m"}, providertest.Ask("x"), providers.Options{}))
	if broken != nil || failure == nil || failure.Kind != providers.KindUnresolved || failure.Provider != "v" || !errors.Is(failure, googlegenerativeai.ErrNoLocation) {
		t.Errorf("got %v, %v", failure, broken)
	}
}

// TestVertexCredentials checks the sources that "parley models" prints, without network access.
// covers: providers/138
func TestVertexCredentials(t *testing.T) {
	home := t.TempDir()
	there := filepath.Join(home, ".config", "gcloud", "application_default_credentials.json")
	if err := os.MkdirAll(filepath.Dir(there), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		id, want string
		env      map[string]string
	}{
		"nothing":     {"m", "", map[string]string{"HOME": home}},
		"no location": {"m", "", map[string]string{"HOME": home, "GOOGLE_CLOUD_PROJECT": "p"}},
		"no project":  {"m", "", map[string]string{"HOME": home, "GOOGLE_CLOUD_LOCATION": "l"}},
		"a resource":  {"projects/p/m", "gcloud application-default login", map[string]string{"HOME": home, "GOOGLE_CLOUD_LOCATION": "l"}},
		"a file": {"m", "GOOGLE_APPLICATION_CREDENTIALS",
			map[string]string{"HOME": home, "GCLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_APPLICATION_CREDENTIALS": "f"}},
		"gcloud": {"m", "gcloud application-default login", map[string]string{"HOME": home, "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}},
		"gcloud's own folder": {"m", "gcloud application-default login",
			map[string]string{"CLOUDSDK_CONFIG": filepath.Dir(there), "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}},
		"a machine of the vendor": {"m", "metadata server", map[string]string{"HOME": t.TempDir(), "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}},
	} {
		protocol := googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: env(tt.env)})
		if got := protocol.(providers.CredentialFinder).FindCredentials(providers.Model{ID: tt.id, BaseURL: catalogBase}); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
