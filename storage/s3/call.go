package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/parleyrun/parley/storage"
)

// call is one operation on the bucket: it admits one HTTP request and keeps what
// came of it. It is the context of that request, which is how it gets to the
// transport.
//
// minio-go waits, up to 200 ms, after any failure it would repeat, even with no
// repetition left. Ending the call's own context as soon as the outcome is known
// skips that wait.
type call struct {
	context.Context                 // Ends with the call.
	parent          context.Context // The caller's context, to tell its end from the call's.
	end             context.CancelFunc
	write           bool // Nothing but the status of a good answer is of interest.

	// Written by the goroutine that performs the call, read by it afterwards.
	sent    bool                // The request was handed to the transport.
	refused bool                // minio-go asked for a second request.
	status  int                 // Status of the answer, 0 without one.
	detail  minio.ErrorResponse // What the body of a failed answer says.
	ahead   time.Duration       // See aheadOf.
	err     error               // Why there was no answer.
}

type callKey struct{}

func newCall(parent context.Context) *call {
	ctx, cancel := context.WithCancel(parent)
	return &call{Context: ctx, parent: parent, end: cancel}
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

// more reports whether a listing had one page, and wanted the next.
func (c *call) more() bool { return c.refused && c.err == nil && c.status/100 == 2 }

// singleShot is the transport below minio-go: one request per call.
type singleShot struct {
	next  http.RoundTripper
	ahead *atomic.Int64 // As of the newest answer, in nanoseconds.
}

var errOneRequest = errors.New("a call is one request")

// RoundTrip implements http.RoundTripper.
func (s *singleShot) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	if c == nil || c.sent {
		if c != nil {
			c.refused = true
			c.end()
		}
		closeBody(req)
		return nil, errOneRequest
	}
	c.sent = true
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		c.err = err
		c.end()
		return nil, err
	}
	c.status, c.ahead = resp.StatusCode, aheadOf(req, resp)
	s.ahead.Store(int64(c.ahead))
	if resp.StatusCode/100 == 2 {
		if c.write {
			// minio-go would look for a dozen fields that nobody asked for.
			resp.Header = nil
		}
		return resp, nil
	}
	const limit = 64 << 10
	// The status decides; a body that is cut off or no XML only loses the details.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if xml.Unmarshal(body, &c.detail) != nil {
		c.detail = minio.ErrorResponse{}
	}
	if unanswered(resp.StatusCode, c.detail.Code) {
		c.end()
	}
	return resp, nil
}

// aheadOf is what this clock shows more than the Date of the answer to a request that is
// signed with a time, to the second or so; 0 if it is not, or the answer has none.
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

// objectReader streams one object and turns a short body into an error.
type objectReader struct {
	src  io.ReadCloser
	key  string
	left int64
	call *call
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.left -= int64(n)
	switch {
	case err == io.EOF && r.left == 0:
		return n, io.EOF
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
