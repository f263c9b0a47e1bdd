package openairesponses

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
)

const (
	codexBase   = "https://chatgpt.com/backend-api"
	codexClaims = "https://api.openai.com/auth"
	// codexInstructions replace an empty system prompt, which the API rejects.
	codexInstructions = "You are a helpful assistant."
	// self identifies the client in requests.
	self = "parley"
)

// ErrNoAccount reports a token without an account id claim.
var ErrNoAccount = errors.New("no account id in token: the key must be a subscription token")

// NewCodex returns the protocol of APICodex over HTTP. The key of a call is a subscription token that
// the application supplies. Its Close closes idle connections.
func NewCodex(o *Options) providers.Protocol {
	return &located{newHTTP(codec{variant: codex{}, maxEventBytes: o.orDefault().MaxEventBytes}, o), codex{}.locate}
}

// codex is the variant of APICodex.
type codex struct{}

func (codex) locate(m providers.Model) (providers.Model, error) {
	if m.BaseURL == "" {
		m.BaseURL = codexBase
	}
	return m, nil
}

func (codex) address(m providers.Model, o providers.Options, h http.Header) (string, error) {
	account, err := accountOf(o.APIKey)
	if err != nil {
		return "", &providers.Error{Kind: providers.KindAuth, Err: err}
	}
	h.Set("Authorization", "Bearer "+o.APIKey)
	h.Set("Chatgpt-Account-Id", account)
	h.Set("Openai-Beta", "responses=experimental")
	h.Set("Originator", self)
	h.Set("User-Agent", self)
	if key := providers.SessionKey(o); key != "" {
		h.Set("Session-Id", key)
		h.Set("X-Client-Request-Id", key)
	}
	base := strings.TrimRight(m.BaseURL, "/")
	switch {
	case strings.HasSuffix(base, "/codex/responses"):
		return "", nil
	case strings.HasSuffix(base, "/codex"):
		return "/responses", nil
	}
	return "/codex/responses", nil
}

// accountOf reads the account id from a token without verifying it; the server verifies it.
func accountOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", ErrNoAccount
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return "", ErrNoAccount
	}
	var claims map[string]json.RawMessage
	var auth struct {
		Account string `json:"chatgpt_account_id"`
	}
	if json.Unmarshal(payload, &claims) != nil || json.Unmarshal(claims[codexClaims], &auth) != nil || auth.Account == "" {
		return "", ErrNoAccount
	}
	return auth.Account, nil
}

func (codex) finish(b *body, m providers.Model, req providers.Request, o providers.Options) {
	b.Instructions = req.System
	if strings.TrimSpace(req.System) == "" {
		b.Instructions = codexInstructions
	}
	b.Text = &textOptions{Verbosity: "low"}
	b.ParallelToolCalls = true
	if b.ToolChoice == nil {
		b.ToolChoice = "auto"
	}
	b.Include = []string{includeEncrypted}
	b.MaxOutputTokens = 0
	for i := range b.Tools {
		b.Tools[i].Strict = nil
	}
	if b.Reasoning != nil && b.Reasoning.Effort == string(providers.ThinkingMinimal) {
		b.Reasoning.Effort = string(providers.ThinkingLow)
	}
}
