package catalog

import "github.com/parleyrun/parley/providers"

// aliases maps current ids to older ids, which stored conversations and configurations may contain.
func aliases() map[string]string {
	return map[string]string{"azure-openai-responses": "azure"}
}

// environments returns all providers with the variables of their credentials.
func environments() providers.Catalog {
	all := providers.Catalog{
		"anthropic": {EnvKeys: []providers.EnvKey{
			{Name: "ANTHROPIC_AUTH_TOKEN", Bearer: true}, {Name: "ANTHROPIC_OAUTH_TOKEN", Bearer: true}, {Name: "ANTHROPIC_API_KEY"},
		}},
		"amazon-bedrock": {
			EnvKeys: []providers.EnvKey{{Name: "AWS_BEARER_TOKEN_BEDROCK"}},
			EnvSets: [][]string{
				{"AWS_PROFILE"}, {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"},
				{"AWS_CONTAINER_CREDENTIALS_FULL_URI"}, {"AWS_WEB_IDENTITY_TOKEN_FILE"},
			},
		},
		"google-vertex": {
			EnvKeys: []providers.EnvKey{{Name: "GOOGLE_CLOUD_API_KEY"}},
			EnvSets: [][]string{
				{"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"},
				{"GOOGLE_APPLICATION_CREDENTIALS", "GCLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"},
			},
		},
		// The application obtains a token for its user.
		"openai-codex": {},
	}
	for id, name := range keys() {
		all[id] = providers.CatalogProvider{EnvKeys: []providers.EnvKey{{Name: name}}}
	}
	return all
}

// keys returns the variables of providers that have one.
func keys() map[string]string {
	return map[string]string{
		"ant-ling":                      "ANT_LING_API_KEY",
		"azure":                         "AZURE_OPENAI_API_KEY",
		"baseten":                       "BASETEN_API_KEY",
		"cerebras":                      "CEREBRAS_API_KEY",
		"cloudflare-ai-gateway":         "CLOUDFLARE_API_KEY",
		"cloudflare-workers-ai":         "CLOUDFLARE_API_KEY",
		"deepseek":                      "DEEPSEEK_API_KEY",
		"fireworks":                     "FIREWORKS_API_KEY",
		"github-copilot":                "COPILOT_GITHUB_TOKEN",
		"google":                        "GEMINI_API_KEY",
		"groq":                          "GROQ_API_KEY",
		"huggingface":                   "HF_TOKEN",
		"kimi-coding":                   "KIMI_API_KEY",
		"meta":                          "META_API_KEY",
		"minimax":                       "MINIMAX_API_KEY",
		"minimax-cn":                    "MINIMAX_CN_API_KEY",
		"mistral":                       "MISTRAL_API_KEY",
		"moonshotai":                    "MOONSHOT_API_KEY",
		"moonshotai-cn":                 "MOONSHOT_API_KEY",
		"nvidia":                        "NVIDIA_API_KEY",
		"openai":                        "OPENAI_API_KEY",
		"opencode":                      "OPENCODE_API_KEY",
		"opencode-go":                   "OPENCODE_API_KEY",
		"openrouter":                    "OPENROUTER_API_KEY",
		"qwen-token-plan":               "QWEN_TOKEN_PLAN_API_KEY",
		"qwen-token-plan-cn":            "QWEN_TOKEN_PLAN_CN_API_KEY",
		"qwen-token-plan-individual":    "QWEN_TOKEN_PLAN_API_KEY",
		"qwen-token-plan-individual-cn": "QWEN_TOKEN_PLAN_CN_API_KEY",
		"together":                      "TOGETHER_API_KEY",
		"vercel-ai-gateway":             "AI_GATEWAY_API_KEY",
		"xai":                           "XAI_API_KEY",
		"xiaomi":                        "XIAOMI_API_KEY",
		"xiaomi-token-plan-ams":         "XIAOMI_TOKEN_PLAN_AMS_API_KEY",
		"xiaomi-token-plan-cn":          "XIAOMI_TOKEN_PLAN_CN_API_KEY",
		"xiaomi-token-plan-sgp":         "XIAOMI_TOKEN_PLAN_SGP_API_KEY",
		"zai":                           "ZAI_API_KEY",
		"zai-coding-cn":                 "ZAI_CODING_CN_API_KEY",
	}
}
