package googlegenerativeai_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// rsaKey is generated once for all tests.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// inPEM returns a key in PEM.
func inPEM(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// newTokenServer starts a token endpoint and returns its URL.
func newTokenServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL + "/token"
}

// write writes a credentials file and returns its name.
func write(t *testing.T, members map[string]string) string {
	t.Helper()
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func userFile(t *testing.T, tokenURI string) string {
	t.Helper()
	return write(t, map[string]string{
		"type": "authorized_user", "client_id": "id", "client_secret": "kept-secret", "refresh_token": "kept-refresh", "token_uri": tokenURI, "quota_project_id": "payer",
	})
}

func serviceFile(t *testing.T, tokenURI, key string) string {
	t.Helper()
	return write(t, map[string]string{
		"type": "service_account", "client_email": "a@proj.example", "private_key_id": "key-1", "private_key": key, "token_uri": tokenURI,
	})
}

// userTokens grants a token for the refresh token of userFile.
func userTokens(token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := url.Values{"grant_type": {"refresh_token"}, "client_id": {"id"}, "client_secret": {"kept-secret"}, "refresh_token": {"kept-refresh"}}
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || !cmp.Equal(want, r.PostForm) {
			http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, token)
	}
}

// call makes one call with the credentials of an environment and returns its authorization header.
func call(t *testing.T, values map[string]string) (string, *providers.Error) {
	t.Helper()
	values["GOOGLE_CLOUD_PROJECT"], values["GOOGLE_CLOUD_LOCATION"] = "proj", "global"
	var got request
	protocol, m := serve(t, googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: env(values)}), recorder(&got))
	_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, providertest.Ask("x"), providers.Options{}))
	if broken != nil {
		t.Fatal(broken)
	}
	return got.header["Authorization"], failure
}

// verify checks an assertion like a token endpoint and returns its claims.
func verify(assertion string, key *rsa.PublicKey) (head, claims map[string]any, err error) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return nil, nil, errors.New("want three segments")
	}
	for i, into := range []*map[string]any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return nil, nil, err
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return head, claims, rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
}

// TestServiceAccount verifies the assertion with the public key.
// covers: providers/135
func TestServiceAccount(t *testing.T) {
	key := rsaKey()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	for name, text := range map[string]string{
		"PKCS #8": inPEM(t, "PRIVATE KEY", pkcs8, err),
		"PKCS #1": inPEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), nil),
	} {
		t.Run(name, func(t *testing.T) {
			var head, claims map[string]any
			before := time.Now().Unix()
			uri := newTokenServer(t, func(w http.ResponseWriter, r *http.Request) {
				var err error
				if head, claims, err = verify(r.PostFormValue("assertion"), &key.PublicKey); err != nil || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
					t.Errorf("%v, %v", err, r.PostForm)
				}
				io.WriteString(w, `{"access_token":"granted","expires_in":3599}`)
			})
			got, failure := call(t, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceFile(t, uri, text)})
			if failure != nil || got != "Bearer granted" {
				t.Fatalf("authorized by %q, %v", got, failure)
			}
			if diff := cmp.Diff(map[string]any{"alg": "RS256", "typ": "JWT", "kid": "key-1"}, head); diff != "" {
				t.Errorf("head (-want +got):\n%s", diff)
			}
			issued, _ := claims["iat"].(float64)
			if int64(issued) < before || int64(issued) > time.Now().Unix() {
				t.Errorf("got issue time %v", claims["iat"])
			}
			want := map[string]any{
				"iss": "a@proj.example", "aud": uri, "scope": "https://www.googleapis.com/auth/cloud-platform", "iat": issued, "exp": issued + 3600,
			}
			if diff := cmp.Diff(want, claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTokenIsKept reuses a token for later calls, also with an excessive lifetime.
func TestTokenIsKept(t *testing.T) {
	for _, seconds := range []string{"3599", "999999999999999999"} {
		asked := 0
		file := userFile(t, newTokenServer(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			io.WriteString(w, `{"access_token":"granted","expires_in":`+seconds+`}`)
		}))
		values := map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file, "GOOGLE_CLOUD_PROJECT": "proj", "GOOGLE_CLOUD_LOCATION": "global"}
		var got request
		protocol, m := serve(t, googlegenerativeai.NewVertex(&googlegenerativeai.Options{Getenv: env(values)}), recorder(&got))
		for range 2 {
			if _, failure, broken := providertest.Collect(protocol.Stream(t.Context(), m, providertest.Ask("x"), providers.Options{})); failure != nil || broken != nil {
				t.Fatal(failure, broken)
			}
		}
		if asked != 1 || got.header["Authorization"] != "Bearer granted" {
			t.Errorf("%s: asked %d times, authorized by %q", seconds, asked, got.header["Authorization"])
		}
	}
}

