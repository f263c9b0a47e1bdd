package s3

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"

	"github.com/parleyrun/parley/storage"
)

const (
	// maxErrorBytes bounds the bytes read of an error document or of a response that should have no
	// body.
	maxErrorBytes = 64 << 10
	// maxListBytes bounds a page of a listing: 1000 keys of 1 KiB with every byte escaped.
	maxListBytes = 16 << 20
)

// Remedies of a [storage.AnswerError].
const (
	remedyForeign = "a proxy, gateway or login page answers instead of the store: connect to the store directly"
	remedyHeaders = "the store, or a proxy in front of it, must send ETag, Last-Modified and Content-Length, see docs/buckets.md"
	remedyChanged = "a proxy or cache modifies responses: connect to the store directly"
	remedyError   = "the store reports an error with a success status, and the request is retried: check the state of the store"
)

// accept checks that a successful response is a valid answer of a store to this request. It reads the
// body of a write, a delete and a listing, but not of an object.
func (c *call) accept(req *http.Request, resp *http.Response) error {
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" && !strings.HasPrefix(e, "aws-chunked") {
		return foreign("body has the Content-Encoding "+e, remedyChanged)
	}
	switch c.op {
	case storage.OpGet, storage.OpOpen:
		return c.acceptObject(req, resp)
	case storage.OpList:
		return c.acceptList(req, resp)
	}
	want := []int{http.StatusOK}
	if c.op == storage.OpDelete {
		want = []int{http.StatusNoContent, http.StatusOK}
	}
	if !slices.Contains(want, resp.StatusCode) {
		return foreign(fmt.Sprintf("unexpected status %d of a %s", resp.StatusCode, req.Method), remedyForeign)
	}
	body, err := readBody(resp, maxErrorBytes)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) > 0 {
		return inside(body)
	}
	if c.op == storage.OpDelete {
		return nil
	}
	if resp.Header.Get("ETag") == "" {
		return foreign("response to a PUT has no ETag", remedyHeaders)
	}
	if sum := c.body.sum(req.ContentLength); sum != nil && !c.etags.fit(resp.Header, sum) {
		return foreign("ETag does not match the body sent", remedyChanged)
	}
	return nil
}

// acceptObject checks the header of an object, or of a range of one.
func (c *call) acceptObject(req *http.Request, resp *http.Response) error {
	want, ranged := http.StatusOK, req.Header.Get("Range")
	if ranged != "" {
		want = http.StatusPartialContent
	}
	length, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64)
	switch {
	case resp.StatusCode != want:
		return foreign(fmt.Sprintf("status is %d, want %d for a GET with range %q", resp.StatusCode, want, ranged), remedyForeign)
	case isPage(resp.Header):
		return foreign("HTML page in place of an object", remedyForeign)
	case resp.Header.Get("ETag") == "":
		return foreign("response to a GET has no ETag", remedyHeaders)
	case resp.Header.Get("Last-Modified") == "":
		return foreign("response to a GET has no Last-Modified", remedyHeaders)
	case err != nil || length < 0:
		return foreign(fmt.Sprintf("response to a GET has Content-Length %q", resp.Header.Get("Content-Length")), remedyHeaders)
	}
	c.header = resp.Header
	if ranged == "" {
		return nil
	}
	return acceptRange(ranged, resp.Header.Get("Content-Range"), length)
}

// acceptRange checks that a response starts at the requested range. It may be shorter, because the
// object may end within the range.
func acceptRange(asked, got string, length int64) error {
	var from, to, first, last int64
	_, errAsked := fmt.Sscanf(asked, "bytes=%d-%d", &from, &to)
	_, errGot := fmt.Sscanf(got, "bytes %d-%d/", &first, &last)
	if errAsked != nil || errGot != nil || first != from || last > to || last-first+1 != length {
		return foreign(fmt.Sprintf("response to range %s has Content-Range %q and %d bytes", asked, got, length), remedyChanged)
	}
	return nil
}

// foreign returns the error for a response that no store sends.
func foreign(found, remedy string) error {
	return &storage.AnswerError{Found: found, Remedy: remedy}
}

// inside returns the error for an invalid body of a successful response: a store's error document, or
// content of another sender.
func inside(body []byte) error {
	var detail minio.ErrorResponse
	if xml.Unmarshal(body, &detail) == nil && detail.Code != "" {
		return &storage.AnswerError{Found: strings.TrimSpace("error in a successful response: " + detail.Message), Code: detail.Code, Remedy: remedyError}
	}
	const shown = 40
	return foreign(fmt.Sprintf("unexpected body %.*q", shown, bytes.TrimSpace(body)), remedyForeign)
}

// isPage reports whether a body is an HTML page. Objects are stored as octets.
func isPage(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "text/html") }

// checkRefusal returns an error if an unsuccessful response is not the store's own. A store sends an
// Error document or no body. A 412 needs no document, because the caller reads the object back.
func (c *call) checkRefusal(resp *http.Response, body []byte) error {
	described := c.detail.XMLName.Local != ""
	own := described || len(bytes.TrimSpace(body)) == 0
	switch status := resp.StatusCode; {
	case status == http.StatusPreconditionFailed:
		own = true
	case status == http.StatusNotFound && (c.op == storage.OpGet || c.op == storage.OpOpen || c.op == storage.OpDelete):
		own = c.detail.Code != ""
	case status/100 == 3 && (status != http.StatusMovedPermanently || resp.Header.Get("Location") != ""):
		own = described
	}
	if own {
		return nil
	}
	return foreign(fmt.Sprintf("status %d without an error document", resp.StatusCode), remedyForeign)
}

// readBody reads a body of at most limit bytes to its end and closes it.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > limit:
		return nil, foreign(fmt.Sprintf("body exceeds %d bytes", limit), remedyForeign)
	case resp.ContentLength >= 0 && resp.ContentLength != int64(len(body)):
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}

// etags compares objects with the digests that the store returns. Most stores return the MD5 of an
// object as its ETag, some do not, and no store does for every object. One ETag that equals the MD5 of
// its object proves that the store does. From then on every ETag of that form is checked.
type etags struct{ proven atomic.Bool }

// fit reports whether sum can be the MD5 of the object with this header.
func (e *etags) fit(h http.Header, sum []byte) bool {
	stated, err := hex.DecodeString(strings.Trim(h.Get("ETag"), `"`))
	if err != nil || len(stated) != md5.Size {
		return true
	}
	if bytes.Equal(stated, sum) {
		e.proven.Store(true)
		return true
	}
	const encryption = "X-Amz-Server-Side-Encryption"
	own := h.Get(encryption) == "" || h.Get(encryption) == "AES256" // Other encryption keys give other ETags.
	return !e.proven.Load() || !own || h.Get(encryption+"-Customer-Algorithm") != ""
}

// errETag returns the error that makes a read retry.
func errETag(key string, h http.Header) error {
	return foreign(fmt.Sprintf("bytes of %s do not match the ETag %s", key, h.Get("ETag")), remedyChanged)
}

// sentBody computes the digest of a request's body while it is sent.
type sentBody struct {
	io.ReadCloser
	md5  hash.Hash
	sent atomic.Int64 // Set after md5 covers the bytes.
}

// Read implements io.Reader.
func (s *sentBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n > 0 { // sum may run concurrently with the read that finds the end.
		s.md5.Write(p[:n])
		s.sent.Add(int64(n))
	}
	return n, err
}

// sum returns the digest once all size bytes have been sent, nil before.
func (s *sentBody) sum(size int64) []byte {
	if s == nil || s.sent.Load() != size {
		return nil
	}
	return s.md5.Sum(nil)
}
