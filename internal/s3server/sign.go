package s3server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listBuckets returns the request for the list of buckets, signed by version 4 of
// AWS's scheme: the one request that every server answers before it has a bucket.
func (s *Server) listBuckets(t testing.TB, now time.Time) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Endpoint+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	const headers = "host;x-amz-content-sha256;x-amz-date"
	at := now.UTC().Format("20060102T150405Z")
	day, empty := at[:8], digest("")
	canonical := strings.Join([]string{
		req.Method, "/", "",
		"host:" + s.Endpoint, "x-amz-content-sha256:" + empty, "x-amz-date:" + at, "",
		headers, empty,
	}, "\n")
	scope := day + "/" + s.Region + "/s3/aws4_request"
	key := []byte("AWS4" + s.SecretKey)
	for _, part := range []string{day, s.Region, "s3", "aws4_request"} {
		key = authenticate(key, part)
	}
	signature := authenticate(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, digest(canonical)}, "\n"))
	req.Header.Set("X-Amz-Content-Sha256", empty)
	req.Header.Set("X-Amz-Date", at)
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", s.AccessKey, scope, headers, signature))
	return req
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func authenticate(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
