package local

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// stripeCount is far above the number of concurrent writers, so that two keys rarely share a stripe
// and their commits are synced together.
const stripeCount = 1024

// stripes serialize the writers of a key and let readers wait for them.
//
// The engine makes a write visible before it is synced. A writer therefore announces its commit before
// it applies it and withdraws it after the sync. A reader reads first and then checks the announced
// commits. Each version that it has read was either synced by then or is announced.
type stripes struct {
	seed maphash.Seed
	all  [stripeCount]stripe
}

// stripe covers the keys of one hash value. The writer holds mu during the whole commit, so at most
// one commit is in flight.
type stripe struct {
	mu       sync.Mutex
	inFlight atomic.Pointer[commit]
}

// commit is a change of one key that is not known to be durable yet.
type commit struct {
	key  string
	done chan struct{}
	// err is set before done is closed.
	err error
}

func (s *stripes) of(key string) *stripe {
	return &s.all[maphash.String(s.seed, key)%stripeCount]
}

// begin announces the commit of key. The caller holds mu.
func (s *stripe) begin(key string) *commit {
	c := &commit{key: key, done: make(chan struct{})}
	s.inFlight.Store(c)
	return c
}

// finish ends the commit. A failed commit stays announced permanently, because its visible change must
// never be read.
func (s *stripe) finish(c *commit, err error) {
	c.err = err
	if err == nil {
		s.inFlight.Store(nil)
	}
	close(c.done)
}

// wait waits until the commit is durable. It returns the error of the commit or of ctx.
func (c *commit) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitKey waits for the commit in flight on key, if any.
func (s *stripes) waitKey(ctx context.Context, key string) error {
	if c := s.of(key).inFlight.Load(); c != nil && c.key == key {
		return c.wait(ctx)
	}
	return nil
}

// waitRange waits for the commits in flight on the keys that covers accepts, including deletes, whose
// keys a list does not show.
func (s *stripes) waitRange(ctx context.Context, covers func(key string) bool) error {
	for i := range s.all {
		if c := s.all[i].inFlight.Load(); c != nil && covers(c.key) {
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
