package pending

import (
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxUnread bounds what is remembered of logs that cannot be opened.
	maxUnread = 1024
	// staleAfter is how many times as long as one failure counts nobody asks for a log that
	// gives way to others.
	staleAfter = 10
)

// unread remembers why logs could not be opened, and how often, so that a log that stays as it is does
// not fill the node's own with the requests and sweeps that ask for it.
// Safe for concurrent use.
type unread struct {
	mu    sync.Mutex
	why   map[conversation.Key]string
	fails map[conversation.Key]failures
}

// failures are those to open a log that count.
type failures struct {
	n    int
	last time.Time
}

// failed counts a failure to open a log and returns how many there were, of those within a
// time the first: who asks all the time learns it no more often than who asks now and then.
func (u *unread) failed(key conversation.Key, within time.Duration) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	f, known := u.fails[key]
	if known && time.Since(f.last) < within {
		return f.n
	}
	f.n++
	f.last = time.Now()
	if !known && len(u.fails) >= maxUnread && !u.forget(staleAfter*within) {
		return f.n
	}
	if u.fails == nil {
		u.fails = map[conversation.Key]failures{}
	}
	u.fails[key] = f
	return f.n
}

// forget forgets the log that failed the longest ago, and reports whether that is so long
// ago. Otherwise those that are counted go on to be: they are quarantined, which makes room,
// while each of them that gave way to another would begin anew. The caller holds mu.
func (u *unread) forget(ago time.Duration) bool {
	var oldest conversation.Key
	for key, f := range u.fails {
		if o, ok := u.fails[oldest]; !ok || f.last.Before(o.last) {
			oldest = key
		}
	}
	if time.Since(u.fails[oldest].last) < ago {
		return false
	}
	delete(u.fails, oldest)
	return true
}

// news notes a cause, and reports whether it is not the one that was noted last.
func (u *unread) news(key conversation.Key, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	why, known := u.why[key]
	if known && why == err.Error() {
		return false
	}
	if u.why == nil || len(u.why) >= maxUnread {
		u.why = map[conversation.Key]string{}
	}
	u.why[key] = err.Error()
	return true
}

// opened forgets a conversation.
func (u *unread) opened(key conversation.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.why, key)
	delete(u.fails, key)
}
