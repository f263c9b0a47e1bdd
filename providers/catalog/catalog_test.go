package catalog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// packedSum is the SHA-256 of catalog.json.gz.
const packedSum = "ca7c45153bb2d029a9cab9634a8914efe358f7bc84003457cac2ff881e630d3f"

// covers: providers/101
func TestCounts(t *testing.T) {
	count := map[string]int{}
	for id, p := range catalog.Builtin() {
		if p.AliasOf != "" {
			count["aliases"]++
			continue
		}
		count["providers"]++
		for _, m := range p.Models() {
			count["models"]++
			count[m.API]++
			for name, is := range map[string]bool{
				"reason": m.Reasoning, "images": slices.Contains(m.Input, providers.InputImage), "maps": m.Thinking != nil,
				"compat": m.Compat != (providers.Compat{}), "tiers": m.Cost.Tiers != nil, "headers": m.Headers != nil,
				"free": m.Cost.Rates == (providers.Rates{}), "limits": m.InputLimits != (providers.InputLimits{}),
				"explicit caches": m.Compat.SupportsExplicitPromptCacheMode.Or(false),
			} {
				if is {
					count[name]++
				}
			}
			if m.ID == "" || m.API == "" || m.ContextWindow <= 0 || m.MaxTokens <= 0 {
				t.Errorf("%s/%s: got incomplete model %+v", id, m.ID, m)
			}
		}
	}
	want := map[string]int{
		"providers": 41, "models": 1608, "aliases": 1,
		"anthropic-messages": 416, "openai-completions": 728, "openai-responses": 131, "azure-openai-responses": 44, "openai-codex-responses": 8,
		"google-generative-ai": 32, "google-vertex": 13, "bedrock-converse-stream": 202, "mistral-conversations": 34,
		"reason": 1368, "images": 1183, "maps": 853, "compat": 1385, "tiers": 266, "headers": 20, "free": 138, "limits": 1183,
		"explicit caches": 11,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFirstEntries pins the wire format and endpoint of unlisted models. New data must not change a
// row.
// covers: providers/102, providers/105
func TestFirstEntries(t *testing.T) {
	const cloudflare = "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}"
	want := map[string]string{
		"amazon-bedrock":                "bedrock-converse-stream https://bedrock-runtime.us-east-1.amazonaws.com",
		"ant-ling":                      "openai-completions https://api.ant-ling.com/v1",
		"anthropic":                     "anthropic-messages https://api.anthropic.com",
		"azure":                         "azure-openai-responses ",
		"azure-openai-responses":        "azure-openai-responses ",
		"baseten":                       "openai-completions https://inference.baseten.co/v1",
		"cerebras":                      "openai-completions https://api.cerebras.ai/v1",
		"cloudflare-ai-gateway":         "anthropic-messages " + cloudflare + "/anthropic",
		"cloudflare-workers-ai":         "openai-completions https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1",
		"deepseek":                      "openai-completions https://api.deepseek.com",
		"fireworks":                     "anthropic-messages https://api.fireworks.ai/inference",
		"github-copilot":                "openai-completions https://api.individual.githubcopilot.com",
		"google":                        "google-generative-ai https://generativelanguage.googleapis.com/v1beta",
		"google-vertex":                 "google-vertex https://{location}-aiplatform.googleapis.com",
		"groq":                          "openai-completions https://api.groq.com/openai/v1",
		"huggingface":                   "openai-completions https://router.huggingface.co/v1",
		"kimi-coding":                   "openai-completions https://api.kimi.com/coding/v1",
		"meta":                          "openai-responses https://api.meta.ai/v1",
		"minimax":                       "anthropic-messages https://api.minimax.io/anthropic",
		"minimax-cn":                    "anthropic-messages https://api.minimaxi.com/anthropic",
		"mistral":                       "mistral-conversations https://api.mistral.ai",
		"moonshotai":                    "openai-completions https://api.moonshot.ai/v1",
		"moonshotai-cn":                 "openai-completions https://api.moonshot.cn/v1",
		"nvidia":                        "openai-completions https://integrate.api.nvidia.com/v1",
		"openai":                        "openai-responses https://api.openai.com/v1",
		"openai-codex":                  "openai-codex-responses https://chatgpt.com/backend-api",
		"opencode":                      "openai-completions https://opencode.ai/inference/openai/v1",
		"opencode-go":                   "openai-completions https://opencode.ai/inference/go/openai/v1",
		"openrouter":                    "openai-completions https://openrouter.ai/api/v1",
		"qwen-token-plan":               "openai-completions https://token-plan.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1",
		"qwen-token-plan-cn":            "openai-completions https://token-plan.cn-beijing.maas.aliyuncs.com/compatible-mode/v1",
		"qwen-token-plan-individual":    "openai-completions https://token-plan.ap-southeast-1.maas.aliyuncs.com/compatible-mode/v1",
		"qwen-token-plan-individual-cn": "openai-completions https://token-plan.cn-beijing.maas.aliyuncs.com/compatible-mode/v1",
		"together":                      "openai-completions https://api.together.ai/v1",
		"vercel-ai-gateway":             "anthropic-messages https://ai-gateway.vercel.sh",
		"xai":                           "openai-responses https://api.x.ai/v1",
		"xiaomi":                        "openai-completions https://api.xiaomimimo.com/v1",
		"xiaomi-token-plan-ams":         "openai-completions https://token-plan-ams.xiaomimimo.com/v1",
		"xiaomi-token-plan-cn":          "openai-completions https://token-plan-cn.xiaomimimo.com/v1",
		"xiaomi-token-plan-sgp":         "openai-completions https://token-plan-sgp.xiaomimimo.com/v1",
		"zai":                           "openai-completions https://api.z.ai/api/coding/paas/v4",
		"zai-coding-cn":                 "openai-completions https://open.bigmodel.cn/api/coding/paas/v4",
	}
	got := map[string]string{}
	for id, p := range catalog.Builtin() {
		got[id] = p.Models()[0].API + " " + p.Models()[0].BaseURL
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSingleEntries compares some models with their vendors' documentation.
// covers: providers/103
func TestSingleEntries(t *testing.T) {
	find := func(provider, id string) providers.CatalogModel {
		models := catalog.Builtin()[provider].Models()
		i := slices.IndexFunc(models, func(m providers.CatalogModel) bool { return m.ID == id })
		if i < 0 {
			t.Fatalf("missing model %s/%s", provider, id)
		}
		return models[i]
	}
	images := providers.InputLimits{RequestBytes: 512 << 20, Images: 1500, ImageBytes: 4_718_592, ImageSide: 2000}
	for _, tt := range []struct {
		got, want providers.CatalogModel
	}{
		{find("openai", "gpt-4.1"), providers.CatalogModel{
			ID: "gpt-4.1", API: "openai-responses", BaseURL: "https://api.openai.com/v1", ContextWindow: 1047576, MaxTokens: 32768,
			Input: []string{"text", "image"}, InputLimits: images, Compat: providers.Compat{SupportsStrictMode: providers.FlagOn},
			Cost: providers.Cost{Rates: providers.Rates{Input: 2, Output: 8, CacheRead: 0.5}},
		}},
		{find("openai", "gpt-4"), providers.CatalogModel{
			ID: "gpt-4", API: "openai-responses", BaseURL: "https://api.openai.com/v1", ContextWindow: 8192, MaxTokens: 8192,
			Input: []string{"text"}, Compat: providers.Compat{SupportsStrictMode: providers.FlagOn},
			Cost: providers.Cost{Rates: providers.Rates{Input: 30, Output: 60}},
		}},
		{find("google", "gemini-2.5-pro"), providers.CatalogModel{
			ID: "gemini-2.5-pro", API: "google-generative-ai", BaseURL: "https://generativelanguage.googleapis.com/v1beta",
			ContextWindow: 1048576, MaxTokens: 65536, Reasoning: true,
			Input: []string{"text", "image"}, InputLimits: providers.InputLimits{RequestBytes: 20 << 20, Images: 3600, ImageBytes: 4_718_592, ImageSide: 2000},
			Cost: providers.Cost{
				Rates: providers.Rates{Input: 1.25, Output: 10, CacheRead: 0.125},
				Tiers: []providers.CostTier{{InputTokensAbove: 200_000, Rates: providers.Rates{Input: 2.5, Output: 15, CacheRead: 0.25}}},
			},
		}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.want.ID, diff)
		}
	}
	if nvidia := catalog.Builtin()["nvidia"].Models()[0]; nvidia.Headers["NVCF-POLL-SECONDS"] != "3600" {
		t.Errorf("nvidia: got headers %v", nvidia.Headers)
	}
}

// TestNoIdentityOfAnotherProgram: headers do not impersonate another program.
// covers: providers/104
func TestNoIdentityOfAnotherProgram(t *testing.T) {
	for id, p := range catalog.Builtin() {
		for _, m := range p.Models() {
			for name := range m.Headers {
				if name != "NVCF-POLL-SECONDS" {
					t.Errorf("%s/%s: got header %s", id, m.ID, name)
				}
			}
			if u, err := url.Parse(strings.ReplaceAll(m.BaseURL, "{location}", "l")); err != nil || u.Scheme != "https" && m.BaseURL != "" || strings.HasSuffix(m.BaseURL, "/") {
				t.Errorf("%s/%s: got URL %q", id, m.ID, m.BaseURL)
			}
		}
	}
}

// TestTiersRise: tiers are in ascending order and have prices.
// covers: providers/103
func TestTiersRise(t *testing.T) {
	for id, p := range catalog.Builtin() {
		for _, m := range p.Models() {
			above := int64(0)
			for _, tier := range m.Cost.Tiers {
				if tier.InputTokensAbove <= above || tier.Rates == (providers.Rates{}) {
					t.Errorf("%s/%s: got tiers %+v", id, m.ID, m.Cost.Tiers)
				}
				above = tier.InputTokensAbove
			}
		}
	}
}

// covers: providers/22, providers/24
func TestVariables(t *testing.T) {
	got := map[string]string{}
	for id, p := range catalog.Builtin() {
		var names []string
		for _, k := range p.EnvKeys {
			name := k.Name
			if k.Bearer {
				name += " (bearer)"
			}
			names = append(names, name)
		}
		for _, set := range p.EnvSets {
			names = append(names, strings.Join(set, "+"))
		}
		got[id] = strings.Join(names, " ")
		// A variable that is set by mistake must not send a key to the wrong vendor.
		for other, q := range catalog.Builtin() {
			for _, k := range q.EnvKeys {
				if id < other && slices.Contains(p.EnvKeys, k) && !sameVendor(id, other) {
					t.Errorf("%s and %s: got the same variable %s", id, other, k.Name)
				}
			}
		}
	}
	for id, want := range map[string]string{
		"anthropic": "ANTHROPIC_AUTH_TOKEN (bearer) ANTHROPIC_OAUTH_TOKEN (bearer) ANTHROPIC_API_KEY",
		"amazon-bedrock": "AWS_BEARER_TOKEN_BEDROCK AWS_PROFILE AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY AWS_CONTAINER_CREDENTIALS_RELATIVE_URI " +
			"AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_WEB_IDENTITY_TOKEN_FILE",
		"google-vertex": "GOOGLE_CLOUD_API_KEY GOOGLE_APPLICATION_CREDENTIALS+GOOGLE_CLOUD_PROJECT+GOOGLE_CLOUD_LOCATION " +
			"GOOGLE_APPLICATION_CREDENTIALS+GCLOUD_PROJECT+GOOGLE_CLOUD_LOCATION",
		"openai-codex": "", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY", "azure-openai-responses": "AZURE_OPENAI_API_KEY",
		"baseten": "BASETEN_API_KEY", "meta": "META_API_KEY", "qwen-token-plan-individual": "QWEN_TOKEN_PLAN_API_KEY",
		"qwen-token-plan-individual-cn": "QWEN_TOKEN_PLAN_CN_API_KEY", "huggingface": "HF_TOKEN",
	} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	for id, names := range got {
		if names == "" && id != "openai-codex" {
			t.Errorf("%s: got no variable", id)
		}
	}
}

// sameVendor reports whether two providers share a vendor and its key.
func sameVendor(a, b string) bool {
	for _, vendor := range []string{"azure", "cloudflare", "moonshotai", "opencode", "qwen-token-plan"} {
		if strings.HasPrefix(a, vendor) && strings.HasPrefix(b, vendor) {
			return true
		}
	}
	return false
}

// TestFileIsPinned: the file is the reviewed one, and small.
// covers: providers/101
func TestFileIsPinned(t *testing.T) {
	b, err := os.ReadFile("catalog.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); got != packedSum {
		t.Errorf("the file has the SHA-256 %s, want %s", got, packedSum)
	}
	if len(b) > 32<<10 {
		t.Errorf("got a file of %d bytes", len(b))
	}
	s := catalog.Provenance()
	if s.Version != "1.5.2" || s.Generated != "2026-11-10T12:05:37.628Z" || s.Package == "" || len(s.Integrity) != 88 {
		t.Errorf("got source %+v", s)
	}
	notice, err := os.ReadFile("NOTICE")
	if err != nil || !strings.Contains(string(notice), s.Package) || !strings.Contains(string(notice), s.Version) || !strings.Contains(string(notice), "Copyright (c)") {
		t.Errorf("NOTICE lacks the copyright of %s %s: %v", s.Package, s.Version, err)
	}
}

// TestRegistryAcceptsCatalog resolves every listed model, and no other.
// covers: providers/2, providers/17, providers/68, providers/69, providers/70
func TestRegistryAcceptsCatalog(t *testing.T) {
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin(), Getenv: func(string) string { return "" }})
	listed := map[string]bool{}
	for _, m := range r.Models() {
		listed[m.Spec()] = true
		models := catalog.Builtin()[m.Provider].Models()
		i := slices.IndexFunc(models, func(c providers.CatalogModel) bool { return c.ID == m.ID })
		if i < 0 || m.API != models[i].API || m.BaseURL != models[i].BaseURL || m.ContextWindow != models[i].ContextWindow {
			t.Errorf("%s: got %+v", m.Spec(), m)
		}
	}
	if len(listed) != 1608 {
		t.Errorf("got %d models", len(listed))
	}
	for _, id := range slices.Sorted(maps.Keys(catalog.Builtin())) {
		if _, err := r.Resolve(id + "/not-listed"); err == nil {
			t.Errorf("%s: got an unlisted model without a registration", id)
		}
		if err := r.RegisterProvider(id, providers.Registration{}); err != nil {
			t.Errorf("%s: registration by name: got %v", id, err)
		}
		m, err := r.Resolve(id + "/not-listed")
		first := catalog.Builtin()[id].Models()[0]
		if err != nil || m.API != first.API || m.BaseURL != first.BaseURL || m.ContextWindow != 0 || m.Cost.Rates != (providers.Rates{}) || m.Headers != nil {
			t.Errorf("%s/not-listed: got %+v, %v", id, m, err)
		}
	}
}

func BenchmarkRegistry(b *testing.B) {
	c := catalog.Builtin()
	for b.Loop() {
		providers.NewRegistry(&providers.RegistryOptions{Catalog: c})
	}
}

func Example() {
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin()})
	m, err := r.Resolve("openai/gpt-4.1")
	if err != nil {
		panic(err)
	}
	price, err := json.Marshal(m.Cost.Rates)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.API, m.ContextWindow, string(price))
	// Output: openai-responses 1047576 {"input":2,"output":8,"cacheRead":0.5}
}
