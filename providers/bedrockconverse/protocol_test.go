package bedrockconverse_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
	"github.com/parleyrun/parley/providers/providertest"
)

func TestCodecConformance(t *testing.T) {
	body, complete := recording()
	providertest.RunCodec(t, providertest.Recording{Codec: newCodec(), Framing: framing{}, Body: []byte(body), Complete: complete})
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		protocol, model := serve(t, nil, answerByText)
		return providertest.Asking(protocol, model)
	})
}

// TestConformanceSigned runs the suite with signed requests, whose bodies are read twice.
func TestConformanceSigned(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		protocol, model := serve(t, keys, answerByText)
		return providertest.Asking(keyless{protocol}, model)
	})
}

// keys is an environment with keys.
var keys = map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a secret of the test", "AWS_REGION": "eu-west-3"}

// keyless calls without the key of the suite.
type keyless struct{ *providers.HTTP }

// Stream implements providers.Protocol.
func (k keyless) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	o.APIKey = ""
	return k.HTTP.Stream(ctx, m, req, o)
}

// serve starts a vendor and returns a protocol with an environment, and a model that reaches the
// vendor.
func serve(t *testing.T, env map[string]string, h http.HandlerFunc) (*providers.HTTP, providers.Model) {
	t.Helper()
	protocol := bedrockconverse.New(&bedrockconverse.Options{Getenv: environment(env)})
	return protocol, providers.Model{
		Provider: "vendor", ID: sonnet, API: bedrockconverse.API, BaseURL: providertest.Serve(t, protocol, h) + "/",
		Reasoning: true, Input: []string{providers.InputText, providers.InputImage},
	}
}

