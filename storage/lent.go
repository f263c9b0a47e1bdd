package storage

import (
	"errors"
	"io"
	"sync"
)

// ErrReleased says that the call a body was lent for is over.
var ErrReleased = errors.New("the call is over")

// Lent is the reader of a [Body] while a call is under way. Whatever performs the call may
// go on reading after its caller has left; Release makes it stop before the caller uses the
// source again. It is safe for concurrent use.
type Lent struct {
	mu       sync.Mutex
	src      io.ReadSeeker
	released bool
}

// Lend lends the reader of b, for implementations of [Bucket].
func (b Body) Lend() *Lent { return &Lent{src: b.Reader} }

// Read implements io.Reader. Its error is ErrReleased after Release.
func (l *Lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return 0, ErrReleased
	}
	return l.src.Read(p)
}

// Seek implements io.Seeker. Its error is ErrReleased after Release.
func (l *Lent) Seek(offset int64, whence int) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return 0, ErrReleased
	}
	return l.src.Seek(offset, whence)
}

// Release ends the use of the source, after a Read that is under way.
func (l *Lent) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
}
