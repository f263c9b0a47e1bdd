package s3front_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// ask sends a request that storage/s3 would not send, in process, and returns the status and the
// document.
func ask(t *testing.T, rt http.RoundTripper, method, path string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s3front.Endpoint+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestOverConnection runs the rules of buckets over a real network connection and the S3 client.
func TestOverConnection(t *testing.T) {
	storagetest.RunBucket(t, func(t *testing.T) storage.Bucket {
		server := httptest.NewServer(s3front.New(local.NewMemory()))
		t.Cleanup(server.Close)
		transport := s3.NewTransport()
		t.Cleanup(transport.CloseIdleConnections)
		b, err := s3.New(&s3.Options{
			Endpoint: server.Listener.Addr().String(), Bucket: s3front.Bucket, PathStyle: true, AccessKey: "id", SecretKey: "secret", Transport: transport,
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// TestRefused checks that unsupported parameters are errors and change nothing.
func TestRefused(t *testing.T) {
	const k = "/" + s3front.Bucket + "/k"
	store := local.NewMemory()
	front := s3front.New(store)
	for name, tt := range map[string]struct {
		method, path string
		status       int
		code         string
		header       []string
	}{
		"other condition":     {"PUT", k, 501, "NotImplemented", []string{"If-Match", `"x"`}},
		"condition on a tag":  {"PUT", k, 501, "NotImplemented", []string{"If-None-Match", `"x"`}},
		"condition of a get":  {"GET", k, 501, "NotImplemented", []string{"If-None-Match", "*"}},
		"copy":                {"PUT", k, 501, "NotImplemented", []string{"X-Amz-Copy-Source", k}},
		"streaming signature": {"PUT", k, 501, "NotImplemented", []string{"X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}},
		"short digest":        {"PUT", k, 501, "NotImplemented", []string{"X-Amz-Content-Sha256", "00"}},
		"wrong digest":        {"PUT", k, 400, "InvalidRequest", []string{"X-Amz-Content-Sha256", strings.Repeat("0", 64)}},
		"multipart":           {"POST", k + "?uploads", 501, "NotImplemented", nil},
		"part":                {"PUT", k + "?partNumber=1&uploadId=x", 501, "NotImplemented", nil},
		"head":                {"HEAD", k, 501, "NotImplemented", nil},
		"open range":          {"GET", k, 501, "NotImplemented", []string{"Range", "bytes=5-"}},
		"two ranges":          {"GET", k, 501, "NotImplemented", []string{"Range", "bytes=0-1,3-4"}},
		"range of nothing":    {"GET", k, 400, "InvalidRequest", []string{"Range", "bytes=5-2"}},
		"absent":              {"GET", k, 404, "NoSuchKey", nil},
		"bucket":              {"GET", "/other/k", 404, "NoSuchBucket", nil},
		"create bucket":       {"PUT", "/" + s3front.Bucket, 501, "NotImplemented", nil},
		"list version 1":      {"GET", "/" + s3front.Bucket + "/?prefix=a", 501, "NotImplemented", nil},
		"list without end":    {"GET", "/" + s3front.Bucket + "/?list-type=2&encoding-type=url&max-keys=x", 501, "NotImplemented", nil},
		"list of too many":    {"GET", "/" + s3front.Bucket + "/?list-type=2&encoding-type=url&max-keys=1001", 400, "InvalidRequest", nil},
		"list token":          {"GET", "/" + s3front.Bucket + "/?list-type=2&encoding-type=url&continuation-token=more", 501, "NotImplemented", nil},
	} {
		if status, doc := ask(t, front, tt.method, tt.path, strings.NewReader("abc"), tt.header...); status != tt.status || !strings.Contains(doc, "<Code>"+tt.code+"</Code>") {
			t.Errorf("%s: %d %s", name, status, doc)
		}
	}
	for _, length := range []int64{2, 4, -1} {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", k, strings.NewReader("abc"))
		r.ContentLength = length
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != 501 {
			t.Errorf("a body of 3 bytes with the length %d: %d", length, w.Code)
		}
	}
	if page, err := store.List(t.Context(), storage.ListQuery{}); err != nil || len(page.Keys) > 0 {
		t.Errorf("stored %v, %v", page, err)
	}
}

// TestErrorsComeThrough checks that a client gets the kind of the bucket's error, with the cause if
// there is one.
func TestErrorsComeThrough(t *testing.T) {
	why := errors.New("because")
	for _, want := range []*storage.Error{
		{Kind: storage.ErrExists}, {Kind: storage.ErrConflict}, {Kind: storage.ErrRefused, Err: why}, {Kind: storage.ErrUncertain, Err: why},
		{Kind: storage.ErrUncertain, Status: 503, Code: "SlowDown", Err: why}, {Kind: storage.ErrRefused, Status: 403, Code: "AccessDenied"},
	} {
		front := s3front.New(storagetest.Through(local.NewMemory(), func(context.Context, *storagetest.Call) error { return want }))
		b, err := s3.New(&s3.Options{Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, PathStyle: true, Transport: front})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Create(t.Context(), "k", storage.Bytes([]byte("x")))
		if !errors.Is(err, want.Kind) || want.Err != nil && !strings.Contains(err.Error(), "because") {
			t.Errorf("%v is returned as %v", want, err)
		}
		var got *storage.Error
		if errors.As(err, &got); want.Status != 0 && (got.Status != want.Status || got.Code != want.Code) {
			t.Errorf("%v is returned as %v", want, err)
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "DELETE", "/"+s3front.Bucket+"/k", nil))
		if unanswered := errors.Is(want, storage.ErrUncertain) && want.Status == 0; (w.Code == 500) != unanswered {
			t.Errorf("%v is answered with %d", want, w.Code)
		}
	}
}

// TestRoundTripLeaves checks that a RoundTrip waits for a bucket or a body no longer than its context.
func TestRoundTripLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := local.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		body := &stuckBody{make(chan struct{}), make(chan struct{})}
		r, err := http.NewRequestWithContext(ctx, "PUT", fmt.Sprintf("http://%s/%s/k", s3front.Endpoint, s3front.Bucket), body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 3
		done := make(chan error)
		go func() {
			_, err := s3front.New(store).RoundTrip(r)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("round trip: %v", err)
		}
		close(body.free)
		<-body.closed
		if _, err := store.Get(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get after a cancelled put: %v", err)
		}
	})
}

// stuckBody blocks before it ends.
type stuckBody struct{ free, closed chan struct{} }

func (b *stuckBody) Read(p []byte) (int, error) {
	<-b.free
	return copy(p, "abc"), io.EOF
}

func (b *stuckBody) Close() error {
	close(b.closed)
	return nil
}
