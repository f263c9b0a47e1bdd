package providers

// Catalog is what is known about providers without any registration, by
// provider id. It is data: a Registry reads it once, in NewRegistry.
type Catalog map[string]CatalogProvider

// CatalogProvider describes one provider.
type CatalogProvider struct {
	// EnvKeys are the environment variables that may hold its key, first match wins.
	EnvKeys []EnvKey
	// EnvSets are variables which, all of one set together, are credentials that the
	// protocol finds by itself.
	EnvSets [][]string
	// AliasOf is the id that this one is an older name of, "" for none.
	AliasOf string
	// Models in a fixed order: the first one supplies protocol and endpoint of
	// models that are not listed. A provider without models counts as unknown
	// until it is registered.
	Models []CatalogModel
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
	// ImageBytes bounds an image as it is sent, ImageSide its width and its height in
	// pixels.
	ImageBytes int64 `json:"imageBytes,omitempty"`
	ImageSide  int   `json:"imageSide,omitempty"`
}

// BuiltinCatalog returns the environment variables of known providers, and no
// models. Variables that hold something other than a plain API key are left
// out: they need more than a lookup.
func BuiltinCatalog() Catalog {
	c := Catalog{}
	for id, name := range map[string]string{
		"amazon-bedrock":         "AWS_BEARER_TOKEN_BEDROCK",
		"ant-ling":               "ANT_LING_API_KEY",
		"anthropic":              "ANTHROPIC_API_KEY",
		"azure":                  "AZURE_OPENAI_API_KEY",
		"azure-openai-responses": "AZURE_OPENAI_API_KEY", // The older id of azure.
		"cerebras":               "CEREBRAS_API_KEY",
		"cloudflare-ai-gateway":  "CLOUDFLARE_API_KEY",
		"cloudflare-workers-ai":  "CLOUDFLARE_API_KEY",
		"deepseek":               "DEEPSEEK_API_KEY",
		"fireworks":              "FIREWORKS_API_KEY",
		"github-copilot":         "COPILOT_GITHUB_TOKEN",
		"google":                 "GEMINI_API_KEY",
		"google-vertex":          "GOOGLE_CLOUD_API_KEY",
		"groq":                   "GROQ_API_KEY",
		"huggingface":            "HF_TOKEN",
		"kimi-coding":            "KIMI_API_KEY",
		"minimax":                "MINIMAX_API_KEY",
		"minimax-cn":             "MINIMAX_CN_API_KEY",
		"mistral":                "MISTRAL_API_KEY",
		"moonshotai":             "MOONSHOT_API_KEY",
		"moonshotai-cn":          "MOONSHOT_API_KEY",
		"nvidia":                 "NVIDIA_API_KEY",
		"openai":                 "OPENAI_API_KEY",
		"opencode":               "OPENCODE_API_KEY",
		"opencode-go":            "OPENCODE_API_KEY",
		"openrouter":             "OPENROUTER_API_KEY",
		"qwen-token-plan":        "QWEN_TOKEN_PLAN_API_KEY",
		"qwen-token-plan-cn":     "QWEN_TOKEN_PLAN_CN_API_KEY",
		"radius":                 "RADIUS_API_KEY",
		"together":               "TOGETHER_API_KEY",
		"vercel-ai-gateway":      "AI_GATEWAY_API_KEY",
		"xai":                    "XAI_API_KEY",
		"xiaomi":                 "XIAOMI_API_KEY",
		"xiaomi-token-plan-ams":  "XIAOMI_TOKEN_PLAN_AMS_API_KEY",
		"xiaomi-token-plan-cn":   "XIAOMI_TOKEN_PLAN_CN_API_KEY",
		"xiaomi-token-plan-sgp":  "XIAOMI_TOKEN_PLAN_SGP_API_KEY",
		"zai":                    "ZAI_API_KEY",
		"zai-coding-cn":          "ZAI_CODING_CN_API_KEY",
	} {
		c[id] = CatalogProvider{EnvKeys: []EnvKey{{Name: name}}}
	}
	c["anthropic"] = CatalogProvider{EnvKeys: []EnvKey{
		{Name: "ANTHROPIC_AUTH_TOKEN", Bearer: true}, {Name: "ANTHROPIC_OAUTH_TOKEN", Bearer: true}, {Name: "ANTHROPIC_API_KEY"},
	}}
	return c
}
