package pending

import (
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxUnread bounds the remembered logs that cannot be opened.
	maxUnread = 1024
	// staleAfter is the age, in counting intervals, at which an unrequested log may be evicted.
	staleAfter = 10
)

// unread records why logs could not be opened, and how often, so that repeated requests for a corrupt
// log do not fill the node's log. Safe for concurrent use.
type unread struct {
	mu    sync.Mutex
	why   map[conversation.Key]string
	fails map[conversation.Key]failures
}

type failures struct {
	n    int
	last time.Time
}

// failed counts a failure to open a log and returns the count. Within an interval only the first
// counts, so that frequent requests count no more than rare ones.
func (u *unread) failed(key conversation.Key, within time.Duration) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	f, known := u.fails[key]
	if known && time.Since(f.last) < within {
		return f.n
	}
	f.n++
	f.last = time.Now()
	if !known && len(u.fails) >= maxUnread && !u.expire(staleAfter*within) {
		return f.n
	}
	if u.fails == nil {
		u.fails = map[conversation.Key]failures{}
	}
	u.fails[key] = f
	return f.n
}

// expire removes the log with the oldest failure and reports whether it was older than ago. Younger
// ones are kept: they reach the limit and are quarantined, which frees their entries. Evicting them
// would reset their counts. The caller holds mu.
func (u *unread) expire(ago time.Duration) bool {
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

// news records a cause and reports whether it differs from the last one.
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

func (u *unread) opened(key conversation.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.why, key)
	delete(u.fails, key)
}
