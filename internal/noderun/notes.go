package noderun

import (
	"fmt"
	"sync"
)

// Notes gathers what is wrong. The zero value has nothing.
type Notes struct {
	mu    sync.Mutex
	lines []string
}

// Fail notes that something is wrong.
func (n *Notes) Fail(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// All returns what was noted.
func (n *Notes) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{}, n.lines...)
}

// Any reports whether anything was noted.
func (n *Notes) Any() bool { return len(n.All()) > 0 }
