package actors

import (
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxUnread bounds what is remembered of logs that cannot be opened.
const maxUnread = 1024

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
	if u.fails == nil || !known && len(u.fails) >= maxUnread {
		u.fails = map[conversation.Key]failures{}
	}
	f.n++
	f.last = time.Now()
	u.fails[key] = f
	return f.n
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
