package actors

import (
	"sync"

	"github.com/parleyrun/parley/conversation"
)

// maxUnread bounds what is remembered of logs that cannot be opened.
const maxUnread = 1024

// unread remembers why logs could not be opened, so that a log that stays as it is does
// not fill the node's own with the requests and sweeps that ask for it.
// Safe for concurrent use.
type unread struct {
	mu  sync.Mutex
	why map[conversation.Key]string
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
}
