package googlegenerativeai

import (
	"context"
	"sync"
	"time"
)

const (
	// refreshAhead is how long before its end a token is replaced.
	refreshAhead = 5 * time.Minute
	// refreshTimeout bounds one attempt to get a token.
	refreshTimeout = 30 * time.Second
)

// token is an access token. quotaProject is who pays, if the credentials say so.
type token struct {
	value, quotaProject string
	expires             time.Time
}

// tokenSource keeps a token and replaces it in time, by one request however many calls want
// it. It is safe for concurrent use.
type tokenSource struct {
	fetch func(context.Context) (token, error)

	mu      sync.Mutex
	kept    token
	refresh *refresh // under way, nil if there is none
	running sync.WaitGroup
}

// refresh is a request for a token. What it brought may be read once it is done.
type refresh struct {
	cancel context.CancelFunc
	done   chan struct{}
	token  token
	err    error
}

// get returns a token that is good for now. A call waits for one only if there is none, and
// leaves with its context; the request goes on for the others.
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

// begin returns the request under way, and makes one if there is none. It needs the lock.
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

// close drops the token, and ends a request under way and waits for it.
func (s *tokenSource) close() {
	s.mu.Lock()
	s.kept = token{}
	if s.refresh != nil {
		s.refresh.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
