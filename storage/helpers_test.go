package storage_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// memory returns an empty store. In a synctest bubble it must be created inside.
func memory(t *testing.T) *local.Store {
	t.Helper()
	return waiting.ToClose(t, local.NewMemory())
}

// behindS3 returns b behind the S3 client.
func behindS3(t *testing.T, b storage.Bucket) storage.Bucket {
	t.Helper()
	return open(t, &s3.Options{Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, PathStyle: true, Transport: s3front.New(b)})
}

// onServer returns a bucket of its own on a server.
func onServer(t *testing.T, server *s3server.Server) storage.Bucket {
	t.Helper()
	transport := s3.NewTransport()
	transport.ResponseHeaderTimeout = time.Minute // Allow for a slow machine.
	t.Cleanup(transport.CloseIdleConnections)
	return open(t, &s3.Options{
		Endpoint: server.Endpoint, Bucket: server.Bucket(t), Region: server.Region,
		AccessKey: server.AccessKey, SecretKey: server.SecretKey, Transport: transport,
	})
}

func open(t *testing.T, opts *s3.Options) *s3.Bucket {
	t.Helper()
	b, err := s3.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keyOf(id string) conversation.Key {
	return conversation.Address{Agent: "a", ID: id}.Key()
}

// faults injects the nth kind of fault into the nth request of a method.
func faults(b storage.Bucket, method string, ks ...storagetest.Kind) *storagetest.FaultBucket {
	n := 0
	return storagetest.Faulty(b, storagetest.Plan{DelayRequests: -1, Decide: func(op storagetest.Op) storagetest.Kind {
		if op.Method != method || n == len(ks) {
			return storagetest.None
		}
		n++
		return ks[n-1]
	}})
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustAppend(t *testing.T, w *storage.Writer, lines string) storage.Position {
	t.Helper()
	pos, err := w.Append(t.Context(), []byte(lines), 1)
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// readAll returns the batches of a conversation.
func readAll(t *testing.T, logs *storage.Logs, conv conversation.Key) []storage.Batch {
	t.Helper()
	var batches []storage.Batch
	for b, err := range logs.Batches(t.Context(), conv, storage.Start()) {
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	return batches
}

// sha256Prefix returns the first 16 bytes of the digest of hexadecimal bytes, as hexadecimal digits.
func sha256Prefix(t *testing.T, digits string) string {
	t.Helper()
	data, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
