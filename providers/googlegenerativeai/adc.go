package googlegenerativeai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
)

// Environment variables of application default credentials.
const (
	envCredentials = "GOOGLE_APPLICATION_CREDENTIALS" // path of a file
	envConfig      = "CLOUDSDK_CONFIG"                // directory of the gcloud tool
	envMetadata    = "GCE_METADATA_HOST"
)

const (
	tokenURI     = "https://oauth2.googleapis.com/token"
	metadataHost = "metadata.google.internal"
	metadataPath = "/computeMetadata/v1/instance/service-accounts/default/token"
	scope        = "https://www.googleapis.com/auth/cloud-platform"
)

// maxCredentials bounds a credentials file and a token response, in bytes.
const maxCredentials = 1 << 20

// Reasons why a call has no token, apart from server errors.
var (
	ErrNoCredentials = errors.New("no credentials: set " + envKey + ", name a file by " + envCredentials +
		", run gcloud auth application-default login, or run where there is a metadata server")
	ErrCredentialType = errors.New("only service_account and authorized_user are supported, and the metadata server: " +
		"use one of them, or an API key as " + envKey)
)

// credentials finds application default credentials anew for each token.
type credentials struct {
	getenv func(string) string
	client *http.Client
}

func newCredentials(getenv func(string) string, client *http.Client) *credentials {
	if client == nil {
		client = &http.Client{
			Transport: &http.Transport{
				Proxy: func(r *http.Request) (*url.URL, error) {
					if r.Header.Get(metadataFlavor) != "" {
						return nil, nil // the metadata server is local
					}
					return http.ProxyFromEnvironment(r)
				},
				ForceAttemptHTTP2: true,
				// One request per hour does not need keep-alive.
				DisableKeepAlives: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &credentials{getenv: getenv, client: client}
}

func (c *credentials) env(name string) string { return strings.TrimSpace(c.getenv(name)) }

// gcloudFile returns the path of the gcloud tool's user credentials.
func (c *credentials) gcloudFile() string {
	folder := c.env(envConfig)
	switch {
	case folder != "":
	case runtime.GOOS == "windows":
		folder = filepath.Join(c.env("APPDATA"), "gcloud")
	default:
		folder = filepath.Join(c.env("HOME"), ".config", "gcloud")
	}
	return filepath.Join(folder, "application_default_credentials.json")
}

// found returns the source of credentials for the next token.
func (c *credentials) found() string {
	if c.env(envCredentials) != "" {
		return envCredentials
	}
	if _, err := os.Stat(c.gcloudFile()); err == nil {
		return "gcloud application-default login"
	}
	return "metadata server"
}

// token requests an access token. Its errors are *providers.Error, or describe the credentials.
func (c *credentials) token(ctx context.Context) (token, error) {
	file := c.env(envCredentials)
	if file == "" {
		file = c.gcloudFile()
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return c.metadata(ctx)
		}
	}
	f, err := readCredentials(file)
	if err != nil {
		return token{}, err
	}
	form := url.Values{}
	switch f.Type {
	case "service_account":
		assertion, err := f.assertion(time.Now())
		if err != nil {
			return token{}, fmt.Errorf("sign with the key in %s: %w", file, err)
		}
		form.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		form.Set("assertion", assertion)
	case "authorized_user":
		form.Set("grant_type", "refresh_token")
		form.Set("client_id", f.ClientID)
		form.Set("client_secret", f.ClientSecret)
		form.Set("refresh_token", f.RefreshToken)
	default:
		return token{}, fmt.Errorf("credentials in %s have type %q: %w", file, providers.VendorWord(f.Type), ErrCredentialType)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.TokenURI, strings.NewReader(form.Encode()))
	if err != nil {
		return token{}, fmt.Errorf("token_uri in %s: %w", file, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	t, err := c.exchange(r)
	t.quotaProject = f.QuotaProject
	return t, providers.HideInError(err, []string{f.ClientSecret, f.RefreshToken, form.Get("assertion")})
}

const metadataFlavor = "Metadata-Flavor"

// metadata requests a token from the instance's metadata server.
func (c *credentials) metadata(ctx context.Context) (token, error) {
	host := c.env(envMetadata)
	if host == "" {
		host = metadataHost
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+metadataPath, nil)
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", envMetadata, err)
	}
	r.Header.Set(metadataFlavor, "Google")
	t, err := c.exchange(r)
	var unknown *net.DNSError
	if errors.As(err, &unknown) && unknown.IsNotFound {
		return token{}, fmt.Errorf("%w (%w)", ErrNoCredentials, unknown)
	}
	return t, err
}

// exchange makes a token request. Rejected credentials are KindAuth; temporary errors have another
// kind.
func (c *credentials) exchange(r *http.Request) (token, error) {
	asked := time.Now()
	resp, err := c.client.Do(r)
	if err != nil {
		return token{}, &providers.Error{Kind: providers.KindNetwork, Err: fmt.Errorf("get access token: %w", err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCredentials))
	if err != nil {
		return token{}, &providers.Error{Kind: providers.KindNetwork, Err: fmt.Errorf("get access token: %w", err)}
	}
	if resp.StatusCode != http.StatusOK {
		e := providers.ResponseError(resp.StatusCode, resp.Header, body)
		if !e.Retryable() {
			e.Kind = providers.KindAuth
		}
		return token{}, e
	}
	var granted struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &granted); err != nil || granted.Token == "" {
		return token{}, &providers.Error{Kind: providers.KindAuth, Status: resp.StatusCode, Err: errors.New("get access token: response has no token")}
	}
	return token{value: granted.Token, expires: asked.Add(time.Duration(min(granted.Seconds, maxTokenSeconds)) * time.Second)}, nil
}

// maxTokenSeconds prevents overflow on an excessive token lifetime.
const maxTokenSeconds = 24 * 60 * 60

// credentialFile is a file of application default credentials.
type credentialFile struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`
	QuotaProject string `json:"quota_project_id"`
}

// readCredentials reads a file. Errors contain no part of it.
func readCredentials(name string) (*credentialFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCredentials))
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	f := &credentialFile{TokenURI: tokenURI}
	if json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), f) != nil {
		return nil, fmt.Errorf("read credentials: %s is not credentials JSON", name)
	}
	if f.TokenURI == "" {
		f.TokenURI = tokenURI
	}
	return f, nil
}
