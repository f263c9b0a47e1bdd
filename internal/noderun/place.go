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

// Place is the location of the nodes' data: a folder, or a bucket of an S3 server.
type Place struct {
	Dir                                            string
	Endpoint, Bucket, Region, AccessKey, SecretKey string
}

// NewBucket makes an empty bucket on a server.
func NewBucket(t testing.TB, s *s3server.Server) Place {
	t.Helper()
	return Place{Endpoint: s.Endpoint, Bucket: s.Bucket(t), Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

// Open returns the bucket and its close function. No node may serve the folder at the same time.
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

// Probe runs the bucket's probe under the endpoint of the nodes, so that no start needs it under
// replaced answers.
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

// keyEnv and secretEnv are the environment variables of [Place.Env].
const keyEnv, secretEnv = "NODERUN_KEY", "NODERUN_SECRET"

// Env returns the environment for a program configured with [Place.Config].
func (p Place) Env() []string {
	return []string{keyEnv + "=" + p.AccessKey, secretEnv + "=" + p.SecretKey}
}

// Config returns the place as a line of a configuration.
func (p Place) Config() string {
	if p.Dir != "" {
		return fmt.Sprintf("bucket: {dir: %q}\n", p.Dir)
	}
	return fmt.Sprintf("bucket: {endpoint: %q, name: %s, region: %s, secure: false, accessKeyEnv: %s, secretKeyEnv: %s}\n",
		p.Endpoint, p.Bucket, p.Region, keyEnv, secretEnv)
}
