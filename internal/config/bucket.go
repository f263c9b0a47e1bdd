package config

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// Open returns a client of the bucket at its endpoint. It asks nothing yet.
func (b Bucket) Open() (*s3.Bucket, error) {
	prefix := b.Prefix
	if prefix != "" {
		prefix += "/"
	}
	return s3.New(&s3.Options{
		Endpoint: b.Endpoint, Bucket: b.Name, Region: b.Region, Prefix: prefix, Secure: b.Secure,
		AccessKey: b.AccessKey, SecretKey: b.SecretKey,
	})
}

// Place names a bucket for a person.
func (b Bucket) Place() string {
	if b.Endpoint == "" {
		return "folder " + b.Dir
	}
	name := fmt.Sprintf("bucket %q at %s", b.Name, b.Endpoint)
	if b.Prefix != "" {
		name += fmt.Sprintf(" under %q", b.Prefix)
	}
	return name
}

// Explain says what to do about a bucket that cannot be used.
func (b Bucket) Explain(err error) error {
	var format *storage.FormatError
	var broken *storage.ProbeError
	if errors.As(err, &format) || errors.As(err, &broken) {
		return fmt.Errorf("%s: %w", b.Place(), err)
	}
	var clock *storage.ClockError
	if errors.As(err, &clock) || b.Endpoint == "" {
		return fmt.Errorf("%s cannot be used: %w", b.Place(), err) // it has the remedy
	}
	remedy := "check bucket.endpoint and bucket.secure, and that the server is up and reachable from here"
	var e *storage.Error
	if errors.As(err, &e) && e.Status != 0 && errors.Is(err, storage.ErrRefused) {
		remedy = b.remedy(e)
	}
	return fmt.Errorf("%s cannot be used: %w; %s", b.Place(), err, remedy)
}

// remedy reads a refusal of the endpoint.
func (b Bucket) remedy(e *storage.Error) string {
	switch {
	case e.Code == "NoSuchBucket":
		return "create the bucket, or correct bucket.name"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
		strings.Contains(e.Code, "AccessKey") || strings.Contains(e.Code, "User"):
		if b.AccessKey == "" {
			return "requests go without a key: name the variables of one with bucket.accessKeyEnv and bucket.secretKeyEnv"
		}
		return "check the variables that bucket.accessKeyEnv and bucket.secretKeyEnv name, and that the key may list, read, write and delete there"
	case e.Status/100 == 3 || e.Code == "AuthorizationHeaderMalformed":
		return "check bucket.region and bucket.endpoint"
	}
	return "check bucket.endpoint, bucket.name, bucket.region and bucket.secure"
}
