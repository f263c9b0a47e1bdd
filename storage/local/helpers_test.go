package local_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/parleyrun/parley/storage/local"
)

// bucket drives a Store through the S3 client.
type bucket struct {
	t    testing.TB
	core *minio.Core
}

func newBucket(t testing.TB, transport http.RoundTripper, endpoint string) *bucket {
	t.Helper()
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4("in", "process", ""),
		Region:       local.Region,
		Transport:    transport,
		MaxRetries:   1,
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bucket{t, core}
}

func client(t testing.TB, s *local.Store) *bucket { return newBucket(t, s, local.Endpoint) }

// put stores b and returns S3's error code, empty for success.
func (b *bucket) put(key string, body []byte, create bool) string {
	b.t.Helper()
	opts := minio.PutObjectOptions{DisableContentSha256: true}
	if create {
		opts.SetMatchETagExcept("*")
	}
	sum := sha256.Sum256(body)
	_, err := b.core.PutObject(context.Background(), local.Bucket, key, bytes.NewReader(body), int64(len(body)), "", hex.EncodeToString(sum[:]), opts)
	return code(err)
}

// get returns the object and S3's error code. A last < 0 asks for all bytes.
func (b *bucket) get(key string, first, last int64) ([]byte, string) {
	b.t.Helper()
	var opts minio.GetObjectOptions
	if last >= 0 {
		if err := opts.SetRange(first, last); err != nil {
			b.t.Fatal(err)
		}
	}
	body, _, _, err := b.core.GetObject(context.Background(), local.Bucket, key, opts)
	if err != nil {
		return nil, code(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return data, ""
}

func (b *bucket) mustPut(key string, body []byte) {
	b.t.Helper()
	if c := b.put(key, body, false); c != "" {
		b.t.Fatalf("put %q: %s", key, c)
	}
}

func (b *bucket) wantGet(key string, want []byte) {
	b.t.Helper()
	if got, c := b.get(key, 0, -1); c != "" || !bytes.Equal(got, want) {
		b.t.Fatalf("get %q: %d bytes, code %q; want %d bytes", key, len(got), c, len(want))
	}
}

func (b *bucket) remove(key string) {
	b.t.Helper()
	if err := b.core.RemoveObject(context.Background(), local.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return minio.ToErrorResponse(err).Code
}

// open opens a Store on dir and closes it with the test.
func open(t testing.TB, dir string) *local.Store {
	t.Helper()
	s, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(t *testing.T, s *local.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		s := local.NewMemory()
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, s)
	})
	t.Run("pebble", func(t *testing.T) { test(t, open(t, t.TempDir())) })
}

// pattern returns n bytes that differ by position and seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ seed
	}
	return b
}

// raw sends a request that the client library would not send.
func raw(t *testing.T, rt http.RoundTripper, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+local.Endpoint+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}
