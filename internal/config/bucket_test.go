package config_test

import (
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
	at := config.Bucket{Endpoint: "s3.example.com", Name: "words", Prefix: "a", AccessKey: "k"}
	nobody := at
	nobody.AccessKey = ""
	for name, c := range map[string]struct {
		at   config.Bucket
		err  error
		want string
	}{
		"no key":       {nobody, refused(http.StatusForbidden, "AccessDenied"), "name the variables of one with bucket.accessKeyEnv and bucket.secretKeyEnv"},
		"another key":  {at, refused(http.StatusForbidden, "AccessDenied"), "check the variables that bucket.accessKeyEnv and bucket.secretKeyEnv name"},
		"no bucket":    {at, refused(http.StatusNotFound, "NoSuchBucket"), "create the bucket, or correct bucket.name"},
		"other region": {at, refused(http.StatusMovedPermanently, ""), "check bucket.region and bucket.endpoint"},
		"no answer":    {at, errors.New("refused"), "that the server is up and reachable from here"},
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
