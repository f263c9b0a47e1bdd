package storagetest

import (
	"context"
	"strings"
	"sync"

	"github.com/parleyrun/parley/storage"
)

// Class sorts keys by what they are for.
type Class string

// The classes of keys.
const (
	Log    Class = "log"    // Batches of a conversation.
	Seg    Class = "seg"    // Segments of a log.
	Busy   Class = "wake"   // Busy journals.
	Aside  Class = "aside"  // Conversations that are set aside.
	Export Class = "export" // Export journals.
	Timer  Class = "timer"  // Timers of what waits.
	Blob   Class = "blob"   // Attachments.
	Ckpt   Class = "ckpt"   // Heads, checkpoints and pages of closed history.
	Index  Class = "index"  // Who was active on a day.
	Other  Class = "other"  // Everything else.
)

// Request is one kind of request.
type Request struct {
	Method string // GET, PUT, DELETE or LIST.
	Class  Class
}

// Counter counts requests.
type Counter struct {
	mu     sync.Mutex
	counts map[Request]int
}

// NewCounter returns a counter of what its Bucket passes on.
func NewCounter() *Counter { return &Counter{counts: make(map[Request]int)} }

// Bucket returns b with its requests counted.
func (c *Counter) Bucket(b storage.Bucket) storage.Bucket {
	return Through(b, func(ctx context.Context, call *Call) error {
		c.count(call.Op)
		return call.Do(ctx)
	})
}

func (c *Counter) count(op Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[Request{op.Method, classOf(op.Key)}]++
}

// Counts returns how many requests of each kind there were since the last Reset.
func (c *Counter) Counts() map[Request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[Request]int, len(c.counts))
	for r, n := range c.counts {
		counts[r] = n
	}
	return counts
}

// Reset forgets what was counted.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

func classOf(key string) Class {
	key = "/" + key
	switch {
	case strings.Contains(key, "/log/"):
		return Log
	case strings.Contains(key, "/seg/"):
		return Seg
	case strings.Contains(key, "/index/"):
		return Index
	case strings.Contains(key, "/wake/"):
		return Busy
	case strings.Contains(key, "/export/"):
		return Export
	case strings.Contains(key, "/aside/"):
		return Aside
	case strings.Contains(key, "/timer/"):
		return Timer
	case strings.Contains(key, "/blob/"):
		return Blob
	case strings.HasSuffix(key, "/head"), strings.Contains(key, "/ckpt/"), strings.Contains(key, "/page/"):
		return Ckpt
	default:
		return Other
	}
}
