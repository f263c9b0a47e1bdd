package awsauth

import (
	"context"
	"sync"
	"time"
)

const (
	// refreshAhead is the time before expiry at which credentials are refreshed.
	refreshAhead = 5 * time.Minute
	// pause is the minimum time between refreshes of valid credentials, after an error or an unchanged
	// result.
	pause = 30 * time.Second
	// defaultLifetime is the lifetime of temporary credentials without an expiry.
	defaultLifetime = 15 * time.Minute
)

// cache caches the temporary credentials of a service.
type cache struct {
	// turn is held by the call that refreshes.
	turn chan struct{}

	mu    sync.Mutex
	key   string // cache key of the other fields
	held  Credentials
	again time.Time // no refresh before this time while held is valid
	asked int       // completed requests, successful or not
	err   error     // error of the last request
}

func newCache() *cache { return &cache{turn: make(chan struct{}, 1)} }

// get returns the credentials of a key: the cached ones, or those that load returns.
func (c *cache) get(ctx context.Context, key string, load func(context.Context) (Credentials, error)) (Credentials, error) {
	held, good, due, before := c.lookup(key)
	if good && !due {
		return held, nil
	}
	if good { // another call refreshes
		select {
		case c.turn <- struct{}{}:
		default:
			return held, nil
		}
	} else {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return Credentials{}, context.Cause(ctx)
		}
	}
	defer func() { <-c.turn }()
	held, good, due, now := c.lookup(key)
	if good && !due {
		return held, nil
	}
	if now != before && !good {
		return Credentials{}, c.failure() // error of the request that this call waited for
	}
	loaded, err := load(ctx)
	if err != nil && ctx.Err() != nil {
		return Credentials{}, context.Cause(ctx) // the next waiting call makes its own request
	}
	return c.answer(key, loaded, err)
}

// lookup returns the cached credentials of a key, whether they are valid, whether a refresh is due, and
// the number of requests so far.
func (c *cache) lookup(key string) (held Credentials, good, due bool, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != key {
		c.key, c.held, c.again, c.err = key, Credentials{}, time.Time{}, nil
	}
	now := time.Now()
	return c.held, now.Before(c.held.Expires), !now.Before(c.held.Expires.Add(-refreshAhead)) && !now.Before(c.again), c.asked
}

func (c *cache) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// answer stores the result of a request and returns the current credentials.
func (c *cache) answer(key string, loaded Credentials, err error) (Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case loaded.Expires.IsZero():
		loaded.Expires = now.Add(defaultLifetime)
	case !now.Before(loaded.Expires): // expired credentials indicate a faulty service
		loaded.Expires = now.Add(pause)
	}
	c.asked++
	if c.key != key {
		return loaded, err // the environment has changed since
	}
	c.err, c.again = err, now.Add(pause)
	switch {
	case err == nil:
		c.held = loaded
	case !now.Before(c.held.Expires):
		return Credentials{}, err
	}
	return c.held, nil
}

// drop removes the cached credentials with a session token. It reports whether they are or were
// temporary, so that the next call gets others.
func (c *cache) drop(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == "" || token == "" {
		return false
	}
	if c.held.SessionToken == token {
		c.held = Credentials{}
	}
	return true
}
