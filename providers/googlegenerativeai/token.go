package googlegenerativeai

import (
	"context"
	"sync"
	"time"
)

const (
	// refreshAhead is the time before expiry at which a token is replaced.
	refreshAhead = 5 * time.Minute
	// refreshTimeout bounds one token request.
	refreshTimeout = 30 * time.Second
)

// token is an access token. quotaProject is the billed project, if the credentials name one.
type token struct {
	value, quotaProject string
	expires             time.Time
}

// tokenSource caches a token and refreshes it before expiry, with one request for all callers. It is
// safe for concurrent use.
type tokenSource struct {
	fetch func(context.Context) (token, error)

	mu      sync.Mutex
	kept    token
	refresh *refresh // in progress, nil if there is none
	running sync.WaitGroup
}

// refresh is a token request. Its result may be read once it is done.
type refresh struct {
	cancel context.CancelFunc
	done   chan struct{}
	token  token
	err    error
}

// get returns a valid token. A call waits only if there is none, until its context ends; the request
// continues for other callers.
func (s *tokenSource) get(ctx context.Context) (token, error) {
	s.mu.Lock()
	kept, left := s.kept, time.Until(s.kept.expires)
	if left > refreshAhead {
		s.mu.Unlock()
		return kept, nil
	}
	r := s.begin()
	s.mu.Unlock()
	if left > 0 {
		return kept, nil
	}
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return token{}, context.Cause(ctx)
	}
}

// begin returns the request in progress or starts one. The caller holds the lock.
func (s *tokenSource) begin() *refresh {
	if s.refresh != nil {
		return s.refresh
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	r := &refresh{cancel: cancel, done: make(chan struct{})}
	s.refresh = r
	s.running.Go(func() {
		defer cancel()
		r.token, r.err = s.fetch(ctx)
		s.mu.Lock()
		if s.refresh = nil; r.err == nil {
			s.kept = r.token
		}
		s.mu.Unlock()
		close(r.done)
	})
	return r
}

// close drops the token, cancels a request in progress and waits for it.
func (s *tokenSource) close() {
	s.mu.Lock()
	s.kept = token{}
	if s.refresh != nil {
		s.refresh.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
