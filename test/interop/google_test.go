package interop_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genai"

	"github.com/parleyrun/parley/providers"
)

// googleCall decodes a request to types of the SDK, which has no single type for it.
func googleCall(body []byte) (contents []*genai.Content, config *genai.GenerateContentConfig, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, nil, err
	}
	// The SDK has the members of the nested object at the top level.
	config = &genai.GenerateContentConfig{}
	generation := map[string]json.RawMessage{}
	if raw := members["generationConfig"]; raw != nil {
		if err := json.Unmarshal(raw, &generation); err != nil {
			return nil, nil, err
		}
	}
	raw := members["contents"]
	delete(members, "generationConfig")
	delete(members, "contents")
	maps.Copy(members, generation)
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, nil, err
	}
	for text, v := range map[string]any{string(raw): &contents, string(rest): config} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			return nil, nil, err
		}
	}
	return contents, config, nil
}

func googleClient(ctx context.Context, backend genai.Backend, base string, client *http.Client) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: key, Backend: backend, HTTPClient: client, HTTPOptions: genai.HTTPOptions{BaseURL: strings.TrimSuffix(base, "/v1beta"), APIVersion: "v1beta"},
	})
}

// knownToGoogle decodes a call with the SDK and returns the SDK's encoding.
func knownToGoogle(backend genai.Backend) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		contents, config, err := googleCall(body)
		if err != nil {
			return nil, err
		}
		v := &vendor{answers: []string{"data: {}\n\n"}}
		client, err := googleClient(context.Background(), backend, "http://interop.example", &http.Client{Transport: v})
		if err != nil {
			return nil, err
		}
		for _, err := range client.Models.GenerateContentStream(context.Background(), "m", contents, config) {
			if err != nil {
				return nil, err
			}
		}
		return v.asked[0].Body, nil
	}
}

func readByGoogle(t *testing.T, base string, body []byte) (r reading) {
	t.Helper()
	contents, config, err := googleCall(body)
	if err != nil {
		t.Fatal(err)
	}
	client, err := googleClient(t.Context(), genai.BackendGeminiAPI, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range client.Models.GenerateContentStream(t.Context(), "m", contents, config) {
		if err != nil {
			t.Fatal(err)
		}
		if u := chunk.UsageMetadata; u != nil {
			r.Prompt, r.Cached, r.Output = int64(u.PromptTokenCount), int64(u.CachedContentTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
		}
		for _, c := range chunk.Candidates {
			if c.Content == nil { // only a finish reason
				c.Content = &genai.Content{}
			}
			for _, p := range c.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					arguments, err := json.Marshal(p.FunctionCall.Args)
					if err != nil {
						t.Fatal(err)
					}
					r.Calls = append(r.Calls, compact(t, p.FunctionCall.Name, arguments))
				case p.Thought:
					r.Thinking += p.Text
				default:
					r.Text += p.Text
				}
			}
			if c.FinishReason != "" {
				r.Stop = map[genai.FinishReason]providers.StopReason{
					genai.FinishReasonStop: providers.StopStop, genai.FinishReasonMaxTokens: providers.StopLength, genai.FinishReasonSafety: providers.StopContentFilter,
				}[c.FinishReason]
			}
		}
	}
	if r.Stop == providers.StopStop && len(r.Calls) > 0 { // the format has no stop reason of its own for calls
		r.Stop = providers.StopToolUse
	}
	return r
}
