package fakemodel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/fakemodel"
)

const (
	googleStream = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
	googleOlder  = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent"
)

// TestGoogleWhole requests a response without streaming, which the codec never does.
func TestGoogleWhole(t *testing.T) {
	w := post(googleOlder, `{"contents":[{"role":"user","parts":[{"text":"reasoning=1 say=\"Hi.\" tool=a {\"n\":1}"}]}]}`)
	want := map[string]any{
		"candidates": []any{map[string]any{"index": 0., "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": []any{
			map[string]any{"text": "t1", "thought": true}, map[string]any{"text": "Hi."},
			map[string]any{"functionCall": map[string]any{"name": "a", "args": map[string]any{"n": 1.}}},
		}}}},
		"usageMetadata": map[string]any{"promptTokenCount": 4., "candidatesTokenCount": 2., "thoughtsTokenCount": 1., "totalTokenCount": 7.},
		"modelVersion":  "gemini-2.5-pro", "responseId": "fake_8f071e12fe257169",
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("got status %d, %v: %s", w.Code, err, w.Body)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGoogleSameCallSameBytes(t *testing.T) {
	body := `{"contents":[{"role":"user","parts":[{"text":"reasoning=2 tokens=3 tool=a"}]}]}`
	first, second := post(googleStream, body), post(googleStream, body)
	if first.Code != http.StatusOK || first.Header().Get("Content-Type") != "text/event-stream" || !strings.Contains(first.Body.String(), "thoughtSignature") {
		t.Errorf("got %d %v %s", first.Code, first.Header(), first.Body)
	}
	if diff := cmp.Diff(first.Body.String(), second.Body.String()); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

// TestGoogleBadCalls verifies the rejection of calls that the vendor rejects.
func TestGoogleBadCalls(t *testing.T) {
	const (
		asks    = `{"role":"user","parts":[{"text":"x"}]},`
		skips   = `"thoughtSignature":"skip_thought_signature_validator"`
		called  = asks + `{"role":"model","parts":[{"functionCall":{"id":"c","name":"a","args":{}},` + skips + `}]}`
		answers = `,{"role":"user","parts":[{"functionResponse":{"id":"c","name":"a","response":{"output":"r"}}}]}`
		older   = asks + `{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}}]}`
	)
	for name, tt := range map[string]struct{ path, contents, want string }{
		"no contents":            {googleStream, ``, "messages are missing"},
		"no parts":               {googleStream, `{"role":"user","parts":[]}`, "parts are missing"},
		"unknown role":           {googleStream, `{"role":"system","parts":[{"text":"x"}]}`, "unknown role"},
		"empty text":             {googleStream, `{"role":"user","parts":[{"text":""}]}`, "no text"},
		"empty text of its":      {googleStream, asks + `{"role":"model","parts":[{"text":""}]}`, "text is empty"},
		"wrong image":            {googleStream, `{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"?"}}]}`, "decode image"},
		"unknown member":         {googleStream, `{"role":"user","parts":[{"text":"x","cacheControl":1}]}`, "unknown field"},
		"ends with answer":       {googleStream, asks + `{"role":"model","parts":[{"text":"x"}]}`, "last message"},
		"call not answered":      {googleStream, called + `,{"role":"user","parts":[{"text":"y"}]}`, "not answered"},
		"open call":              {googleStream, called, "last message"},
		"result without call":    {googleStream, `{"role":"user","parts":[{"functionResponse":{"id":"c","name":"a","response":{}}}]}`, "not equal"},
		"answered apart":         {googleStream, asks + `{"role":"model","parts":[{"functionCall":{"id":"c","name":"a","args":{}},` + skips + `},{"functionCall":{"id":"d","name":"a","args":{}}}]}` + answers, "not equal"},
		"result of another call": {googleStream, called + strings.Replace(answers, `"a"`, `"b"`, 1), `not a response of \"a\"`},
		"not signed":             {googleStream, strings.Replace(called, ","+skips, "", 1) + answers, "missing a thought_signature"},
		"signed by another":      {googleStream, strings.Replace(called, "skip_thought", "x", 1) + answers, "not valid"},
		"text by another":        {googleStream, asks + `{"role":"model","parts":[{"text":"a","thoughtSignature":"x"}]}`, "not valid"},
		"no id":                  {googleStream, strings.Replace(called, `"id":"c",`, "", 1) + answers, "has no valid id"},
		"id of another":          {googleStream, strings.Replace(called, `"id":"c"`, `"id":"c:0"`, 1) + answers, "no valid id"},
		"call after its text":    {googleStream, strings.Replace(called, `{"role":"model"`, `{"role":"model","parts":[{"text":"a"}]},{"role":"model"`, 1) + answers, "immediately after"},
		"args not an object":     {googleStream, strings.Replace(called, `"args":{}`, `"args":7`, 1) + answers, "not an object"},
		"id of an older model":   {googleOlder, called + answers, "unknown name"},
		"picture in a result":    {googleOlder, older + `,{"role":"user","parts":[{"functionResponse":{"name":"a","response":{},"parts":[{"text":"x"}]}}]}`, "must not have parts"},
		"array not allowed":      {strings.TrimSuffix(googleStream, "?alt=sse"), asks + `{"role":"user","parts":[{"text":"x"}]}`, "alt=sse"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tt.path, `{"contents":[`+tt.contents+`]}`, tt.want) })
	}
	if w := post("/v1beta/models/m:countTokens", "{}"); w.Code != http.StatusNotFound {
		t.Errorf("other method: got status %d, want 404", w.Code)
	}
}

// TestMetadataServer verifies that only requests with the vendor's header get the key.
func TestMetadataServer(t *testing.T) {
	const path = "/computeMetadata/v1/instance/service-accounts/default/token"
	for flavor, want := range map[string]string{"": "Metadata-Flavor", "Google": `"access_token":"right"`} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Metadata-Flavor", flavor)
		w := httptest.NewRecorder()
		fakemodel.New(&fakemodel.Options{Key: "right"}).ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), want) || (w.Code == http.StatusOK) != (flavor != "") {
			t.Errorf("%q: got %d %s", flavor, w.Code, w.Body)
		}
	}
}

func FuzzGoogle(f *testing.F) {
	f.Add(`{"role":"user","parts":[{"text":"tokens=1"}]}`)
	f.Add(`{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"r"}}}]},{"role":"user","parts":[{"text":"Images that were returned by a:"},{"inlineData":{"data":""}}]}`)
	f.Fuzz(func(t *testing.T, contents string) {
		for _, path := range []string{googleStream, googleOlder} {
			answer(t, path, `{"generationConfig":{"maxOutputTokens":50},"contents":[`+contents+`]}`)
		}
	})
}
