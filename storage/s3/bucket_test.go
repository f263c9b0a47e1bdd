package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
)

// script answers every request the same way and records the requests.
type script struct {
	answer   func(*http.Request) (*http.Response, error)
	requests []*http.Request
	bodies   [][]byte
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, req)
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	s.bodies = append(s.bodies, body)
	return s.answer(req)
}

func response(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Status: strconv.Itoa(status), Request: req, ContentLength: int64(len(body)),
			Header: http.Header{"Content-Length": {strconv.Itoa(len(body))}, "Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Etag": {`"any"`}},
			Body:   io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

func coded(status int, code string) func(*http.Request) (*http.Response, error) {
	return response(status, "<Error><Code>"+code+"</Code><Message>text</Message></Error>")
}

func failing(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// cut declares a longer body than it sends.
func cut(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := response(status, body)(req)
		resp.ContentLength += 10
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)+10))
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), brokenReader{}))
		return resp, err
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func untilContextEnds(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func open(t *testing.T, rt http.RoundTripper) *s3.Bucket {
	t.Helper()
	b, err := s3.New(&s3.Options{
		Endpoint: "bucket.test", Bucket: "b-1", Prefix: "pre/", Region: "eu-1", AccessKey: "id", SecretKey: "secret", Transport: rt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var errReset = errors.New("connection reset by peer")

func TestClasses(t *testing.T) {
	type fn = func(*http.Request) (*http.Response, error)
	for _, tt := range []struct {
		name                string
		answer              fn
		create, get, delete error // Expected kinds.
		list                error
	}{
		{"412", coded(412, "PreconditionFailed"), storage.ErrExists, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"412 without body", response(412, ""), storage.ErrExists, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"412 cut", cut(412, "<Error><Code>Precond"), storage.ErrExists, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"409", coded(409, "ConditionalRequestConflict"), storage.ErrConflict, storage.ErrRefused, storage.ErrConflict, storage.ErrRefused},
		{"409 aborted", coded(409, "OperationAborted"), storage.ErrConflict, storage.ErrRefused, storage.ErrConflict, storage.ErrRefused},
		{"404 key", coded(404, "NoSuchKey"), storage.ErrRefused, storage.ErrNotFound, nil, storage.ErrRefused},
		{"404 bucket", coded(404, "NoSuchBucket"), storage.ErrRefused, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"403", coded(403, "AccessDenied"), storage.ErrRefused, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"403 clock", coded(403, "RequestTimeTooSkewed"), storage.ErrRefused, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"400", coded(400, "InvalidRequest"), storage.ErrRefused, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"400 slow body", coded(400, "RequestTimeout"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"429", response(429, "calm down"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"500", coded(500, "InternalError"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"502 from a proxy", response(502, "<html>"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"503", coded(503, "SlowDown"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"501", coded(501, "NotImplemented"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"301", response(301, ""), storage.ErrRefused, storage.ErrRefused, storage.ErrRefused, storage.ErrRefused},
		{"reset", failing(errReset), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"end of file", failing(io.EOF), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"timeout", untilContextEnds, storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"200 cut", cut(200, "<ListBucketResult>"), storage.ErrUncertain, storage.ErrUnavailable, storage.ErrUncertain, storage.ErrUnavailable},
		{"204", response(204, ""), storage.ErrUncertain, storage.ErrUnavailable, nil, storage.ErrUnavailable},
	} {
		ops := map[string]struct {
			want error
			call func(context.Context, *s3.Bucket) error
		}{
			"create": {tt.create, func(ctx context.Context, b *s3.Bucket) error { return b.Create(ctx, "k", storage.Bytes([]byte("x"))) }},
			"get":    {tt.get, func(ctx context.Context, b *s3.Bucket) error { _, err := b.Get(ctx, "k"); return err }},
			"delete": {tt.delete, func(ctx context.Context, b *s3.Bucket) error { return b.Delete(ctx, "k") }},
			"list":   {tt.list, func(ctx context.Context, b *s3.Bucket) error { _, err := b.List(ctx, storage.ListQuery{}); return err }},
		}
		for op, o := range ops {
			t.Run(tt.name+"/"+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkClass(t, tt.answer, o.want, op, o.call) })
			})
		}
	}
}

// checkClass performs one call and expects one request, one kind, and no delay beyond the timeout of
// the context.
func checkClass(t *testing.T, answer func(*http.Request) (*http.Response, error), want error, op string, call func(context.Context, *s3.Bucket) error) {
	s := &script{answer: answer}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	err := call(ctx, open(t, s))
	var e *storage.Error
	switch {
	case want == nil && err == nil:
	case want == nil || !errors.As(err, &e) || e.Kind != want || e.Op != op:
		t.Errorf("got %v, want kind %v of %s", err, want, op)
	}
	if len(s.requests) != 1 {
		t.Errorf("%d requests, want 1", len(s.requests))
	}
	if waited := time.Since(start); ctx.Err() == nil && waited != 0 {
		t.Errorf("the call took %v of waiting", waited)
	}
}

func TestErrorNamesTheCause(t *testing.T) {
	b := open(t, &script{answer: failing(errReset)})
	if err := b.Create(t.Context(), "k", storage.Bytes([]byte("x"))); !errors.Is(err, errReset) {
		t.Errorf("got %v, want the cause in the chain", err)
	}
	b = open(t, &script{answer: coded(403, "AccessDenied")})
	err := b.Create(t.Context(), "k", storage.Bytes([]byte("x")))
	if want := "create k: request refused: status 403 AccessDenied: text"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCancelledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := open(t, &script{answer: untilContextEnds})
		errs := make(chan error)
		go func() { errs <- b.Create(ctx, "k", storage.Bytes([]byte("x"))) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, storage.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want an unknown outcome by cancellation", err)
		}
	})
}

// TestCreateRequest checks the bytes on the wire, below and above the size from which minio-go would
// use a multipart upload and lose the condition.
func TestCreateRequest(t *testing.T) {
	for _, size := range []int{1, 17 << 20} {
		s := &script{answer: response(200, "")}
		content := bytes.Repeat([]byte("x"), size)
		if err := open(t, s).Create(t.Context(), "a b/c", storage.Bytes(content)); err != nil {
			t.Fatal(err)
		}
		if len(s.requests) != 1 {
			t.Fatalf("%d requests, want 1", len(s.requests))
		}
		sum := sha256.Sum256(content)
		req := s.requests[0]
		got := fmt.Sprintf("%s %s inm=%s sha=%s len=%d enc=%q query=%q", req.Method, req.URL.Path, req.Header.Get("If-None-Match"),
			req.Header.Get("X-Amz-Content-Sha256"), req.ContentLength, req.TransferEncoding, req.URL.RawQuery)
		want := fmt.Sprintf("PUT /b-1/pre/a b/c inm=* sha=%s len=%d enc=%q query=%q", hex.EncodeToString(sum[:]), size, []string(nil), "")
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !bytes.Equal(s.bodies[0], content) {
			t.Errorf("body has %d bytes, want the %d plain ones", len(s.bodies[0]), size)
		}
		if auth := req.Header.Get("Authorization"); !strings.Contains(auth, "/eu-1/s3/aws4_request") || !strings.Contains(auth, "if-none-match") {
			t.Errorf("authorization is %q, want the region and the signed condition", auth)
		}
	}
}

func TestPutIsUnconditional(t *testing.T) {
	s := &script{answer: response(200, "")}
	if err := open(t, s).Put(t.Context(), "k", storage.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if inm := s.requests[0].Header.Get("If-None-Match"); inm != "" {
		t.Errorf("condition is %q, want none", inm)
	}
}

// TestBodyIsReleased checks that a transport that reads on after the call gets no bytes, so that the
// next attempt may read the same source.
func TestBodyIsReleased(t *testing.T) {
	var late io.Reader
	b := open(t, roundTripFunc(func(req *http.Request) (*http.Response, error) {
		late = req.Body
		return nil, errReset
	}))
	if err := b.Create(t.Context(), "k", storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrUncertain) {
		t.Fatal(err)
	}
	if n, err := late.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read after the call: %d bytes, %v; want an error", n, err)
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestOpenCut(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"broken": cut(200, "half"),
		"short": func(req *http.Request) (*http.Response, error) {
			resp, err := response(200, "half")(req)
			resp.Header.Set("Content-Length", "8")
			return resp, err
		},
	} {
		r, size, err := open(t, &script{answer: answer}).Open(t.Context(), "k")
		if err != nil || size <= 4 {
			t.Fatalf("%s: size %d, %v", name, size, err)
		}
		if got, err := io.ReadAll(r); string(got) != "half" || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: read %q, %v; want no answer after half", name, got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestListRequest(t *testing.T) {
	s := &script{answer: response(200, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>
		<Contents><Key>pre/p/1</Key><Size>7</Size></Contents></ListBucketResult>`)}
	page, err := open(t, s).List(t.Context(), storage.ListQuery{Prefix: "p/", After: "p/0", Limit: 5})
	if err != nil || !page.More || len(page.Keys) != 1 || page.Keys[0] != (storage.ListedKey{Key: "p/1", Size: 7}) {
		t.Errorf("got page %+v, %v", page, err)
	}
	q := s.requests[0].URL.Query()
	if len(s.requests) != 1 || q.Get("start-after") != "pre/p/0" || q.Get("prefix") != "pre/p/" || q.Get("max-keys") != "5" || q.Get("delimiter") != "" {
		t.Errorf("%d requests, query %v", len(s.requests), q)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []*s3.Options{nil, {Endpoint: "bucket.test"}, {Bucket: "b-1"}, {Endpoint: "http://bucket.test/x", Bucket: "b-1"}} {
		if _, err := s3.New(o); err == nil {
			t.Errorf("options %+v are accepted", o)
		}
	}
	if tr := s3.NewTransport(); tr.Protocols.HTTP2() || !tr.Protocols.HTTP1() || tr.MaxIdleConnsPerHost != 128 || !tr.DisableCompression {
		t.Errorf("transport %+v", tr)
	}
}

// dated answers like a store whose clock is behind ours.
func dated(ahead time.Duration, answer func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := answer(req)
		resp.Header.Set("Date", time.Now().Add(-ahead).UTC().Format(http.TimeFormat))
		return resp, err
	}
}

// TestClock checks that a rejection because of clock skew is reported with the difference to the Date
// of the response, whatever the store's code. No other rejection is.
func TestClock(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		named  bool
		ahead  time.Duration
		text   string
	}{
		"behind":            {dated(-time.Hour, coded(403, "RequestTimeTooSkewed")), true, -time.Hour, "by 1h0m0s, behind it: synchronize"},
		"ahead":             {dated(16*time.Minute, coded(403, "RequestTimeTooSkewed")), true, 16 * time.Minute, "by 16m0s, ahead of it: synchronize"},
		"no date":           {coded(403, "RequestTimeTooSkewed"), true, 0, "by more than the store accepts: synchronize"},
		"no code":           {dated(time.Hour, response(403, "")), true, time.Hour, "1h0m0s"},
		"another code":      {dated(-15*time.Minute, coded(403, "SignatureDoesNotMatch")), true, -15 * time.Minute, "15m0s"},
		"a little":          {dated(5*time.Minute, coded(403, "AccessDenied")), false, 5 * time.Minute, "text"},
		"another status":    {dated(time.Hour, coded(404, "NoSuchBucket")), false, time.Hour, "text"},
		"nothing is signed": {dated(time.Hour, coded(403, "AccessDenied")), false, 0, "text"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, &script{answer: tt.answer})
			if name == "nothing is signed" {
				var err error
				if b, err = s3.New(&s3.Options{Endpoint: "bucket.test", Bucket: "b-1", Transport: &script{answer: tt.answer}}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := b.Get(t.Context(), "k")
			var clock *storage.ClockError
			if errors.As(err, &clock) != tt.named || !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: got %v", name, err)
			}
			if tt.named && clock.Ahead.Round(time.Minute) != tt.ahead || b.ClockAhead().Round(time.Minute) != tt.ahead {
				t.Errorf("%s: measured %v, %v; want %v", name, clock, b.ClockAhead(), tt.ahead)
			}
		})
	}
}
