package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/xml"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/parleyrun/parley/storage"
)

// call is one operation on the bucket: it permits one HTTP request and records the result. It is the
// context of that request, through which the transport finds it.
//
// minio-go waits up to 200 ms after any failure that it would retry, even without retries left. Ending
// the call's context as soon as the outcome is known avoids that wait.
type call struct {
	context.Context                 // Ends with the call.
	parent          context.Context // The caller's context, to distinguish its end from the call's.
	end             context.CancelFunc
	op              string // One of the verbs of storage.Error.
	etags           *etags

	// The goroutine of the call writes the fields below and reads them afterwards.
	sent   bool                // The request was handed to the transport.
	body   *sentBody           // Body of a write.
	status int                 // Status of the answer, 0 without one.
	done   bool                // The response is a success and was accepted.
	header http.Header         // Header of an accepted object.
	page   storage.ListPage    // Accepted page of a listing, with the prefix of the bucket.
	detail minio.ErrorResponse // Error document of a rejection.
	ahead  time.Duration       // See aheadOf.
	err    error               // Why there was no response, or why it was rejected.
}

type callKey struct{}

func (b *Bucket) newCall(parent context.Context, op string) *call {
	ctx, cancel := context.WithCancel(parent)
	return &call{Context: ctx, parent: parent, end: cancel, op: op, etags: &b.etags}
}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// singleShot is the transport below minio-go. It sends one request per call and checks the response
// before minio-go reads it.
type singleShot struct {
	next  http.RoundTripper
	ahead *atomic.Int64 // From the newest response, in nanoseconds.
}

var errOneRequest = errors.New("call has sent its request")

// RoundTrip implements http.RoundTripper.
func (s *singleShot) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	if c == nil || c.sent {
		if c != nil {
			c.end()
		}
		closeBody(req)
		return nil, errOneRequest
	}
	c.sent = true
	if (c.op == storage.OpCreate || c.op == storage.OpPut) && req.Body != nil {
		c.body = &sentBody{ReadCloser: req.Body, md5: md5.New()}
		req.Body = c.body
	}
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		return nil, c.fail(err)
	}
	c.status, c.ahead = resp.StatusCode, aheadOf(req, resp)
	s.ahead.Store(int64(c.ahead))
	if resp.StatusCode/100 == 2 {
		if err := c.accept(req, resp); err != nil {
			resp.Body.Close()
			return nil, c.fail(err)
		}
		if c.done = true; c.op != storage.OpGet && c.op != storage.OpOpen {
			// Avoid the parsing of a dozen headers by minio-go that the call does not need.
			resp.Header = nil
		}
		return resp, nil
	}
	// A truncated or invalid body only loses details.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if xml.Unmarshal(body, &c.detail) != nil {
		c.detail = minio.ErrorResponse{}
	}
	if unanswered(resp.StatusCode, c.detail.Code) {
		c.end()
	} else if err := c.checkRefusal(resp, body); err != nil {
		return nil, c.fail(err)
	}
	return resp, nil
}

// fail ends a call without an accepted response.
func (c *call) fail(err error) error {
	c.err = err
	c.end()
	return err
}

// aheadOf returns how far the local clock is ahead of the Date of the response, to about a second. It
// returns 0 for an unsigned request or a response without Date.
func aheadOf(req *http.Request, resp *http.Response) time.Duration {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || req.Header.Get("Authorization") == "" {
		return 0
	}
	return time.Now().Round(0).Sub(date)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// objectReader streams one object and fails for a truncated body or one that does not match the ETag.
type objectReader struct {
	src  io.ReadCloser
	key  string
	left int64
	md5  hash.Hash
	call *call
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.left -= int64(n)
	r.md5.Write(p[:n])
	switch {
	case err == io.EOF && r.left == 0 && r.call.etags.fit(r.call.header, r.md5.Sum(nil)):
		return n, io.EOF
	case err == io.EOF && r.left == 0:
		err = errETag(r.key, r.call.header)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case err == nil:
		return n, nil
	}
	return n, &storage.Error{Op: storage.OpOpen, Key: r.key, Kind: storage.ErrUnavailable, Status: r.call.status, Err: err}
}

// Close implements io.Closer.
func (r *objectReader) Close() error {
	defer r.call.end()
	return r.src.Close()
}
