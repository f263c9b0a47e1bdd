package s3front

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/storage"
)

// Address of a Front for a client, which must use path style.
const (
	// Endpoint is the host name for RoundTrip. It never resolves, so a client without the transport
	// connects to nothing.
	Endpoint = "front.invalid"
	// Bucket is the name of the only bucket.
	Bucket = "parley"
)

// Front serves one bucket.
type Front struct{ bucket storage.Bucket }

var (
	_ http.Handler      = (*Front)(nil)
	_ http.RoundTripper = (*Front)(nil)
)

// New returns a front for b.
func New(b storage.Bucket) *Front { return &Front{b} }

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := f.serve(r)
	if err != nil {
		resp = refusal(http.StatusInternalServerError, "InternalError", err)
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // The client may have closed the connection.
}

// RoundTrip implements http.RoundTripper.
func (f *Front) RoundTrip(r *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	ctx, answered := r.Context(), make(chan answer)
	go func() {
		resp, err := f.serve(r)
		if r.Body != nil {
			_ = r.Body.Close()
		}
		select {
		case answered <- answer{resp, err}:
		case <-ctx.Done():
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	}()
	select {
	case a := <-answered:
		return a.resp, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve answers one request. An error means that there is no response.
func (f *Front) serve(r *http.Request) (resp *http.Response, err error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch create := r.Header.Get("If-None-Match"); {
	case bucket != Bucket:
		return refusal(http.StatusNotFound, "NoSuchBucket", nil), nil
	case create != "" && (create != "*" || r.Method != http.MethodPut), r.Header.Get("If-Match") != "", r.Header.Get("X-Amz-Copy-Source") != "":
		err = errUnknown
	case key == "" && r.Method == http.MethodGet && query.Get("list-type") == "2":
		resp, err = f.list(r, query)
	case key == "" || len(query) > 0:
		err = errUnknown
	case r.Method == http.MethodPut && create != "":
		resp, err = put(r, key, f.bucket.Create)
	case r.Method == http.MethodPut:
		resp, err = put(r, key, f.bucket.Put)
	case r.Method == http.MethodGet && r.Header.Get("Range") != "":
		resp, err = f.getRange(r, key)
	case r.Method == http.MethodGet:
		var body io.ReadCloser
		var size int64
		body, size, err = f.bucket.Open(r.Context(), key)
		resp = response(http.StatusOK, body, size)
	case r.Method == http.MethodDelete:
		resp, err = response(http.StatusNoContent, http.NoBody, 0), f.bucket.Delete(r.Context(), key)
	default:
		err = errUnknown
	}
	if err != nil {
		return answerOf(err)
	}
	resp.Request = r
	return resp, nil
}

func put(r *http.Request, key string, store func(context.Context, string, storage.Body) error) (*http.Response, error) {
	var data []byte
	if r.Body != nil {
		var err error
		if data, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if int64(len(data)) != r.ContentLength {
		return nil, fmt.Errorf("%w: a body of %d bytes with the length %d", errUnknown, len(data), r.ContentLength)
	}
	body := storage.Bytes(data)
	if digest := r.Header.Get("X-Amz-Content-Sha256"); digest != "" && digest != "UNSIGNED-PAYLOAD" {
		sum, err := hex.DecodeString(digest)
		if err != nil || len(sum) != len(body.SHA256) {
			return nil, fmt.Errorf("%w: the digest %q", errUnknown, digest)
		}
		body.SHA256 = [32]byte(sum)
	}
	resp := response(http.StatusOK, http.NoBody, 0)
	resp.Header.Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(data)))
	return resp, store(r.Context(), key, body)
}

func (f *Front) getRange(r *http.Request, key string) (*http.Response, error) {
	var from, to int64
	want := r.Header.Get("Range")
	if _, err := fmt.Sscanf(want, "bytes=%d-%d", &from, &to); err != nil || want != fmt.Sprintf("bytes=%d-%d", from, to) {
		return nil, fmt.Errorf("%w: the range %q", errUnknown, want)
	}
	data, err := f.bucket.GetRange(r.Context(), key, from, to-from+1)
	resp := document(http.StatusPartialContent, data)
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, to))
	return resp, err
}

