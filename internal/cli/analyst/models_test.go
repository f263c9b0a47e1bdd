package analyst

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// covers: providers/13, providers/106
func TestModelsLists(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("GROQ_API_KEY", "kept-secret")
	t.Setenv("AWS_PROFILE", "p")
	code, out, errOut := program.Output(t, "models")
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d, %q", code, errOut)
	}
	for _, want := range []string{
		"parley models: 1608 models of 41 providers; catalog from " + catalog.Provenance().Package + " 1.5.2, collected 2026-11-10\n",
		"\nanthropic/claude-opus-4-6 ", "\namazon-bedrock/",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q", want)
		}
	}
	rows := map[string][]string{}
	for line := range strings.Lines(out) {
		if cells := strings.Fields(line); len(cells) > 0 {
			rows[cells[0]] = cells
		}
	}
	for model, want := range map[string][]string{
		"groq/llama-3.1-8b-instant": {"groq/llama-3.1-8b-instant", "131,072", "131,072", "$0.0500", "$0.0800", "-", "text", "-", "GROQ_API_KEY"},
		"mistral/codestral-2508":    {"mistral/codestral-2508", "256,000", "8,192", "$0.3000", "$0.9000", "-", "text", "-", "-"},
		"openai/gpt-5":              {"openai/gpt-5", "400,000", "128,000", "$1.25", "$10.00", "-", "text+image", "minimal…high", "-"},
		"amazon-bedrock/amazon.nova-lite-v1:0": {
			"amazon-bedrock/amazon.nova-lite-v1:0", "300,000", "10,000", "$0.0600", "$0.2400", "-", "text+image", "-", "AWS_PROFILE",
		},
	} {
		if diff := cmp.Diff(want, rows[model]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", model, diff)
		}
	}
	if strings.Contains(out, "kept-secret") {
		t.Error("shows a key")
	}
}

// The list counts models without a price and names the remedy.
func TestModelsWithoutAPrice(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WithoutKeys(t)
	clitest.Write(t, "parley.yaml", `
listen: 127.0.0.1:0
bucket: {dir: data}
providers:
  own: {api: openai-completions, baseUrl: "http://127.0.0.1:1", models: {free: {contextWindow: 1000}, paid: {contextWindow: 1000, cost: {output: 1}}}}
agents:
  a: {mounts: [/a], model: own/free}
`)
	code, out, errOut := program.Output(t, "models", "--provider", "own")
	if want := "Without a price: 1 model,"; code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "pricedOnly") {
		t.Errorf("exit %d, %q, %q; want %q and the remedy", code, out, errOut, want)
	}
}

