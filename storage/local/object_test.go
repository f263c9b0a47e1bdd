package local_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/parleyrun/parley/storage/local"
)

// sizes lie around the bound between inline objects and files.
var sizes = []int{1, 1000, 256 << 10, 256<<10 + 1, 3 << 20}

func TestPutGetHeadDelete(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		for _, size := range sizes {
			key := fmt.Sprintf("dir/%d ä+%%/x", size)
			body := pattern(size, 1)
			before := time.Now().Truncate(time.Second)
			b.mustPut(key, body)
			b.wantGet(key, body)
			info, err := b.core.StatObject(context.Background(), local.Bucket, key, minio.StatObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sum := md5.Sum(body)
			if info.Size != int64(size) || info.ETag != hex.EncodeToString(sum[:]) || info.LastModified.Before(before) {
				t.Errorf("head %q: %+v", key, info)
			}
			b.mustPut(key, pattern(size+1, 2))
			b.wantGet(key, pattern(size+1, 2))
			b.remove(key)
			if _, c := b.get(key, 0, -1); c != "NoSuchKey" {
				t.Errorf("get after delete: code %q", c)
			}
			b.remove(key)
		}
		if _, err := b.core.StatObject(context.Background(), local.Bucket, "none", minio.StatObjectOptions{}); code(err) != "NoSuchKey" {
			t.Errorf("head of a missing key: %v", err)
		}
	})
}

func TestConditionalCreate(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		for _, size := range sizes {
			key := fmt.Sprint("k", size)
			if c := b.put(key, pattern(size, 1), true); c != "" {
				t.Fatalf("create: %s", c)
			}
			if c := b.put(key, pattern(size, 2), true); c != "PreconditionFailed" {
				t.Fatalf("second create: %q", c)
			}
			b.wantGet(key, pattern(size, 1))
			b.remove(key)
			if c := b.put(key, pattern(size, 3), true); c != "" {
				t.Fatalf("create after delete: %s", c)
			}
			b.wantGet(key, pattern(size, 3))
		}
	})
}

func TestConditionalCreateRace(t *testing.T) {
	const writers, keys = 32, 60
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		for k := range keys {
			key := fmt.Sprint("race/", k)
			size := 64
			if k%10 == 0 {
				size = 256<<10 + 1
			}
			var winners atomic.Int32
			var winner atomic.Int32
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					switch c := b.put(key, pattern(size, byte(w)), true); c {
					case "":
						winners.Add(1)
						winner.Store(int32(w))
					case "PreconditionFailed":
					default:
						t.Errorf("put %s: %s", key, c)
					}
				})
			}
			wg.Wait()
			if n := winners.Load(); n != 1 {
				t.Fatalf("%s: %d winners", key, n)
			}
			b.wantGet(key, pattern(size, byte(winner.Load())))
		}
	})
}

func TestRange(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		for _, size := range []int{10, 300 << 10} {
			key, body := fmt.Sprint("r", size), pattern(size, 5)
			b.mustPut(key, body)
			n := int64(size)
			for _, tt := range []struct {
				header string
				want   []byte
				status int
				span   string
			}{
				{"bytes=0-0", body[:1], 206, fmt.Sprintf("bytes 0-0/%d", n)},
				{"bytes=2-5", body[2:6], 206, fmt.Sprintf("bytes 2-5/%d", n)},
				{"bytes=7-", body[7:], 206, fmt.Sprintf("bytes 7-%d/%d", n-1, n)},
				{"bytes=7-99999999", body[7:], 206, fmt.Sprintf("bytes 7-%d/%d", n-1, n)},
				{"bytes=-3", body[n-3:], 206, fmt.Sprintf("bytes %d-%d/%d", n-3, n-1, n)},
				{"bytes=-99999999", body, 206, fmt.Sprintf("bytes 0-%d/%d", n-1, n)},
				{fmt.Sprintf("bytes=%d-", n), nil, 416, ""},
				{"bytes=-0", nil, 416, ""},
				{"bytes=0-1,3-4", nil, 501, ""},
				{"bytes=5-2", nil, 400, ""},
				{"bytes=-", nil, 400, ""},
				{"lines=1-2", nil, 400, ""},
			} {
				resp, got := raw(t, s, "GET", "/"+local.Bucket+"/"+key, nil, "Range", tt.header)
				if resp.StatusCode != tt.status || resp.Header.Get("Content-Range") != tt.span {
					t.Errorf("%s: status %d, range %q", tt.header, resp.StatusCode, resp.Header.Get("Content-Range"))
				}
				if tt.status == 206 && (got != string(tt.want) || resp.ContentLength != int64(len(tt.want))) {
					t.Errorf("%s: wrong bytes (%d)", tt.header, len(got))
				}
			}
			if got, c := b.get(key, 1, 4); c != "" || !bytes.Equal(got, body[1:5]) {
				t.Errorf("client range: %q %v", c, got)
			}
			if _, c := b.get(key, n+5, n+9); c != "InvalidRange" {
				t.Errorf("client range beyond the end: %q", c)
			}
		}
	})
}

