package server

import (
	"net/http"
	"sync"
)

// swap is a handler that is exchanged while it serves. A request stays with the
// handler it came to. The zero value answers nothing: set comes first.
type swap struct {
	mu      sync.Mutex
	current *tenant
}

// tenant is a handler and how many requests are inside it.
type tenant struct {
	handler http.Handler
	inside  int
	retired bool
	left    chan struct{} // closed once it is retired and nobody is inside
}

// set makes h answer every request from now on. The channel is closed once no
// request is left in the handler before it.
func (s *swap) set(h http.Handler) (left <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	s.current = &tenant{handler: h, left: make(chan struct{})}
	if old == nil {
		old = &tenant{left: make(chan struct{})}
	}
	old.retired = true
	old.check()
	return old.left
}

// check closes left when its time has come. The caller holds mu.
func (t *tenant) check() {
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
