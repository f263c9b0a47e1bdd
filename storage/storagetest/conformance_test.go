package storagetest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// onServers runs a test on every server there is, under the race detector on that of this
// process alone, since it sees no other. empty tells where a bucket is that nobody else
// uses.
func onServers(t *testing.T, test func(t *testing.T, empty func(*testing.T) s3.Options)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func(t *testing.T) s3.Options { return inProcess(memory(t)) })
	})
	if sample.Of(false, true) {
		return
	}
	t.Run("folder", func(t *testing.T) {
		test(t, func(t *testing.T) s3.Options {
			return inProcess(folder(t))
		})
	})
	s3server.Each(t, func(t *testing.T, server *s3server.Server) {
		transport := s3.NewTransport()
		transport.ResponseHeaderTimeout = time.Minute // A busy machine must not decide a test.
		t.Cleanup(transport.CloseIdleConnections)
		test(t, func(t *testing.T) s3.Options {
			return s3.Options{
				Endpoint: server.Endpoint, Bucket: server.Bucket(t), Region: server.Region,
				AccessKey: server.AccessKey, SecretKey: server.SecretKey, Transport: transport,
			}
		})
	})
}

// decorated uses a server through the decorators and below a prefix.
func decorated(t *testing.T, o s3.Options) storage.Bucket {
	o.Transport = storagetest.NewTransportCounter(storagetest.FaultyTransport(o.Transport, storagetest.Plan{}))
	o.Prefix = "some where/"
	return open(t, o)
}

// TestBucket: what a server does with prefixes is its own affair, so it is asked both ways.
func TestBucket(t *testing.T) {
	onServers(t, func(t *testing.T, empty func(*testing.T) s3.Options) {
		t.Run("plain", func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return open(t, empty(t)) })
		})
		t.Run("decorated", func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return decorated(t, empty(t)) })
		})
	})
}

func TestLog(t *testing.T) {
	onServers(t, func(t *testing.T, empty func(*testing.T) s3.Options) {
		storagetest.RunLog(t, func(t *testing.T) storage.Bucket { return open(t, empty(t)) })
	})
	t.Run("decorated", func(t *testing.T) {
		storagetest.RunLog(t, func(t *testing.T) storage.Bucket { return decorated(t, inProcess(memory(t))) })
	})
}

// TestBucketsOfThisProcess holds the embedded bucket to the rules, by itself and through
// the decorators.
func TestBucketsOfThisProcess(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) storage.Bucket{
		"memory": func(t *testing.T) storage.Bucket { return memory(t) },
		"folder": func(t *testing.T) storage.Bucket { return folder(t) },
		"decorated": func(t *testing.T) storage.Bucket {
			return storagetest.NewCounter().Bucket(storagetest.Faulty(memory(t), storagetest.Plan{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("bucket", func(t *testing.T) { storagetest.RunBucket(t, make) })
			t.Run("log", func(t *testing.T) { storagetest.RunLog(t, make) })
		})
	}
}

func folder(t *testing.T) *local.Store {
	t.Helper()
	store, err := local.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	return store
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

// inProcess tells where the bucket of storage/local is, behind a transport.
func inProcess(rt http.RoundTripper) s3.Options {
	return s3.Options{
		Endpoint: local.Endpoint, Bucket: local.Bucket, Region: local.Region, PathStyle: true,
		AccessKey: "test", SecretKey: "testtest", Transport: rt,
	}
}

func open(t *testing.T, o s3.Options) *s3.Bucket {
	t.Helper()
	b, err := s3.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bucket(t *testing.T, rt http.RoundTripper, prefix string) *s3.Bucket {
	t.Helper()
	o := inProcess(rt)
	o.Prefix = prefix
	return open(t, o)
}

func testKey(t *testing.T) conversation.Key {
	return conversation.Address{Agent: "a", ID: t.Name()}.Key()
}
