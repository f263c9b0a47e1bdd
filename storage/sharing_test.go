package storage_test

import (
	"testing"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// fullBucket is a bucket with all optional methods.
type fullBucket struct{ storage.Bucket }

func (fullBucket) Exclusive() bool           { return true }
func (fullBucket) Endpoint() string          { return "store.example" }
func (fullBucket) ClockAhead() time.Duration { return time.Minute }

// TestDecoratorsHideNothing checks that every decorator forwards the optional methods of its bucket.
func TestDecoratorsHideNothing(t *testing.T) {
	for name, over := range map[string]func(storage.Bucket) storage.Bucket{
		"retried": func(b storage.Bucket) storage.Bucket { return storage.Retried(b, storage.Retry{}) },
		"faulty":  func(b storage.Bucket) storage.Bucket { return storagetest.Faulty(b, storagetest.Plan{}) },
		"counted": storagetest.NewCounter().Bucket,
		"said":    storagetest.Exclusive,
		"several": func(b storage.Bucket) storage.Bucket {
			return storage.Retried(storagetest.Faulty(storagetest.NewCounter().Bucket(b), storagetest.Plan{}), storage.Retry{})
		},
	} {
		b := over(fullBucket{})
		if !storage.IsExclusive(b) || storage.EndpointOf(b) != "store.example" || storage.ClockAhead(b) != time.Minute {
			t.Errorf("%s: %v, %q, %v", name, storage.IsExclusive(b), storage.EndpointOf(b), storage.ClockAhead(b))
		}
	}
}

func TestBucketReach(t *testing.T) {
	endpoint, err := s3.New(&s3.Options{Endpoint: "store.example", Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	memory := local.NewMemory()
	defer memory.Close()
	for name, tt := range map[string]struct {
		bucket    storage.Bucket
		exclusive bool
		endpoint  string
	}{
		"memory":             {memory, true, ""},
		"endpoint":           {endpoint, false, "store.example"},
		"silent":             {struct{ storage.Bucket }{memory}, false, ""},
		"nothing":            {nil, false, ""},
		"shared memory":      {storagetest.Shared(memory), false, ""},
		"exclusive endpoint": {storagetest.Exclusive(endpoint), true, "store.example"},
	} {
		if got := storage.IsExclusive(tt.bucket); got != tt.exclusive {
			t.Errorf("%s: exclusive is %v", name, got)
		}
		if got := storage.EndpointOf(tt.bucket); got != tt.endpoint {
			t.Errorf("%s: endpoint is %q", name, got)
		}
	}
}
