package awsauth

import (
	"context"
	"sync"
	"time"
)

const (
	// aheadOfEnd is how long before their end credentials are asked for again.
	aheadOfEnd = 5 * time.Minute
	// pause is how long nobody is asked again for credentials that are good, after a
	// service has given none or no better ones.
	pause = 30 * time.Second
	// lent is how long credentials are kept of which nobody said when they end.
	lent = 15 * time.Minute
)

// cache keeps what a service has lent.
type cache struct {
	// turn is held by the call that asks.
	turn chan struct{}

	mu    sync.Mutex
	key   string // of what the rest is about
	held  Credentials
	again time.Time // not to be asked before, while held is good
	asked int       // questions that were answered, with an error or not
	err   error     // the answer to the last one
}

func newCache() *cache { return &cache{turn: make(chan struct{}, 1)} }

// get returns the credentials that key stands for: those that are held, or what load
// returns.
func (c *cache) get(ctx context.Context, key string, load func(context.Context) (Credentials, error)) (Credentials, error) {
	held, good, due, before := c.look(key)
	if good && !due {
		return held, nil
	}
	if good { // somebody is to ask, and the others go on
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
	held, good, due, now := c.look(key)
	if good && !due {
		return held, nil
	}
	if now != before && !good {
		return Credentials{}, c.failure() // of the question that this call has waited for
	}
	loaded, err := load(ctx)
	if err != nil && ctx.Err() != nil {
		return Credentials{}, context.Cause(ctx) // the next one in turn asks for itself
	}
	return c.answer(key, loaded, err)
}

// look returns what is held for a key, whether it is good, whether it is time to ask again,
// and the number of questions so far.
func (c *cache) look(key string) (held Credentials, good, due bool, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != key {
		c.key, c.held, c.again, c.err = key, Credentials{}, time.Time{}, nil
	}
	now := time.Now()
	return c.held, now.Before(c.held.Expires), !now.Before(c.held.Expires.Add(-aheadOfEnd)) && !now.Before(c.again), c.asked
}

func (c *cache) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// answer keeps the answer to a question, and returns what there is now.
func (c *cache) answer(key string, loaded Credentials, err error) (Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case loaded.Expires.IsZero():
		loaded.Expires = now.Add(lent)
	case !now.Before(loaded.Expires): // a service that lends what has ended has trouble of its own
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

// drop forgets what is held if it is what has a session token. It reports whether anybody
// lends, who is asked then, or was already.
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
