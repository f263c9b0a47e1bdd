package storagetest

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/parleyrun/parley/storage"
)

// Class classifies keys by purpose.
type Class string

// The classes of keys.
const (
	Log        Class = "log"        // Batches of a conversation.
	Seg        Class = "seg"        // Segments of a log.
	Busy       Class = "pending"    // Pending-work journals.
	Quarantine Class = "quarantine" // Quarantined conversations.
	Export     Class = "export"     // Export journals.
	Timer      Class = "timer"      // Timers of suspended conversations.
	Blob       Class = "blob"       // Attachments.
	Ckpt       Class = "ckpt"       // Heads, checkpoints and pages of closed history.
	Index      Class = "index"      // Activity of a day.
	Other      Class = "other"      // Everything else.
)

// Request is one kind of request.
type Request struct {
	Method string // GET, PUT, DELETE or LIST.
	Class  Class
}

type Counter struct {
	mu     sync.Mutex
	counts map[Request]int
}

// NewCounter returns a counter of the requests through its Bucket.
func NewCounter() *Counter { return &Counter{counts: make(map[Request]int)} }

// Bucket returns b with its requests counted.
func (c *Counter) Bucket(b storage.Bucket) storage.Bucket {
	return Through(b, func(ctx context.Context, call *Call) error {
		c.mu.Lock()
		c.counts[Request{call.Method, classOf(call.Key)}]++
		c.mu.Unlock()
		return call.Do(ctx)
	})
}

// Counts returns the number of requests of each kind since the last Reset.
func (c *Counter) Counts() map[Request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Reset clears the counts.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

// classOf uses the first folder that has the name of a class.
func classOf(key string) Class {
	for part := range strings.SplitSeq(key, "/") {
		switch part {
		case string(Log), string(Seg), string(Busy), string(Quarantine), string(Export), string(Timer), string(Blob), string(Index):
			return Class(part)
		case "head", "ckpt", "page":
			return Ckpt
		}
	}
	return Other
}
