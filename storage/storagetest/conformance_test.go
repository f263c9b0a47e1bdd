package storagetest_test

import (
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// onServers runs a test with the S3 client against every available server. Under the race detector it
// uses only one in this process, because the detector sees no other. empty returns an unused bucket
// whose keys have a prefix.
func onServers(t *testing.T, test func(t *testing.T, empty func(t *testing.T, prefix string) storage.Bucket)) {
	if sample.Of(false, true) {
		t.Run("memory", func(t *testing.T) {
			test(t, func(t *testing.T, prefix string) storage.Bucket { return behindS3(t, memory(t), prefix) })
		})
		return
	}
	s3server.Each(t, func(t *testing.T, server *s3server.Server) {
		transport := s3.NewTransport()
		transport.ResponseHeaderTimeout = time.Minute // Allow for a slow machine.
		t.Cleanup(transport.CloseIdleConnections)
		test(t, func(t *testing.T, prefix string) storage.Bucket {
			return open(t, s3.Options{
				Endpoint: server.Endpoint, Bucket: server.Bucket(t), Region: server.Region, Prefix: prefix,
				AccessKey: server.AccessKey, SecretKey: server.SecretKey, Transport: transport,
			})
		})
	})
}

// behindS3 returns b behind the S3 client.
func behindS3(t *testing.T, b storage.Bucket, prefix string) storage.Bucket {
	return open(t, s3.Options{
		Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, Prefix: prefix, PathStyle: true,
		AccessKey: "test", SecretKey: "testtest", Transport: s3front.New(b),
	})
}

func open(t *testing.T, o s3.Options) storage.Bucket {
	t.Helper()
	b, err := s3.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decorated returns b behind every decorator.
func decorated(b storage.Bucket) storage.Bucket {
	return storagetest.NewCounter().Bucket(storagetest.Faulty(b, storagetest.Plan{}))
}

// TestBucket runs with and without a prefix, because servers may differ.
func TestBucket(t *testing.T) {
	onServers(t, func(t *testing.T, empty func(*testing.T, string) storage.Bucket) {
		t.Run("plain", func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return empty(t, "") })
		})
		t.Run("decorated", func(t *testing.T) {
			storagetest.RunBucket(t, func(t *testing.T) storage.Bucket { return decorated(empty(t, "some where/")) })
		})
	})
}

func TestLog(t *testing.T) {
	onServers(t, func(t *testing.T, empty func(*testing.T, string) storage.Bucket) {
		storagetest.RunLog(t, func(t *testing.T) storage.Bucket { return decorated(empty(t, "some where/")) })
	})
}

// TestBucketsOfThisProcess checks the rules for the embedded bucket, directly and behind the
// decorators.
func TestBucketsOfThisProcess(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) storage.Bucket{
		"memory":    func(t *testing.T) storage.Bucket { return memory(t) },
		"folder":    func(t *testing.T) storage.Bucket { return folder(t) },
		"decorated": func(t *testing.T) storage.Bucket { return decorated(memory(t)) },
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
	return waiting.ToClose(t, store)
}

func memory(t *testing.T) *local.Store {
	return waiting.ToClose(t, local.NewMemory())
}

func testKey(t *testing.T) conversation.Key {
	return conversation.Address{Agent: "a", ID: t.Name()}.Key()
}
