package server

import (
	"net/http"
	"sync"
)

// swap is a handler that can be replaced while it serves. A request stays with its handler. The zero
// value serves nothing: call set first.
type swap struct {
	mu      sync.Mutex
	current *servedHandler
}

// servedHandler is a handler and its number of open requests.
type servedHandler struct {
	handler http.Handler
	inside  int
	retired bool
	left    chan struct{} // closed once it is retired and has no open request
}

// set makes h serve every request from now on. The channel is closed once the previous handler has no
// open request.
func (s *swap) set(h http.Handler) (left <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	s.current = &servedHandler{handler: h, left: make(chan struct{})}
	if old == nil {
		old = &servedHandler{left: make(chan struct{})}
	}
	old.retired = true
	old.check()
	return old.left
}

// check closes left if the handler is retired and has no open request. The caller holds mu.
func (t *servedHandler) check() {
	if t.retired && t.inside == 0 {
		close(t.left)
	}
}

// ServeHTTP implements http.Handler.
func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	t := s.current
	t.inside++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.inside--
		t.check()
	}()
	t.handler.ServeHTTP(w, r)
}
