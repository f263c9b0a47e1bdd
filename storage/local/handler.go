package local

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKeyBytes is S3's limit.
const maxKeyBytes = 1024

// ServeHTTP serves one S3 request.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.errorResponse(r, errClosed()).writeTo(w)
		return
	}
	defer s.leave()
	s.serve(r).writeTo(w)
}

// enter begins a request; it is false if the Store is closed or about to be.
func (s *Store) enter() bool {
	if !s.life.TryRLock() {
		return false
	}
	if s.closed {
		s.life.RUnlock()
		return false
	}
	return true
}

func (s *Store) leave() { s.life.RUnlock() }

func errClosed() error {
	return &apiError{http.StatusServiceUnavailable, "ServiceUnavailable", "the store is closed"}
}

// serve answers one request. The caller has entered and closes the response.
func (s *Store) serve(r *http.Request) *response {
	resp, err := s.route(r)
	if err != nil {
		resp = s.errorResponse(r, err)
	}
	// In process nobody else sets it, and the client reads it from the header.
	// 204 must not have a length.
	if resp.status != http.StatusNoContent {
		resp.header.Set("Content-Length", strconv.FormatInt(resp.length, 10))
	}
	if r.Method == http.MethodHead {
		resp.close()
		resp.body = nil
	}
	return resp
}

func (s *Store) route(r *http.Request) (*response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
	case http.MethodPost:
		return nil, notImplemented("POST is not implemented")
	default:
		return nil, &apiError{http.StatusMethodNotAllowed, "MethodNotAllowed", "the method is not allowed"}
	}
	if err := checkHeader(r); err != nil {
		return nil, err
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket == "" {
		return nil, notImplemented("operations on the service are not implemented")
	}
	if bucket != Bucket {
		return nil, &apiError{http.StatusNotFound, "NoSuchBucket", "the only bucket is " + Bucket}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidArgument("query: %v", err)
	}
	if key == "" {
		if r.Method != http.MethodGet || query.Get("list-type") != "2" {
			return nil, notImplemented("the only operation on the bucket is ListObjectsV2")
		}
		return s.listObjects(r, query)
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	for name := range query {
		if name != "x-id" {
			return nil, notImplemented("parameter %q is not implemented", name)
		}
	}
	return s.routeObject(r, key)
}

func (s *Store) routeObject(r *http.Request, key string) (*response, error) {
	switch r.Method {
	case http.MethodPut:
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			return s.copyObject(r, key)
		}
		return s.putObject(r, key)
	case http.MethodDelete:
		return s.deleteObject(r, key)
	default:
		return s.getObject(r, key)
	}
}

// checkHeader refuses what would have to be ignored: a condition that is not
// checked, or metadata that is not kept, is worse than an error.
func checkHeader(r *http.Request) error {
	for name, values := range r.Header {
		switch name {
		case "If-None-Match":
			if r.Method != http.MethodPut || len(values) != 1 || values[0] != "*" {
				return notImplemented("If-None-Match is implemented for PUT with * only")
			}
			continue
		case "X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-User-Agent",
			"X-Amz-Copy-Source", "X-Amz-Metadata-Directive", "X-Amz-Checksum-Mode":
			continue
		case "Content-Encoding":
			return notImplemented("content encodings are not kept")
		}
		if strings.HasPrefix(name, "If-") || strings.HasPrefix(name, "X-Amz-") {
			return notImplemented("header %s is not implemented", name)
		}
	}
	return nil
}

func checkKey(key string) error {
	if len(key) > maxKeyBytes {
		return &apiError{http.StatusBadRequest, "KeyTooLongError", fmt.Sprintf("a key has at most %d bytes", maxKeyBytes)}
	}
	if !utf8.ValidString(key) {
		return invalidArgument("the key is not valid UTF-8")
	}
	return nil
}
