package providers_test

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

func TestParseVendorError(t *testing.T) {
	for raw, want := range map[string]struct {
		status        int
		code, message string
	}{
		`{"message":"m","code":"c","type":"t"}`:                            {0, "c", "m"},
		`{"message":"m","code":null,"type":"t"}`:                           {0, "t", "m"},
		`{"message":"m","code":503}`:                                       {503, "", "m"},
		`{"message":"m","code":1261}`:                                      {0, "1261", "m"},
		`{"message":"m","code":"502","type":"t"}`:                          {502, "t", "m"},
		`{"message":"m","code":"3051"}`:                                    {0, "3051", "m"},
		`{"message":"m","status":503}`:                                     {503, "", "m"},
		`{"message":"m","http_status_code":422}`:                           {422, "", "m"},
		`{"detail":"d"}`:                                                   {0, "", "d"},
		`{"detail":[{"loc":1}],"type":7}`:                                  {0, "", ""},
		`"text"`:                                                           {0, "", "text"},
		`{"message":"m","status":"NOT_FOUND","code":404}`:                  {404, "NOT_FOUND", "m"},
		`{"message":"m","code":400,"metadata":{"raw":"cause","other":{}}}`: {400, "", "m\ncause"},
		`{"message":"m","metadata":7}`:                                     {0, "", "m"},
		`{"__type":"com.amazon.coral#ThrottlingException","Message":"m"}`:  {0, "ThrottlingException", "m"},
		`{"__type":"a#B","type":"t","message":"m"}`:                        {0, "t", "m"},
		`null`: {0, "", ""},
		`[1]`:  {0, "", ""},
		`{`:    {0, "", ""},
	} {
		status, code, message := providers.ParseVendorError([]byte(raw))
		if status != want.status || code != want.code || message != want.message {
			t.Errorf("%s: got %d %q %q", raw, status, code, message)
		}
	}
}

// FuzzResponseError checks that every response yields a usable error.
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

// TestResponseErrorShapes reads errors in the places that vendors use.
func TestResponseErrorShapes(t *testing.T) {
	for body, want := range map[string]struct {
		kind       providers.ErrorKind
		code, text string
	}{
		`{"code":"invalid-argument","error":"Incorrect API key provided."}`:                   {providers.KindAuth, "invalid-argument", "Incorrect API key provided."},
		`[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]`: {providers.KindAuth, "INVALID_ARGUMENT", "API key not valid."},
		`{"detail":"Unsupported parameter: max_output_tokens"}`:                               {providers.KindInvalidRequest, "", "Unsupported parameter: max_output_tokens"},
	} {
		e := providers.ResponseError(http.StatusBadRequest, nil, []byte(body))
		var vendor *providers.VendorError
		if e.Kind != want.kind || !errors.As(e, &vendor) || vendor.Code != want.code || vendor.Message != want.text {
			t.Errorf("%s: got %+v", body, e)
		}
	}
}

