package storagetest_test

import (
	"net/http"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// stacks are the transports the suites run on, the decorators among them.
var stacks = map[string]func(t *testing.T) http.RoundTripper{
	"memory": func(t *testing.T) http.RoundTripper { return memory(t) },
	"folder": func(t *testing.T) http.RoundTripper {
		store, err := local.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, store) })
		return store
	},
	"decorated": func(t *testing.T) http.RoundTripper {
		return storagetest.NewCounter(storagetest.Faulty(memory(t), storagetest.Plan{}))
	},
}

func TestBucket(t *testing.T) {
	for name, stack := range stacks {
		t.Run(name, func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return bucket(t, stack(t), "") })
		})
	}
	t.Run("prefix", func(t *testing.T) {
		storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return bucket(t, memory(t), "some where/") })
	})
}

func TestLog(t *testing.T) {
	for name, stack := range stacks {
		t.Run(name, func(t *testing.T) {
			storagetest.RunLog(t, func(t *testing.T) storage.Bucket { return bucket(t, stack(t), "") })
		})
	}
}

func memory(t *testing.T) *local.Store {
	store := local.NewMemory()
	t.Cleanup(func() { closeStore(t, store) })
	return store
}

func closeStore(t *testing.T, store *local.Store) {
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func bucket(t *testing.T, rt http.RoundTripper, prefix string) *s3.Bucket {
	t.Helper()
	b, err := s3.New(&s3.Options{
		Endpoint: local.Endpoint, Bucket: local.Bucket, Region: local.Region, PathStyle: true,
		Prefix: prefix, AccessKey: "test", SecretKey: "testtest", Transport: rt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testKey(t *testing.T) conversation.Key {
	return conversation.Address{Agent: "a", ID: t.Name()}.Key()
}