// covers: providers/105, providers/106
func TestModelsOfOneProvider(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("AZURE_OPENAI_API_KEY", "k")
	for name, provider := range map[string]string{"azure": "azure", "azure-openai-responses": "azure"} {
		code, out, errOut := program.Output(t, "models", "--provider", name, "--json")
		if code != 0 || errOut != "" {
			t.Fatalf("exit %d, %q", code, errOut)
		}
		got := clitest.Into[modelsReport](t, out)
		if got.Catalog != catalog.Provenance() || len(got.Models) != 45 {
			t.Errorf("%s: %+v, %d models", name, got.Catalog, len(got.Models))
		}
		for _, m := range got.Models {
			if m.Provider != provider || m.Credentials != "AZURE_OPENAI_API_KEY" {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	_, out, _ := program.Output(t, "models", "--provider", "openai", "--json")
	for _, m := range clitest.Into[modelsReport](t, out).Models {
		if m.ID != "gpt-5.5" {
			continue
		}
		want := modelReport{
			Provider: "openai", ID: "gpt-5.5", API: m.API, BaseURL: "https://api.openai.com/v1", ContextWindow: 272000, MaxTokens: 128000, Reasoning: true,
			ThinkingLevels: []providers.ThinkingLevel{"off", "low", "medium", "high", "xhigh"}, Input: []string{"text", "image"}, Priced: true, Cost: m.Cost, Callable: true,
		}
		if diff := cmp.Diff(want, m); diff != "" || m.Cost.Input != 5 || len(m.Cost.Tiers) != 1 || m.Cost.Tiers[0].InputTokensAbove != 272000 {
			t.Errorf("%+v (-want +got):\n%s", m.Cost, diff)
		}
	}
}

// On a narrow terminal, optional columns are omitted, and names, which users copy, are never
// truncated.
func TestModelsFitTheTerminal(t *testing.T) {
	clitest.WithoutKeys(t)
	s := program.AtTerminal(t, 60, "models", "--provider", "openai")
	s.Expect("MODEL")
	for line := range strings.Lines(s.Expect("openai/o1 ")) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > 60 || strings.Contains(line, "…") {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	s.Ends()
}

// covers: providers/107
func TestModelsThatCannotBeCalled(t *testing.T) {
	clitest.WithoutKeys(t)
	file := clitest.Write(t, filepath.Join(t.TempDir(), "parley.yaml"), "agents: {a: {model: demo/parrot}}\nproviders: {cloudflare-workers-ai: {api: edge-ai-binding}}\n")
	_, out, errOut := program.Output(t, "models", "--config", file, "--provider", "cloudflare-workers-ai")
	if !strings.Contains(out, "- (not callable)\n") || !strings.HasSuffix(out, "Not callable: this program does not support edge-ai-binding.\n") {
		t.Errorf("%s%s", out, errOut)
	}
}

// covers: providers/138
func TestModelsOfVertex(t *testing.T) {
	at := func(more ...string) map[string]string {
		env := map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for _, tt := range []struct {
		want string
		env  map[string]string
	}{
		{"", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "f.json"}},
		{"", at("GOOGLE_APPLICATION_CREDENTIALS", "f.json", "GOOGLE_CLOUD_LOCATION", "no location")},
		{"metadata server", at()},
		{"GOOGLE_APPLICATION_CREDENTIALS", at("GOOGLE_APPLICATION_CREDENTIALS", "f.json")},
		{"GOOGLE_CLOUD_API_KEY", at("GOOGLE_CLOUD_API_KEY", "k")},
		{"metadata server", at("GOOGLE_CLOUD_API_KEY", "gcp-vertex-credentials")},
		{"", map[string]string{"GOOGLE_CLOUD_API_KEY": "<authenticated>"}},
	} {
		clitest.WithoutKeys(t)
		t.Setenv("HOME", t.TempDir())
		t.Setenv("CLOUDSDK_CONFIG", "")
		for name, value := range tt.env {
			t.Setenv(name, value)
		}
		_, out, errOut := program.Output(t, "models", "--provider", "google-vertex", "--json")
		got := clitest.Into[modelsReport](t, out).Models
		if len(got) == 0 || got[0].Credentials != tt.want || !got[0].Callable {
			t.Errorf("%v: %+v, %q; want %q", tt.env, got, errOut, tt.want)
		}
	}
}

// covers: providers/138
func TestModelsCheckOfVertex(t *testing.T) {
	vendor := httptest.NewServer(fakemodel.New(&fakemodel.Options{Key: "kept-secret"}))
	defer vendor.Close()
	clitest.WithoutKeys(t)
	for name, value := range map[string]string{
		"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global", "GCE_METADATA_HOST": strings.TrimPrefix(vendor.URL, "http://"), "CLOUDSDK_CONFIG": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	file := clitest.Write(t, filepath.Join(t.TempDir(), "parley.yaml"), "agents: {a: {model: google-vertex/gemini-3-flash-preview}}\nproviders: {google-vertex: {baseUrl: \""+vendor.URL+"\"}}\n")
	code, out, errOut := program.Output(t, "models", "check", "google-vertex/gemini-3-flash-preview", "--config", file)
	if code != 0 || !strings.Contains(out, "credentials from metadata server\n") || !strings.Contains(out, `answer: "You said: `) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

// Each source of Bedrock credentials is reported under its own name.
// covers: providers/157, providers/160
func TestModelsReportBedrockSource(t *testing.T) {
	profiles := clitest.Write(t, filepath.Join(t.TempDir(), "credentials"), "[default]\naws_access_key_id = a\naws_secret_access_key = kept-secret\n")
	for want, env := range map[string]map[string]string{
		"":                         {},
		"AWS_BEARER_TOKEN_BEDROCK": {"AWS_BEARER_TOKEN_BEDROCK": "kept-secret", "AWS_PROFILE": "p"},
		"AWS_ACCESS_KEY_ID + AWS_SECRET_ACCESS_KEY": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "kept-secret", "AWS_PROFILE": "p"},
		"AWS_PROFILE":                                {"AWS_PROFILE": "p"},
		`profile "default"`:                          {"AWS_SHARED_CREDENTIALS_FILE": profiles},
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI":     {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/kept-secret"},
		"AWS_CONTAINER_CREDENTIALS_FULL_URI":         {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/kept-secret"},
		"AWS_WEB_IDENTITY_TOKEN_FILE + AWS_ROLE_ARN": {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:r"},
		"instance metadata":                          {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://169.254.169.254"},
		"AWS_BEDROCK_SKIP_AUTH":                      {"AWS_BEDROCK_SKIP_AUTH": "1"},
	} {
		t.Run(want, func(t *testing.T) {
			clitest.WithoutKeys(t)
			for name, v := range env {
				t.Setenv(name, v)
			}
			_, out, errOut := program.Output(t, "models", "--provider", "amazon-bedrock", "--json")
			models := clitest.Into[modelsReport](t, out).Models
			if len(models) != 202 || models[0].Credentials != want || !models[0].Callable || errOut != "" || strings.Contains(out, "kept-secret") {
				t.Errorf("%d models, the first %+v, %q", len(models), models[:min(len(models), 1)], errOut)
			}
		})
	}
}

func TestModelsOfAFile(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("LOCAL_KEY", "k")
	file := clitest.Write(t, filepath.Join(t.TempDir(), "parley.yaml"), `agents: {a: {model: local/m1}}
providers:
  local: {api: openai-completions, baseUrl: "http://127.0.0.1:9/v1", apiKeyEnv: LOCAL_KEY, models: {m1: {contextWindow: 7}}}
  groq: {contextWindow: 9, models: {new: {}}}
`)
	_, out, errOut := program.Output(t, "models", "--config", file, "--provider", "local", "--json")
	got := clitest.Into[modelsReport](t, out).Models
	if len(got) != 1 || got[0].ID != "m1" || got[0].ContextWindow != 7 || got[0].Credentials != providers.FromRegistration || !got[0].Callable {
		t.Errorf("%+v, %q", got, errOut)
	}
	_, out, errOut = program.Output(t, "models", "--config", file, "--provider", "groq", "--json")
	got = clitest.Into[modelsReport](t, out).Models
	if n := len(catalog.Builtin()["groq"].Models()); len(got) != n+1 || got[0].ContextWindow != 9 || got[n].ID != "new" || got[n].API != "openai-completions" {
		t.Errorf("%+v, %q", got, errOut)
	}
}

func TestModelsMistakes(t *testing.T) {
	clitest.WithoutKeys(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"provider is unknown":     {[]string{"models", "--provider", "nobody"}, "use one of amazon-bedrock, "},
		"provider without models": {[]string{"models", "--provider", "demo"}, "lists no models"},
		"provider without flag":   {[]string{"models", "openai"}, "--provider openai"},
		"file is not there":       {[]string{"models", "--config", "none.yaml"}, "none.yaml"},
		"check of nothing":        {[]string{"models", "check"}, "takes one model"},
		"check without slash":     {[]string{"models", "check", "m"}, "has no slash"},
		"check without key":       {[]string{"models", "check", "groq/llama-3.1-8b-instant"}, "set GROQ_API_KEY"},
		"check without AWS":       {[]string{"models", "check", "amazon-bedrock/amazon.nova-lite-v1:0"}, "set AWS_BEARER_TOKEN_BEDROCK"},
		"check without token":     {[]string{"models", "check", "openai-codex/new"}, "needs a token"},
		"check without account":   {[]string{"models", "check", "cloudflare-workers-ai/m"}, "needs the environment variable CLOUDFLARE_ACCOUNT_ID"},
		"check without place":     {[]string{"models", "check", "google-vertex/new"}, "GOOGLE_APPLICATION_CREDENTIALS + GOOGLE_CLOUD_PROJECT + GOOGLE_CLOUD_LOCATION"},
	} {
		code, _, errOut := program.Output(t, tt.args...)
		wantCode := 1
		if name == "provider without flag" || name == "check of nothing" {
			wantCode = cli.ExitUsage
		}
		if code != wantCode || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit %d and %q", name, code, errOut, wantCode, tt.want)
		}
	}
}

// checked serves one model call and records its request.
func checked(t *testing.T, status int, answer string) (asked *string) {
	t.Helper()
	asked = new(string)
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*asked = r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		if status == http.StatusOK {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.Header().Set("X-Request-Id", "req_7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(vendor.Close)
	clitest.WithoutKeys(t)
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "kept-secret")
	return asked
}

const pong = `data: {"id":"r1","model":"gpt-4.1-2025","choices":[{"delta":{"content":"po"}}]}

data: {"choices":[{"delta":{"content":"ng"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":200}}

data: [DONE]

`

// covers: providers/13, providers/108
func TestModelsCheck(t *testing.T) {
	asked := checked(t, http.StatusOK, pong)
	code, out, errOut := program.Output(t, "models", "check", "openai/gpt-4.1")
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d, %q", code, errOut)
	}
	for _, want := range []string{
		"openai/gpt-4.1: openai-completions at http://127.0.0.1:", ", credentials from OPENAI_API_KEY\n", "first piece after ", "answer: \"pong\"\n",
		": stop, model gpt-4.1-2025\n", "1,000 in, 200 out, - from the cache, - to it; cost $0.0036\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if !strings.HasPrefix(*asked, "/chat/completions Bearer kept-secret ") || !strings.Contains(*asked, `"pong"`) && !strings.Contains(*asked, "pong") {
		t.Errorf("asked %s", *asked)
	}
	_, out, _ = program.Output(t, "models", "check", "openai/not-listed", "--json")
	got := clitest.Into[checkReport](t, out)
	got.TotalMS, got.FirstMS = 0, nil
	want := checkReport{
		Model: "openai/not-listed", API: "openai-completions", BaseURL: got.BaseURL, Credentials: "OPENAI_API_KEY", Text: "pong", StopReason: "stop",
		ResponseModel: "gpt-4.1-2025", Usage: &checkUsage{Input: 1000, Output: 200},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(checkReport{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// covers: providers/108
func TestModelsCheckThatFails(t *testing.T) {
	for _, tt := range []struct {
		status int
		answer string
		want   []string
	}{
		{401, `{"error":{"message":"no such key kept-secret","code":"invalid_api_key"}}`, []string{": auth, status 401, request req_7\n", "no such key [secret]\n", "check the key of openai (from: OPENAI_API_KEY)"}},
		{404, "no model of\x1b[1m that name", []string{": invalid_request, status 404", "no model of [1m that name\n", "check the id of the model"}},
		{429, `{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}`, []string{": quota", "no credit"}},
		{529, `{"error":{"message":"busy"}}`, []string{": overloaded", "busy\n", "try again later"}},
		{200, "data: {\"choices\":[{\"delta\":{\"content\":\"po\"}}]}\n\n", []string{"answer: \"po\"\n", ": truncated", "supports openai-completions"}},
	} {
		checked(t, tt.status, tt.answer)
		code, out, errOut := program.Output(t, "models", "check", "openai/gpt-4.1")
		if code != 1 || errOut != "" {
			t.Errorf("%d: exit %d, %q", tt.status, code, errOut)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%d: lacks %q:\n%s", tt.status, want, out)
			}
		}
		if strings.Contains(out, "kept-secret") {
			t.Errorf("%d: shows the key:\n%s", tt.status, out)
		}
		_, out, _ = program.Output(t, "models", "check", "openai/gpt-4.1", "--json")
		if got := clitest.Into[checkReport](t, out); got.Error == nil || got.Error.Remedy == "" || fmt.Sprint(got.Error.Kind) == "" {
			t.Errorf("%d: %+v", tt.status, got.Error)
		}
	}
}

// A call without an API key is signed with the keys of the environment.
func TestModelsCheckSigns(t *testing.T) {
	clitest.WithoutKeys(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "kept-secret")
	vendor := httptest.NewServer(fakemodel.New(&fakemodel.Options{Key: "AKIDEXAMPLE"}))
	defer vendor.Close()
	file := clitest.Write(t, filepath.Join(t.TempDir(), "parley.yaml"), "agents: {a: {model: demo/parrot}}\nproviders: {amazon-bedrock: {baseUrl: "+vendor.URL+"/bedrock}}\n")
	code, out, errOut := program.Output(t, "models", "check", "amazon-bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "--config", file)
	if code != 0 || errOut != "" || !strings.Contains(out, "bedrock-converse-stream at "+vendor.URL) || !strings.Contains(out, "credentials from AWS_ACCESS_KEY_ID + AWS_SECRET_ACCESS_KEY\n") {
		t.Errorf("exit %d, %q:\n%s", code, errOut, out)
	}
}

// The command ends although the vendor's stream does not.
// covers: providers/108
func TestModelsCheckEnds(t *testing.T) {
	vendor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer vendor.Close()
	clitest.WithoutKeys(t)
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	code, out, _ := program.Output(t, "models", "check", "openai/m", "--timeout", "50ms")
	if code != 1 || !strings.Contains(out, ": aborted") || !strings.Contains(out, "--timeout") {
		t.Errorf("exit %d, %s", code, out)
	}
}