// TestResponseErrorsOfServices reads an exception name from a header, and the model's status from the
// body of a 424.
// covers: providers/169
func TestResponseErrorsOfServices(t *testing.T) {
	const at = ":http://internal.example/coral/"
	for name, tt := range map[string]struct {
		status       int
		header, body string
		kind         providers.ErrorKind
		code, hint   string
	}{
		"overflow":        {400, "ValidationException" + at, `{"message":"Input Tokens Exceeded: Number of input tokens exceeds maximum length."}`, providers.KindContextOverflow, "ValidationException", ""},
		"wrong key":       {403, "UnrecognizedClientException" + at, `{"message":"The security token is invalid."}`, providers.KindAuth, "UnrecognizedClientException", ""},
		"no prompt cache": {403, "AccessDeniedException", `{"message":"You invoked an unsupported model or your request did not allow prompt caching."}`, providers.KindInvalidRequest, "AccessDeniedException", ""},
		"throttled":       {429, "", `{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}`, providers.KindRateLimit, "ThrottlingException", ""},
		"quota":           {400, "ServiceQuotaExceededException", `{"message":"Your request exceeds the service quota for your account."}`, providers.KindQuota, "ServiceQuotaExceededException", ""},
		"timeout":         {408, "ModelTimeoutException", `{"message":"m"}`, providers.KindOverloaded, "ModelTimeoutException", ""},
		"model failed":    {424, "ModelErrorException", `{"message":"m","originalStatusCode":500}`, providers.KindOverloaded, "ModelErrorException", ""},
		"model refused":   {424, "ModelErrorException", `{"message":"m","originalStatusCode":400}`, providers.KindInvalidRequest, "ModelErrorException", ""},
		"no such status":  {400, "", `{"message":"m","originalStatusCode":500}`, providers.KindInvalidRequest, "", ""},
		"no throughput":   {400, "ValidationException", `{"message":"Invocation of model ID m with on-demand throughput isn\u2019t supported."}`, providers.KindInvalidRequest, "ValidationException", "inference profile"},
	} {
		e := providers.ResponseError(tt.status, http.Header{"X-Amzn-Errortype": {tt.header}, "X-Amzn-Requestid": {"r-1"}}, []byte(tt.body))
		var vendor *providers.VendorError
		if e.Kind != tt.kind || e.Status != tt.status || e.RequestID != "r-1" || !errors.As(e, &vendor) || vendor.Code != tt.code || !strings.Contains(e.Error(), tt.hint) {
			t.Errorf("%s: got %+v", name, e)
		}
		if hinted := strings.Contains(providers.HideInError(e, []string{"secret of the call"}).Error(), "inference profile"); hinted != (tt.hint != "") {
			t.Errorf("%s: got %q", name, e.Error())
		}
	}
}

// TestStreamErrorsByPosition reads errors inside a stream, and gateway errors with a success status.
// Only the object determines the status.
// covers: providers/205
func TestStreamErrorsByPosition(t *testing.T) {
	for object, want := range map[string]struct {
		kind   providers.ErrorKind
		status int // 0 means unknown
	}{
		`{"message":"upstream","code":"502"}`:                                                       {providers.KindOverloaded, 502},
		`{"message":"m","status":429}`:                                                              {providers.KindRateLimit, 429},
		`{"message":"m","code":"429"}`:                                                              {providers.KindRateLimit, 429},
		`{"message":"m","type":"RATE_LIMIT_EXCEEDED"}`:                                              {providers.KindRateLimit, 429},
		`"Too many requests"`:                                                                       {providers.KindRateLimit, 0},
		`{"message":"RateLimitError: Rate limit reached for m"}`:                                    {providers.KindRateLimit, 0},
		`{"message":"Invalid tool get_rate_limit: too many requests"}`:                              {providers.KindInvalidRequest, 0},
		`{"message":"the tool get_timeout is not there"}`:                                           {providers.KindProtocol, 0},
		`{"message":"Engine overloaded."}`:                                                          {providers.KindOverloaded, 0},
		`{"message":"prompt is too long: 9 tokens"}`:                                                {providers.KindContextOverflow, 0},
		`{"message":"Value error, input_value='prompt is too long', input_type=str"}`:               {providers.KindProtocol, 0},
		`{"message":"This model's maximum context length is 8 tokens, not '9'."}`:                   {providers.KindContextOverflow, 0},
		`{"message":"VendorError - {\"error\":{\"code\":\"overloaded_error\",\"message\":\"m\"}}"}`: {providers.KindOverloaded, 503},
	} {
		inStream := providers.StreamError(0, []byte(object), nil)
		asSuccess := providers.ResponseError(http.StatusOK, nil, []byte(`{"error":`+object+`}`))
		status := cmp.Or(want.status, http.StatusOK)
		if inStream.Kind != want.kind || inStream.Status != status || asSuccess.Kind != want.kind || asSuccess.Status != http.StatusOK {
			t.Errorf("%s: got %s (%d) in a stream and %s (%d) as a success, want %s (%d)",
				object, inStream.Kind, inStream.Status, asSuccess.Kind, asSuccess.Status, want.kind, status)
		}
	}
}