func TestCopy(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		ctx := context.Background()
		for _, size := range sizes {
			from, to := fmt.Sprintf("from %d+", size), fmt.Sprintf("to/%d", size)
			b.mustPut(from, pattern(size, 1))
			info, err := b.core.CopyObject(ctx, local.Bucket, from, local.Bucket, to, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sum := md5.Sum(pattern(size, 1))
			if strings.Trim(info.ETag, `"`) != hex.EncodeToString(sum[:]) || info.LastModified.IsZero() {
				t.Errorf("copy: %+v", info)
			}
			b.remove(from)
			b.wantGet(to, pattern(size, 1))
			_, err = b.core.CopyObject(ctx, local.Bucket, to, local.Bucket, to, map[string]string{"If-None-Match": "*", "x-amz-metadata-directive": "REPLACE"}, minio.CopySrcOptions{}, minio.PutObjectOptions{})
			if code(err) != "PreconditionFailed" {
				t.Errorf("conditional copy onto itself: %v", err)
			}
			_, err = b.core.CopyObject(ctx, local.Bucket, to, local.Bucket, to, map[string]string{"x-amz-metadata-directive": "REPLACE"}, minio.CopySrcOptions{}, minio.PutObjectOptions{})
			if err != nil {
				t.Error(err)
			}
			b.wantGet(to, pattern(size, 1))
		}
		_, err := b.core.CopyObject(ctx, local.Bucket, "none", local.Bucket, "x", nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
		if code(err) != "NoSuchKey" {
			t.Errorf("copy of a missing key: %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	const k = "/" + local.Bucket + "/k"
	tests := []struct {
		name, method, path string
		status             int
		code               string
		header             []string
	}{
		{"other condition", "PUT", k, 501, "NotImplemented", []string{"If-Match", `"x"`}},
		{"condition on an etag", "PUT", k, 501, "NotImplemented", []string{"If-None-Match", `"x"`}},
		{"condition of a get", "GET", k, 501, "NotImplemented", []string{"If-None-Match", "*"}},
		{"condition of a delete", "DELETE", k, 501, "NotImplemented", []string{"If-Match", "*"}},
		{"time condition", "GET", k, 501, "NotImplemented", []string{"If-Modified-Since", "x"}},
		{"copy condition", "PUT", k, 501, "NotImplemented", []string{"X-Amz-Copy-Source", k, "X-Amz-Copy-Source-If-Match", "x"}},
		{"metadata", "PUT", k, 501, "NotImplemented", []string{"X-Amz-Meta-A", "x"}},
		{"encryption", "PUT", k, 501, "NotImplemented", []string{"X-Amz-Server-Side-Encryption", "AES256"}},
		{"streaming signature", "PUT", k, 501, "NotImplemented", []string{"X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}},
		{"bad digest", "PUT", k, 400, "InvalidArgument", []string{"X-Amz-Content-Sha256", "zz"}},
		{"wrong digest", "PUT", k, 400, "XAmzContentSHA256Mismatch", []string{"X-Amz-Content-Sha256", strings.Repeat("0", 64)}},
		{"wrong md5", "PUT", k, 400, "BadDigest", []string{"Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA=="}},
		{"bad md5", "PUT", k, 400, "InvalidDigest", []string{"Content-Md5", "?"}},
		{"copy of a version", "PUT", k, 501, "NotImplemented", []string{"X-Amz-Copy-Source", k + "?versionId=1"}},
		{"copy from elsewhere", "PUT", k, 404, "NoSuchBucket", []string{"X-Amz-Copy-Source", "/other/k"}},
		{"copy with a body", "PUT", k, 400, "InvalidArgument", []string{"X-Amz-Copy-Source", k + "2"}},
		{"multipart", "POST", k + "?uploads", 501, "NotImplemented", nil},
		{"part", "PUT", k + "?partNumber=1&uploadId=x", 501, "NotImplemented", nil},
		{"version", "GET", k + "?versionId=1", 501, "NotImplemented", nil},
		{"method", "PATCH", k, 405, "MethodNotAllowed", nil},
		{"service", "GET", "/", 501, "NotImplemented", nil},
		{"bucket", "GET", "/other/k", 404, "NoSuchBucket", nil},
		{"create bucket", "PUT", "/" + local.Bucket, 501, "NotImplemented", nil},
		{"list version 1", "GET", "/" + local.Bucket + "/?prefix=a", 501, "NotImplemented", nil},
		{"list parameter", "GET", "/" + local.Bucket + "/?list-type=2&metadata=true", 501, "NotImplemented", nil},
		{"list size", "GET", "/" + local.Bucket + "/?list-type=2&max-keys=-1", 400, "InvalidArgument", nil},
		{"list token", "GET", "/" + local.Bucket + "/?list-type=2&continuation-token=!", 400, "InvalidArgument", nil},
		{"list encoding", "GET", "/" + local.Bucket + "/?list-type=2&encoding-type=x", 400, "InvalidArgument", nil},
		{"long key", "PUT", "/" + local.Bucket + "/" + strings.Repeat("k", 1025), 400, "KeyTooLongError", nil},
		{"key of bad text", "PUT", "/" + local.Bucket + "/%ff", 400, "InvalidArgument", nil},
	}
	onBoth(t, func(t *testing.T, s *local.Store) {
		for _, tt := range tests {
			for _, size := range []int{3, 300 << 10} {
				var body io.Reader
				if tt.method == "PUT" {
					body = bytes.NewReader(pattern(size, 1))
				}
				resp, doc := raw(t, s, tt.method, tt.path, body, tt.header...)
				if resp.StatusCode != tt.status || !strings.Contains(doc, "<Code>"+tt.code+"</Code>") {
					t.Errorf("%s: %s %s", tt.name, resp.Status, doc)
				}
			}
		}
		// Nothing of all this may have been written.
		if keys, _, _ := listAll(t, client(t, s), "", "", "", 1000); len(keys) != 0 {
			t.Errorf("keys after refused requests: %q", keys)
		}
	})
}

func TestBodyLength(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		for _, tt := range []struct {
			name   string
			body   int
			length int64
			status int
			code   string
		}{
			{"short", 5, 6, 400, "IncompleteBody"},
			{"empty", 0, 6, 400, "IncompleteBody"},
			{"long", 7, 6, 400, "IncompleteBody"},
			{"short file", 300 << 10, 300<<10 + 1, 400, "IncompleteBody"},
			{"long file", 300<<10 + 1, 300 << 10, 400, "IncompleteBody"},
			{"no length", 5, 0, 411, "MissingContentLength"},
			{"too large", 5, 5<<30 + 1, 400, "EntityTooLarge"},
		} {
			req, err := http.NewRequest("PUT", "http://"+local.Endpoint+"/"+local.Bucket+"/k", io.NopCloser(bytes.NewReader(pattern(tt.body, 1))))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = tt.length
			resp, err := s.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || !strings.Contains(string(doc), tt.code) {
				t.Errorf("%s: %s %s", tt.name, resp.Status, doc)
			}
		}
		if _, c := client(t, s).get("k", 0, -1); c != "NoSuchKey" {
			t.Errorf("get after incomplete bodies: %q", c)
		}
		if c := client(t, s).put("empty", nil, true); c != "" {
			t.Errorf("put of an empty object: %s", c)
		}
		client(t, s).wantGet("empty", nil)
	})
}

func TestOverConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		server := httptest.NewServer(s)
		defer server.Close()
		b := newBucket(t, server.Client().Transport, strings.TrimPrefix(server.URL, "http://"))
		for _, size := range sizes {
			key := fmt.Sprint("tcp/", size)
			if c := b.put(key, pattern(size, 1), true); c != "" {
				t.Fatal(c)
			}
			if c := b.put(key, pattern(size, 1), true); c != "PreconditionFailed" {
				t.Fatal(c)
			}
			b.wantGet(key, pattern(size, 1))
		}
		if keys, _, _ := listAll(t, b, "tcp/", "", "", 2); len(keys) != len(sizes) {
			t.Errorf("list: %q", keys)
		}
		b.remove("tcp/1")
		if _, c := b.get("tcp/1", 0, -1); c != "NoSuchKey" {
			t.Error(c)
		}
	})
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the folder: %v, %v", info.Mode(), err)
	}
	b := client(t, s)
	for _, size := range sizes {
		b.mustPut(fmt.Sprint("k", size), pattern(size, 9))
		b.mustPut(fmt.Sprint("k", size), pattern(size, 1))
		b.mustPut(fmt.Sprint("gone", size), pattern(size, 1))
		b.remove(fmt.Sprint("gone", size))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, c := b.get("k1", 0, -1); c != "ServiceUnavailable" {
		t.Errorf("get after close: %q", c)
	}
	objects := filepath.Join(dir, "objects")
	orphan := strings.Repeat("ab", 16)
	for _, path := range []string{filepath.Join(objects, orphan), filepath.Join(objects, "notes.txt"), filepath.Join(dir, "tmp", orphan)} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b = client(t, open(t, dir))
	var want []string
	for _, size := range sizes {
		b.wantGet(fmt.Sprint("k", size), pattern(size, 1))
		want = append(want, fmt.Sprint("k", size))
	}
	if keys, _, _ := listAll(t, b, "", "", "", 1000); len(keys) != len(want) {
		t.Errorf("keys after reopening: %q", keys)
	}
	// Two large objects, and a file that is none of the store's business.
	left, err := os.ReadDir(objects)
	if err != nil || len(left) != 3 {
		t.Errorf("object files: %v, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("unfinished uploads: %v, %v", left, err)
	}
}

// TestOverwriteLarge reads while a large object is replaced, deleted and created
// again: every answer is one whole version or none.
func TestOverwriteLarge(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		const size = 300 << 10
		versions := [][]byte{pattern(size, 1), pattern(size+1, 2), pattern(100, 3)}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got, c := b.get("k", 0, -1)
					whole := c == "NoSuchKey"
					for _, v := range versions {
						whole = whole || c == "" && bytes.Equal(got, v)
					}
					if !whole {
						t.Errorf("read %d bytes, code %q", len(got), c)
					}
				}
			})
		}
		for i := range 60 {
			if i%7 == 6 {
				b.remove("k")
			} else {
				b.mustPut("k", versions[i%3])
			}
		}
		close(stop)
		wg.Wait()
	})
}