// listing is the response document of ListObjectsV2.
type listing struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	EncodingType          string
	NextContinuationToken string `xml:",omitempty"`
	IsTruncated           bool
	Contents              []storage.ListedKey
	CommonPrefixes        []struct{ Prefix string }
}

// list returns one page. It rejects continuation tokens: clients use start-after.
func (f *Front) list(r *http.Request, query url.Values) (*http.Response, error) {
	limit, err := strconv.Atoi(cmp.Or(query.Get("max-keys"), "0"))
	if err != nil || query.Has("continuation-token") || query.Get("encoding-type") != "url" {
		return nil, errors.Join(errUnknown, err)
	}
	q := storage.ListQuery{Prefix: query.Get("prefix"), After: query.Get("start-after"), Delimiter: query.Get("delimiter"), Limit: limit}
	page, err := f.bucket.List(r.Context(), q)
	if err != nil {
		return nil, err
	}
	doc := listing{Name: Bucket, Prefix: encoded(q.Prefix), EncodingType: "url", IsTruncated: page.More}
	if page.More { // Clients expect a token in a truncated page.
		doc.NextContinuationToken = "more"
	}
	for _, k := range page.Keys {
		doc.Contents = append(doc.Contents, storage.ListedKey{Key: encoded(k.Key), Size: k.Size})
	}
	for _, p := range page.Prefixes {
		doc.CommonPrefixes = append(doc.CommonPrefixes, struct{ Prefix string }{encoded(p)})
	}
	data, err := xml.Marshal(doc)
	return document(http.StatusOK, data), err
}

// encoded URL-encodes a key, so that a document can hold any key.
func encoded(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/") }

var errUnknown = errors.New("request is not supported")

// refusals are responses that storage/s3 maps to the kinds.
var refusals = map[error]struct {
	status int
	code   string
}{
	errUnknown:          {http.StatusNotImplemented, "NotImplemented"},
	storage.ErrNotFound: {http.StatusNotFound, "NoSuchKey"},
	storage.ErrExists:   {http.StatusPreconditionFailed, "PreconditionFailed"},
	storage.ErrConflict: {http.StatusConflict, "OperationAborted"},
	storage.ErrRefused:  {http.StatusBadRequest, "InvalidRequest"},
}

// answerOf returns the response for an error, or the error itself if there is no response.
func answerOf(err error) (*http.Response, error) {
	kind, cause := errUnknown, err
	if e, ok := errors.AsType[*storage.Error](err); ok {
		if kind, cause = e.Kind, e.Err; e.Status != 0 {
			return refusal(e.Status, e.Code, cause), nil
		}
	} else if !errors.Is(err, errUnknown) {
		return nil, err
	}
	if r, ok := refusals[kind]; ok {
		return refusal(r.status, r.code, cause), nil
	}
	return nil, err
}

// refusal returns S3's error document.
func refusal(status int, code string, err error) *http.Response {
	doc := struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string `xml:",omitempty"`
	}{Code: code}
	if err != nil {
		doc.Message = err.Error()
	}
	data, _ := xml.Marshal(doc) // Two strings always encode.
	return document(status, data)
}

func document(status int, data []byte) *http.Response {
	return response(status, io.NopCloser(bytes.NewReader(data)), int64(len(data)))
}

// response sets a time and an ETag, which clients require for an object. The ETag is arbitrary,
// because a bucket keeps no digest.
func response(status int, body io.ReadCloser, size int64) *http.Response {
	resp := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Last-Modified": {"Thu, 01 Jan 1970 00:00:00 GMT"}, "Etag": {`"front"`}}, Body: body, ContentLength: size,
	}
	if status != http.StatusNoContent {
		resp.Header.Set("Content-Type", "application/octet-stream") // Content sniffing could result in text/html.
		resp.Header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	return resp
}
