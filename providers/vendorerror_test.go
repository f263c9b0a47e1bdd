package providers_test

import (
	"net/http"
	"testing"

	"github.com/parleyrun/parley/providers"
)

func TestParseVendorError(t *testing.T) {
	for raw, want := range map[string]struct {
		status        int
		code, message string
	}{
		`{"message":"m","code":"c","type":"t"}`:  {0, "c", "m"},
		`{"message":"m","code":null,"type":"t"}`: {0, "t", "m"},
		`{"message":"m","code":503}`:             {503, "", "m"},
		`{"message":"m","code":1261}`:            {0, "", "m"},
		`{"detail":"d"}`:                         {0, "", "d"},
		`{"detail":[{"loc":1}],"type":7}`:        {0, "", ""},
		`"text"`:                                 {0, "", "text"},
		`null`:                                   {0, "", ""},
		`[1]`:                                    {0, "", ""},
		`{`:                                      {0, "", ""},
	} {
		status, code, message := providers.ParseVendorError([]byte(raw))
		if status != want.status || code != want.code || message != want.message {
			t.Errorf("%s: got %d %q %q", raw, status, code, message)
		}
	}
}

// FuzzResponseError checks that every response makes a usable error.
func FuzzResponseError(f *testing.F) {
	f.Add(429, "1", []byte(`{"error":{"message":"m","code":"c"}}`))
	f.Add(200, "Mon, 01 Jan 1990 00:00:00 GMT", []byte(`{"error":"m"}`))
	f.Add(500, "1e999", []byte(`<html>`))
	f.Add(400, "-1", []byte(`{"error":{"code":1e400}}`))
	f.Fuzz(func(t *testing.T, status int, wait string, body []byte) {
		e := providers.ResponseError(status, http.Header{"Retry-After": {wait}}, body)
		if e.Kind == "" || e.Status != status || len(e.Body) > providers.MaxErrorBody || e.RetryAfter < 0 || e.Error() == "" {
			t.Errorf("got %+v", e)
		}
	})
}
