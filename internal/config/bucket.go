package config

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// Open returns a client of the bucket at its endpoint. It sends no request.
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

// Place describes a bucket for the user.
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

// Explain adds a remedy to the error of an unusable bucket.
func (b Bucket) Explain(err error) error {
	var format *storage.FormatError
	var broken *storage.ProbeError
	if errors.As(err, &format) || errors.As(err, &broken) {
		return fmt.Errorf("%s: %w", b.Place(), err)
	}
	var clock *storage.ClockError
	if errors.As(err, &clock) || b.Endpoint == "" {
		return fmt.Errorf("%s cannot be used: %w", b.Place(), err) // it has a remedy
	}
	remedy := "check bucket.endpoint and bucket.secure, and that the server is up and reachable from here"
	var answer *storage.AnswerError
	if errors.As(err, &answer) {
		remedy = checkPlace
	} else if e := answered(err); e != nil {
		remedy = b.remedy(e)
	}
	return fmt.Errorf("%s cannot be used: %w; %s", b.Place(), err, remedy)
}

// checkPlace is the remedy for a response that is not from an S3 store.
const checkPlace = "check bucket.endpoint, bucket.name, bucket.region and bucket.secure"

// answered returns the error of a request that got a response, nil if none did.
func answered(err error) (e *storage.Error) {
	for errors.As(err, &e) && e.Status == 0 {
		err = e.Err
	}
	if e == nil || e.Status == 0 {
		return nil
	}
	return e
}

// remedy returns the remedy for an error response of the endpoint.
func (b Bucket) remedy(e *storage.Error) string {
	text := strings.ToLower(e.Error())
	switch {
	case strings.Contains(text, "slowdown") || strings.Contains(text, "throttl") || e.Status == http.StatusTooManyRequests:
		return "the store throttles requests: reduce its load or raise its limits, then start again"
	case e.Status >= http.StatusInternalServerError:
		return "the store reports an internal failure: check its state and its log"
	case strings.Contains(e.Code, "Token"):
		return "the key belongs to an expired session, or needs a session token, which is not supported: " +
			"name a permanent key with bucket.accessKeyEnv and bucket.secretKeyEnv"
	case strings.Contains(text, "object lock") || strings.Contains(e.Code, "ObjectLock") || strings.Contains(text, "content-md5"):
		return "object lock is on: objects must be created without a digest header and deleted at once, use a bucket without object lock and retention"
	case e.Code == "SignatureDoesNotMatch" && e.Op == storage.OpCreate:
		return "reads with this key succeed, so a proxy before the store drops or changes If-None-Match, which is signed: connect to the store itself, " +
			"or make the proxy forward the header"
	case e.Code == "NoSuchBucket":
		return "create the bucket, or correct bucket.name"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
		strings.Contains(e.Code, "AccessKey") || strings.Contains(e.Code, "User"):
		if b.AccessKey == "" {
			return "requests are anonymous: name the variables of a key with bucket.accessKeyEnv and bucket.secretKeyEnv"
		}
		return "check the variables that bucket.accessKeyEnv and bucket.secretKeyEnv name, and that the key may list, read, write and delete there"
	case e.Status/100 == 3 || e.Code == "AuthorizationHeaderMalformed":
		return "check bucket.region and bucket.endpoint"
	}
	return checkPlace
}
