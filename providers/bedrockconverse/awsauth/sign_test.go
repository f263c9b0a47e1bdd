package awsauth_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
)

// example are the credentials of the vendor's test suite.
var example = awsauth.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}

// TestSign runs cases of the vendor's test suite for version 4 signatures.
// covers: providers/158
func TestSign(t *testing.T) {
	const (
		token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
		all   = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		sts   = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
	)
	type header = http.Header
	for name, tt := range map[string]struct {
		method, target, token, body string
		header                      header
		names, signature            string
	}{
		"get-vanilla":                      {"GET", "/", "", "", nil, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-vanilla-with-session-token":   {"GET", "/", token, "", nil, "host;x-amz-date;x-amz-security-token", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
		"post-vanilla":                     {"POST", "/", "", "", nil, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-sts-header-before":           {"POST", "/", sts, "", nil, "host;x-amz-date;x-amz-security-token", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
		"get-unreserved":                   {"GET", "/" + all, "", "", nil, "host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		"get-header-value-trim":            {"GET", "/", "", "", header{"My-Header1": {" value1"}, "My-Header2": {` "a   b   c"`}}, "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		"get-header-key-duplicate":         {"GET", "/", "", "", header{"My-Header1": {"value2", "value2", "value1"}}, "host;my-header1;x-amz-date", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
		"post-header-key-sort":             {"POST", "/", "", "", header{"My-Header1": {"value1"}}, "host;my-header1;x-amz-date", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		"get-vanilla-query-order-key-case": {"GET", "/?Param2=value2&Param1=value1", "", "", nil, "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"get-vanilla-query-order-value":    {"GET", "/?Param1=value2&Param1=value1", "", "", nil, "host;x-amz-date", "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
		"get-vanilla-query-order-encoded":  {"GET", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", "", "", nil, "host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		"get-vanilla-query-unreserved":     {"GET", "/?" + all + "=" + all, "", "", nil, "host;x-amz-date", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
		"post-x-www-form-urlencoded": {"POST", "/", "", "Param1=value1", header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "X-Amz-Content-Sha256": {"9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"},
			"User-Agent": {"not signed"}, "Connection": {"close"},
		}, "content-length;content-type;host;x-amz-content-sha256;x-amz-date", "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, "https://example.amazonaws.com"+tt.target, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != nil {
				r.Header = tt.header
			}
			keys := example
			keys.SessionToken = tt.token
			awsauth.Sign(r, keys, "us-east-1", "service", sha256.Sum256([]byte(tt.body)), time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + tt.names + ", Signature=" + tt.signature
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if r.Header.Get("X-Amz-Date") != "20150830T123600Z" || r.Header.Get("X-Amz-Security-Token") != tt.token {
				t.Errorf("got headers %v", r.Header)
			}
		})
	}
}

// TestSignConverse signs a model call like the vendor's own signer: the path is encoded once more.
// covers: providers/158
func TestSignConverse(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	for token, want := range map[string]string{
		"":              "accept;content-length;content-type;host;x-amz-date, Signature=d412a8f93d44357828403a772351ec8f78d6c87ac8105c443ee8c9c24248f161",
		"session-token": "accept;content-length;content-type;host;x-amz-date;x-amz-security-token, Signature=85ba5274afe4fee5ee937b8197cfdc542f02a376e5e553bb29e1562e99897d3e",
	} {
		r, err := http.NewRequest(http.MethodPost, "https://bedrock-runtime.us-east-1.amazonaws.com/model/"+
			awsauth.Escape("us.anthropic.claude-sonnet-4-20250514-v1:0")+"/converse-stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Accept": {"application/vnd.amazon.eventstream"}, "Content-Type": {"application/json"}}
		keys := example
		keys.SessionToken = token
		at := time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
		awsauth.Sign(r, keys, "us-east-1", "bedrock", sha256.Sum256([]byte(body)), at)
		want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request, SignedHeaders=" + want
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
