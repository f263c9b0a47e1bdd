package local

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// response is an answer before anybody decided how it travels. Its body is
// handed to the client as it is, in process, or copied to a connection.
type response struct {
	status int
	header http.Header
	// body is nil if there is none. Whoever takes the response closes it.
	body io.ReadCloser
	// length is the Content-Length in bytes, also of a HEAD, which has no body.
	length int64
}

func newResponse(status int) *response {
	return &response{status: status, header: make(http.Header, 6)}
}

func (r *response) close() {
	if r.body != nil {
		r.body.Close()
	}
}

// setBytes makes b the body.
func (r *response) setBytes(b []byte) {
	r.body, r.length = io.NopCloser(bytes.NewReader(b)), int64(len(b))
}

// setXML makes v the body.
func (r *response) setXML(v any) error {
	b, err := xml.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	r.header.Set("Content-Type", "application/xml")
	r.setBytes(append([]byte(xml.Header), b...))
	return nil
}

// writeTo sends the response over a connection. An error here is the client's:
// it hung up.
func (r *response) writeTo(w http.ResponseWriter) {
	defer r.close()
	h := w.Header()
	for name, values := range r.header {
		h[name] = values
	}
	w.WriteHeader(r.status)
	if r.body != nil {
		io.Copy(w, r.body)
	}
}

// errorBody is S3's error document.
type errorBody struct {
	XMLName  xml.Name `xml:"Error"`
	Code     string
	Message  string
	Resource string
}

// errorResponse turns an error into an answer. Only an apiError is told to the
// client; anything else is logged and leaves the outcome unknown.
func (s *Store) errorResponse(r *http.Request, err error) *response {
	var api *apiError
	switch {
	case errors.As(err, &api):
	case errors.Is(err, errNoKey):
		api = &apiError{http.StatusNotFound, "NoSuchKey", "the key does not exist"}
	case errors.Is(err, errExists):
		api = &apiError{http.StatusPreconditionFailed, "PreconditionFailed", "the key exists already"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		api = &apiError{http.StatusServiceUnavailable, "ServiceUnavailable", "the request was given up"}
	default:
		s.log.Error("local store request", "method", r.Method, "path", r.URL.Path, "err", err)
		api = &apiError{http.StatusInternalServerError, "InternalError", "the outcome is unknown; see the log of the store"}
	}
	resp := newResponse(api.status)
	if api.status == http.StatusMethodNotAllowed {
		resp.header.Set("Allow", "GET, HEAD, PUT, DELETE")
	}
	body := errorBody{Code: api.code, Message: api.message, Resource: r.URL.Path}
	if err := resp.setXML(body); err != nil {
		s.log.Error("local store request", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	return resp
}
