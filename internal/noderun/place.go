package noderun

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
)

// Place is where the data of nodes is: a folder, or a bucket of an S3 server.
type Place struct {
	Dir                                            string
	Endpoint, Bucket, Region, AccessKey, SecretKey string
}

// NewBucket makes an empty bucket on a server.
func NewBucket(t testing.TB, s *s3server.Server) Place {
	t.Helper()
	return Place{Endpoint: s.Endpoint, Bucket: s.Bucket(t), Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

// Open returns the bucket and what closes it. No node may serve a folder meanwhile.
func (p Place) Open() (storage.Bucket, func() error, error) {
	if p.Dir == "" {
		b, err := s3.New(&s3.Options{
			Endpoint: p.Endpoint, Bucket: p.Bucket, Region: p.Region, PathStyle: true, AccessKey: p.AccessKey, SecretKey: p.SecretKey,
		})
		return b, func() error { return nil }, err
	}
	store, err := local.Open(p.Dir, nil)
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// Probe has a bucket pass its probe under the endpoint that nodes see, so that no start has to under replaced answers.
func (p Place) Probe(t testing.TB) {
	t.Helper()
	bucket, closeBucket, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeBucket()
	if err := storage.EnsureFormat(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.EnsureProbed(t.Context(), bucket, p.Endpoint, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
}

// Names of the variables of [Place.Env].
const keyEnv, secretEnv = "NODERUN_KEY", "NODERUN_SECRET"

// Env is the environment of a program that a configuration tells of the place.
func (p Place) Env() []string {
	return []string{keyEnv + "=" + p.AccessKey, secretEnv + "=" + p.SecretKey}
}

// Config names the place in a configuration, by a line to its end.
func (p Place) Config() string {
	if p.Dir != "" {
		return fmt.Sprintf("bucket: {dir: %q}\n", p.Dir)
	}
	return fmt.Sprintf("bucket: {endpoint: %q, name: %s, region: %s, secure: false, accessKeyEnv: %s, secretKeyEnv: %s}\n",
		p.Endpoint, p.Bucket, p.Region, keyEnv, secretEnv)
}
