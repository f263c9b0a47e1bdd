package clitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
)

// Endpoint is an S3 endpoint with a bucket, as an operator configures it.
type Endpoint struct {
	Address string
	Bucket  storage.Bucket
	Line    string // bucket line of a configuration

	probes waiting.Log // requests below probe/
}

// NewEndpoint serves a store. change, if not nil, modifies each request as a proxy would.
func NewEndpoint(t *testing.T, change func(*http.Request)) *Endpoint {
	t.Helper()
	store := NewStore(t)
	front := s3front.New(store)
	e := &Endpoint{Bucket: store}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := r.URL.Path + r.URL.Query().Get("prefix"); strings.Contains(at, "/probe/") {
			fmt.Fprintln(&e.probes, r.Method, at)
		}
		if change != nil {
			change(r)
		}
		front.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e.Address = server.Listener.Addr().String()
	e.Line = fmt.Sprintf("bucket: {endpoint: %q, name: %s, secure: false}", e.Address, s3front.Bucket)
	return e
}

// Take returns the requests below probe/ since the last call, one per line.
func (e *Endpoint) Take() string { return e.probes.Take() }

// DropCondition removes the condition of a conditional create, as a broken proxy would.
func DropCondition(r *http.Request) { r.Header.Del("If-None-Match") }