// answerByText answers according to the last user message.
func answerByText(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []struct {
			Content []struct{ Text string } `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	asked := ""
	for _, b := range body.Messages[len(body.Messages)-1].Content {
		if b.Text != "" {
			asked = b.Text
		}
	}
	whole, _ := recording()
	providertest.Answer(w, r, asked, map[string]string{
		"text":      stream(begin, delta("0", text("Hello")), delta("0", text(" there")), stop("0"), end, used),
		"reasoning": stream(begin, delta("0", thought("text", "Hm")), stop("0"), delta("1", text("Yes")), end, used),
		"call":      whole,
		"long":      stream(begin, delta("0", text("begun"))),
	})
}

// TestRequestOnTheWire covers all kinds of authorization: a key, the model's own headers, a signature,
// none.
// covers: providers/16, providers/25, providers/157
func TestRequestOnTheWire(t *testing.T) {
	type seen struct{ authorization, token, path, accept string }
	for name, tt := range map[string]struct {
		env  map[string]string
		key  string
		own  map[string]string
		want string
	}{
		"key":              {keys, "k", nil, "Bearer k"},
		"own header":       {keys, "k", map[string]string{"Authorization": "Basic b"}, "Basic b"},
		"own header alone": {keys, "", map[string]string{"Authorization": "Basic b"}, "Basic b"},
		"signature":        {keys, "", nil, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"},
		"nothing":          {map[string]string{"AWS_BEDROCK_SKIP_AUTH": "1"}, "k", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan seen, 1)
			protocol, model := serve(t, tt.env, func(w http.ResponseWriter, r *http.Request) {
				got <- seen{r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token"), r.URL.EscapedPath(), r.Header.Get("Accept")}
				answerByText(w, r)
			})
			model.Headers = tt.own
			_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{APIKey: tt.key}))
			if failure != nil || broken != nil {
				t.Fatal(failure, broken)
			}
			s := <-got
			if s.accept != "application/vnd.amazon.eventstream" || s.path != "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream" {
				t.Errorf("got %+v", s)
			}
			if !strings.HasPrefix(s.authorization, tt.want) || tt.want == "" && s.authorization != "" {
				t.Errorf("got %q, want %q", s.authorization, tt.want)
			}
		})
	}
}

// TestSignatureCoversBody verifies the signature against the received request.
// covers: providers/158
func TestSignatureCoversBody(t *testing.T) {
	env := map[string]string{"AWS_SESSION_TOKEN": "a token of the test"}
	for name, v := range keys {
		env[name] = v
	}
	wrong := make(chan string, 1)
	protocol, model := serve(t, env, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		again := r.Clone(r.Context())
		again.Header = http.Header{"Accept": r.Header["Accept"], "Content-Type": r.Header["Content-Type"], "X-Own": r.Header["X-Own"]}
		awsauth.Sign(again, awsauth.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"], SessionToken: env["AWS_SESSION_TOKEN"]},
			"eu-west-3", "bedrock", sha256.Sum256(body), at)
		if got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want || err != nil || !strings.Contains(want, "x-own") {
			wrong <- fmt.Sprintf("got %s, want %s, %v", got, want, err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		answerByText(w, r)
	})
	model.Headers = map[string]string{"X-Own": "  of the  model "}
	req := providertest.Ask("text")
	req.Messages[0].Parts = append([]providers.Part{providers.Image{MimeType: "image/png", Content: providers.Bytes(strings.Repeat("picture", 50_000))}}, req.Messages[0].Parts...)
	_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), model, req, providers.Options{}))
	if failure != nil || broken != nil {
		t.Fatal(failure, broken)
	}
	select {
	case w := <-wrong:
		t.Error(w)
	default:
	}
}

// reached is a client that records the request and fails.
type reached struct{ request *http.Request }

// RoundTrip implements http.RoundTripper.
func (c *reached) RoundTrip(r *http.Request) (*http.Response, error) {
	c.request = r
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, errors.New("no route to host")
}

// TestRegions: the region of the call determines the vendor's host and the signature.
// covers: providers/163
func TestRegions(t *testing.T) {
	const own = "https://bedrock-runtime.us-east-1.amazonaws.com"
	for name, tt := range map[string]struct {
		model, base string
		env         map[string]string
		host        string
		region      string
	}{
		"base":             {"m", own, nil, "bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		"another base":     {"m", "https://bedrock-runtime.eu-central-1.amazonaws.com", nil, "bedrock-runtime.eu-central-1.amazonaws.com", "eu-central-1"},
		"configured":       {"m", own, map[string]string{"AWS_REGION": " ap-south-1 ", "AWS_DEFAULT_REGION": "eu-west-1"}, "bedrock-runtime.ap-south-1.amazonaws.com", "ap-south-1"},
		"default":          {"m", own, map[string]string{"AWS_DEFAULT_REGION": "eu-west-1"}, "bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"},
		"ARN":              {"arn:aws:bedrock:eu-north-1:1:inference-profile/x", own, map[string]string{"AWS_REGION": "ap-south-1"}, "bedrock-runtime.eu-north-1.amazonaws.com", "eu-north-1"},
		"ARN with a host":  {"arn:aws:bedrock:evil.example/:1:x", own, nil, "bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"},
		"China":            {"m", own, map[string]string{"AWS_REGION": "cn-north-1"}, "bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"},
		"back from China":  {"m", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", map[string]string{"AWS_REGION": "us-west-2"}, "bedrock-runtime.us-west-2.amazonaws.com", "us-west-2"},
		"FIPS":             {"m", own, map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "bedrock-runtime-fips.us-east-1.amazonaws.com", "us-east-1"},
		"FIPS of the base": {"m", "https://bedrock-runtime-fips.us-west-2.amazonaws.com", map[string]string{"AWS_REGION": "us-gov-west-1"}, "bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"},
		"a proxy":          {"m", "https://proxy.example:8443/base", map[string]string{"AWS_REGION": "eu-west-1"}, "proxy.example:8443", "eu-west-1"},
		"a proxy alone":    {"m", "https://proxy.example", nil, "proxy.example", "us-east-1"},
		"like the vendor":  {"m", "https://bedrock-runtime.eu-west-1.amazonaws.com.example", nil, "bedrock-runtime.eu-west-1.amazonaws.com.example", "us-east-1"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a secret of the test"}
			for name, v := range tt.env {
				env[name] = v
			}
			client := &reached{}
			p := bedrockconverse.New(&bedrockconverse.Options{Client: &http.Client{Transport: client}, Getenv: environment(env)})
			_, failure, broken := providertest.Collect(p.Stream(t.Context(), providers.Model{Provider: "p", ID: tt.model, BaseURL: tt.base}, providertest.Ask("text"), providers.Options{}))
			if broken != nil || failure == nil || failure.Kind != providers.KindNetwork {
				t.Fatal(failure, broken)
			}
			r := client.request
			if r.URL.Host != tt.host || r.Host != tt.host || !strings.Contains(r.Header.Get("Authorization"), "/"+tt.region+"/bedrock/aws4_request") {
				t.Errorf("got host %s (%s) with authorization %s", r.URL.Host, r.Host, r.Header.Get("Authorization"))
			}
		})
	}
}

// TestNoCredentials: missing credentials fail before a request is sent, and are retryable only if a
// retry may help.
// covers: providers/162
func TestNoCredentials(t *testing.T) {
	for name, tt := range map[string]struct {
		env     map[string]string
		kind    providers.ErrorKind
		message string
	}{
		"nowhere":   {map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, providers.KindAuth, "AWS_BEARER_TOKEN_BEDROCK"},
		"no role":   {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere"}, providers.KindAuth, "AWS_ROLE_ARN"},
		"unheard":   {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"}, providers.KindNetwork, "127.0.0.1:1"},
		"no region": {map[string]string{"AWS_REGION": "evil.example/"}, providers.KindInvalidRequest, "AWS_REGION"},
	} {
		t.Run(name, func(t *testing.T) {
			protocol, model := serve(t, tt.env, func(http.ResponseWriter, *http.Request) { t.Error("got a request, want none") })
			_, failure, broken := providertest.Collect(protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{}))
			if broken != nil || failure == nil || failure.Kind != tt.kind || !strings.Contains(failure.Error(), tt.message) {
				t.Errorf("got %v, %v", failure, broken)
			}
		})
	}
}

// TestExpiredCredentials: temporary credentials that the vendor rejects are dropped and the call is
// retryable. Keys of the environment are kept.
func TestExpiredCredentials(t *testing.T) {
	lent := 0
	lender := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lent++
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":"k","SecretAccessKey":"s","Token":"token %d","Expiration":"2999-01-02T03:04:05Z"}`, lent)
	}))
	defer lender.Close()
	of := map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "token 1"}
	for name, tt := range map[string]struct {
		env       map[string]string
		kind      string
		retryable bool
	}{
		"lent":                    {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": lender.URL}, "ExpiredTokenException", true},
		"lent, in another word":   {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": lender.URL}, "ExpiredToken:http://internal.example/", true},
		"lent, but no access":     {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": lender.URL}, "AccessDeniedException", false},
		"keys of the environment": {of, "ExpiredTokenException", false},
	} {
		t.Run(name, func(t *testing.T) {
			lent = 0
			protocol, model := serve(t, tt.env, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Amz-Security-Token") == "token 2" {
					answerByText(w, r)
					return
				}
				w.Header().Set("X-Amzn-Errortype", tt.kind)
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"message":"m"}`)
			})
			for call, want := range []bool{false, tt.retryable} {
				_, e, broken := providertest.Collect(protocol.Stream(t.Context(), model, providertest.Ask("text"), providers.Options{}))
				if broken != nil || (e == nil) != want || e != nil && (e.Kind != providers.KindAuth || e.Retryable() != tt.retryable) {
					t.Errorf("call %d: got %v, %v", call, e, broken)
				}
			}
		})
	}
}

// TestFindCredentials returns the source of credentials without network access.
// covers: providers/160
func TestFindCredentials(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".aws"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".aws", "credentials"), []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{
		"AWS_BEDROCK_SKIP_AUTH":                     {"AWS_BEDROCK_SKIP_AUTH": "true", "AWS_PROFILE": "p"},
		"AWS_ACCESS_KEY_ID + AWS_SECRET_ACCESS_KEY": keys,
		"AWS_PROFILE":                               {"AWS_PROFILE": "nowhere"},
		`profile "default"`:                         {"HOME": home},
		"":                                          {"AWS_EC2_METADATA_DISABLED": "true"},
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI":    {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"},
	} {
		p := bedrockconverse.New(&bedrockconverse.Options{Getenv: environment(env)})
		if got := p.FindCredentials(providers.Model{}); got != want {
			t.Errorf("%v: got %q, want %q", env, got, want)
		}
	}
}

// covers: providers/169
func TestStatusErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		status     int
		kind, body string
		want       providers.ErrorKind
		retryable  bool
	}{
		"throttled":   {429, "ThrottlingException", `{"message":"Too many requests"}`, providers.KindRateLimit, true},
		"not ready":   {429, "ModelNotReadyException", `{"message":"m"}`, providers.KindRateLimit, true},
		"unavailable": {503, "ServiceUnavailableException", `{"message":"m"}`, providers.KindOverloaded, true},
		"expired":     {403, "ExpiredTokenException", `{"message":"The security token included in the request is expired"}`, providers.KindAuth, false},
		"signature":   {403, "InvalidSignatureException", `{"message":"m"}`, providers.KindAuth, false},
		"no access":   {403, "AccessDeniedException:http://internal.example/", `{"Message":"m"}`, providers.KindAuth, false},
		"no model":    {404, "ResourceNotFoundException", `{"message":"m"}`, providers.KindInvalidRequest, false},
		"model":       {424, "ModelErrorException", `{"message":"m","originalStatusCode":503,"resourceName":"r"}`, providers.KindOverloaded, true},
		"too long":    {400, "ValidationException", `{"message":"prompt is too long: 210000 tokens > 200000 maximum"}`, providers.KindContextOverflow, false},
		"blank":       {400, "ValidationException", `{"message":"The text field in the ContentBlock object is blank."}`, providers.KindInvalidRequest, false},
		"as success":  {200, "", `{"output":{"message":{}}}`, providers.KindProtocol, false},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(t *testing.T, h http.HandlerFunc) (*providers.HTTP, providers.Model) { return serve(t, keys, h) }
			header := map[string]string{"Content-Type": "application/json", "X-Amzn-Errortype": tt.kind}
			if e := providertest.Refused(t, start, tt.status, header, tt.body); e.Kind != tt.want || e.Retryable() != tt.retryable {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// covers: providers/205
func TestRefusals(t *testing.T) {
	providertest.RunRefusals(t, func(t *testing.T, h http.HandlerFunc) (*providers.HTTP, providers.Model) { return serve(t, keys, h) })
}
