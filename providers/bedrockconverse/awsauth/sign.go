package awsauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Credentials are credentials for signing requests.
type Credentials struct {
	AccessKeyID, SecretAccessKey string
	// SessionToken belongs to temporary keys; empty for others.
	SessionToken string
	// Expires is the expiry; zero for never.
	Expires time.Time
}

const tokenHeader = "X-Amz-Security-Token"

// Sign adds a version 4 signature to a request. It covers all headers except those that proxies
// change. payload is the SHA-256 of the body.
//
// The algorithm signs a hash of the canonical request with a key derived from the secret, the date,
// the region and the service.
func Sign(r *http.Request, c Credentials, region, service string, payload [sha256.Size]byte, at time.Time) {
	const stampLayout, day = "20060102T150405Z", 8
	stamp := at.UTC().Format(stampLayout)
	r.Header.Set("X-Amz-Date", stamp)
	if c.SessionToken != "" {
		r.Header.Set(tokenHeader, c.SessionToken)
	}
	names, headers := canonicalHeaders(r)
	canonical := strings.Join([]string{
		r.Method, canonicalPath(r.URL), canonicalQuery(r.URL), headers, names, hex.EncodeToString(payload[:]),
	}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	scope := []string{stamp[:day], region, service, "aws4_request"}
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, strings.Join(scope, "/"), hex.EncodeToString(hashed[:])}, "\n")
	key := []byte("AWS4" + c.SecretAccessKey)
	for _, part := range append(scope, toSign) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.AccessKeyID+"/"+strings.Join(scope, "/")+
		", SignedHeaders="+names+", Signature="+hex.EncodeToString(key))
}

// canonicalHeaders returns the names of the signed headers, and the canonical headers.
func canonicalHeaders(r *http.Request) (names, headers string) {
	signed := map[string]string{"host": r.Host}
	if r.Host == "" {
		signed["host"] = r.URL.Host
	}
	if r.ContentLength > 0 {
		signed["content-length"] = strconv.FormatInt(r.ContentLength, 10)
	}
	for name, values := range r.Header {
		switch name = strings.ToLower(name); name {
		case "authorization", "connection", "expect", "transfer-encoding", "user-agent", "x-amzn-trace-id":
			continue
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		signed[name] = strings.Join(trimmed, ",")
	}
	sorted := slices.Sorted(maps.Keys(signed))
	var b strings.Builder
	for _, name := range sorted {
		b.WriteString(name + ":" + signed[name] + "\n")
	}
	return strings.Join(sorted, ";"), b.String()
}

// canonicalPath returns the path in the request, encoded once more.
func canonicalPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = Escape(s)
	}
	return strings.Join(segments, "/")
}

func canonicalQuery(u *url.URL) string {
	encoded := map[string][]string{}
	for key, values := range u.Query() {
		for _, v := range values {
			encoded[Escape(key)] = append(encoded[Escape(key)], Escape(v))
		}
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(encoded)) {
		slices.Sort(encoded[key])
		for _, v := range encoded[key] {
			pairs = append(pairs, key+"="+v)
		}
	}
	return strings.Join(pairs, "&")
}

// Escape percent-encodes all bytes except letters, digits and "-._~", as signed path segments require.
func Escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