func TestRoundTripContext(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		body := &stuckBody{reading: make(chan struct{}), free: make(chan struct{}), closed: make(chan struct{})}
		req, err := http.NewRequestWithContext(ctx, "PUT", "http://"+local.Endpoint+"/"+local.Bucket+"/k", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 10
		done := make(chan error)
		go func() {
			_, err := s.RoundTrip(req)
			done <- err
		}()
		<-body.reading
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("round trip: %v", err)
		}
		close(body.free)
		<-body.closed
		if _, c := client(t, s).get("k", 0, -1); c != "NoSuchKey" {
			t.Errorf("get after a cancelled put: %q", c)
		}
		if _, err := s.RoundTrip(req); !errors.Is(err, context.Canceled) {
			t.Errorf("round trip with an ended context: %v", err)
		}
	})
}

// stuckBody blocks its first read.
type stuckBody struct {
	reading, free, closed chan struct{}
	once, twice           sync.Once
}

func (b *stuckBody) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.reading) })
	<-b.free
	return copy(p, "0123456789"), nil
}

func (b *stuckBody) Close() error {
	b.twice.Do(func() { close(b.closed) })
	return nil
}

func TestOptionsChecked(t *testing.T) {
	for _, n := range []int64{-1, 2 << 20} {
		if s, err := local.Open(t.TempDir(), &local.Options{LargeObjectBytes: n}); err == nil {
			s.Close()
			t.Errorf("LargeObjectBytes %d was accepted", n)
		}
	}
}