// covers: providers/135
func TestMetadataServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		io.WriteString(w, `{"access_token":"machine","expires_in":300}`)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if got, failure := call(t, map[string]string{"GCE_METADATA_HOST": host, "HOME": t.TempDir()}); got != "Bearer machine" {
		t.Errorf("authorized by %q, %v", got, failure)
	}
	// A credentials file takes precedence, even if it is unusable.
	if got, failure := call(t, map[string]string{"GCE_METADATA_HOST": host, "GOOGLE_APPLICATION_CREDENTIALS": "none.json"}); failure == nil || failure.Kind != providers.KindAuth ||
		!errors.Is(failure, os.ErrNotExist) || !strings.Contains(failure.Error(), "none.json") {
		t.Errorf("authorized by %q, %v", got, failure)
	}
}

// TestUnusableCredentials: errors describe the problem without any content of the credentials.
// covers: providers/136
func TestUnusableCredentials(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(curve)
	elliptical := inPEM(t, "PRIVATE KEY", other, err)
	answers := func(status int, body string) string {
		return userFile(t, newTokenServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
	}
	elsewhere := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request) {
		t.Error("got a request to the endpoint of the file")
		io.WriteString(w, `{"access_token":"lent","expires_in":60}`)
	})
	sends := userFile(t, newTokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}))
	garbage := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(garbage, []byte("kept-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file    string
		kind    providers.ErrorKind
		message string
	}{
		"external":         {write(t, map[string]string{"type": "external_account", "client_secret": "kept-secret"}), providers.KindAuth, `"external_account": only service_account and authorized_user`},
		"impersonated":     {write(t, map[string]string{"type": "impersonated_service_account"}), providers.KindAuth, `"impersonated_service_account"`},
		"no type":          {write(t, nil), providers.KindAuth, `type ""`},
		"no JSON":          {garbage, providers.KindAuth, "is not credentials JSON"},
		"no PEM":           {serviceFile(t, "http://x.example", "kept-secret"), providers.KindAuth, "is not in PEM"},
		"no key":           {serviceFile(t, "http://x.example", inPEM(t, "PRIVATE KEY", []byte("kept-secret"), nil)), providers.KindAuth, "neither PKCS #8 nor PKCS #1"},
		"another key":      {serviceFile(t, "http://x.example", elliptical), providers.KindAuth, "is not an RSA key"},
		"no endpoint":      {userFile(t, ":"), providers.KindAuth, "token_uri"},
		"revoked":          {answers(400, `{"error":"invalid_grant","error_description":"of kept-refresh"}`), providers.KindAuth, "status 400"},
		"not its client":   {answers(401, `{"error":"invalid_client"}`), providers.KindAuth, "status 401"},
		"too often":        {answers(429, `{"error":"rate_limit"}`), providers.KindRateLimit, "status 429"},
		"sends elsewhere":  {sends, providers.KindAuth, "status 307"},
		"fails":            {answers(503, `kept-secret`), providers.KindOverloaded, "status 503"},
		"no token":         {answers(200, `{}`), providers.KindAuth, "response has no token"},
		"cannot be called": {userFile(t, "http://127.0.0.1:1"), providers.KindNetwork, "get access token"},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure := call(t, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": tt.file})
			if failure == nil || got != "" || failure.Kind != tt.kind || !strings.Contains(failure.Error(), tt.message) || failure.Provider != third.Provider {
				t.Fatalf("authorized by %q, %v", got, failure)
			}
			if text := failure.Error() + string(failure.Body); strings.Contains(text, "kept-") {
				t.Errorf("error contains a secret: %s", text)
			}
		})
	}
}
