package storage

import (
	"errors"
	"io"
	"sync"
)

// ErrReleased reports a read of a body after its call has ended.
var ErrReleased = errors.New("body was released")

// Lent is the reader of a [Body] during one call. The implementation of the call may still read after
// its caller has returned; Release stops it before the caller reuses the source. Lent is safe for
// concurrent use.
type Lent struct {
	mu       sync.Mutex
	src      io.ReadSeeker
	released bool
}

// Lend returns the reader of b for one call. Implementations of [Bucket] use it.
func (b Body) Lend() *Lent { return &Lent{src: b.Reader} }

// Read implements io.Reader. It returns ErrReleased after Release.
func (l *Lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return 0, ErrReleased
	}
	return l.src.Read(p)
}

// Seek implements io.Seeker. It returns ErrReleased after Release.
func (l *Lent) Seek(offset int64, whence int) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return 0, ErrReleased
	}
	return l.src.Seek(offset, whence)
}

// Release waits for a running Read and ends the use of the source.
func (l *Lent) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
}
