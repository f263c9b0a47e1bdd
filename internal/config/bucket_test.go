package config_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

func TestExplain(t *testing.T) {
	refused := func(status int, code string) error {
		return &storage.Error{Op: "list", Kind: storage.ErrRefused, Status: status, Code: code}
	}
	failed := func(op string, status int, code, message string) error {
		return &storage.Error{Op: op, Kind: storage.ErrUnavailable, Status: status, Code: code, Err: errors.New(message)}
	}
	at := config.Bucket{Endpoint: "s3.example.com", Name: "words", Prefix: "a", AccessKey: "k"}
	anonymous := at
	anonymous.AccessKey = ""
	for name, c := range map[string]struct {
		at   config.Bucket
		err  error
		want string
	}{
		"no key":       {anonymous, refused(http.StatusForbidden, "AccessDenied"), "name the variables of a key with bucket.accessKeyEnv and bucket.secretKeyEnv"},
		"another key":  {at, refused(http.StatusForbidden, "AccessDenied"), "check the variables that bucket.accessKeyEnv and bucket.secretKeyEnv name"},
		"no bucket":    {at, refused(http.StatusNotFound, "NoSuchBucket"), "create the bucket, or correct bucket.name"},
		"other region": {at, refused(http.StatusMovedPermanently, ""), "check bucket.region and bucket.endpoint"},
		"no answer":    {at, errors.New("refused"), "that the server is up and reachable from here"},
		"throttled":    {at, failed("get", http.StatusServiceUnavailable, "SlowDown", ""), "the store throttles requests"},
		"throttled, after some attempts": {at, &storage.Error{Op: "get", Kind: storage.ErrUnavailable, Err: errors.Join(context.DeadlineExceeded,
			failed("get", http.StatusServiceUnavailable, "SlowDown", ""))}, "the store throttles requests"},
		"throttled by a proxy": {at, failed("get", http.StatusTooManyRequests, "", ""), "the store throttles requests"},
		"failing":              {at, failed("get", http.StatusInternalServerError, "InternalError", ""), "check its state and its log"},
		"session is over":      {at, refused(http.StatusBadRequest, "ExpiredToken"), "name a permanent key with bucket.accessKeyEnv"},
		"session is over, 403": {at, refused(http.StatusForbidden, "ExpiredToken"), "name a permanent key with bucket.accessKeyEnv"},
		"object lock, put": {at, failed("create", http.StatusBadRequest, "InvalidRequest",
			"Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"), "use a bucket without object lock"},
		"object lock, delete": {at, failed("delete", http.StatusForbidden, "AccessDenied", "Access Denied because object protected by object lock."), "use a bucket without object lock"},
		"no condition":        {at, failed("create", http.StatusForbidden, "SignatureDoesNotMatch", ""), "a proxy before the store drops or changes If-None-Match"},
		"wrong secret":        {at, failed("get", http.StatusForbidden, "SignatureDoesNotMatch", ""), "check the variables that bucket.accessKeyEnv"},
		"another sender": {at, &storage.Error{Op: "get", Kind: storage.ErrUnavailable, Status: http.StatusOK,
			Err: &storage.AnswerError{Found: "a page", Remedy: "connect to the store itself"}}, "connect to the store itself; check bucket.endpoint"},
	} {
		got := c.at.Explain(c.err).Error()
		if !strings.HasPrefix(got, `bucket "words" at s3.example.com under "a" cannot be used: `) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (config.Bucket{Dir: "./data"}).Place(); got != "folder ./data" {
		t.Errorf("a folder is %q", got)
	}
}
