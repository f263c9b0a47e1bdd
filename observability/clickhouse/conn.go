package clickhouse

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// pieceBytes is the number of bytes per deadline.
const pieceBytes = 64 << 10

// patientConn disconnects from a server that stops reading. The driver heeds the context while it
// waits for a response, but not while it sends an insert.
type patientConn struct {
	net.Conn
	patience time.Duration

	mu    sync.Mutex
	until time.Time // write deadline of the driver; zero is none
}

// SetDeadline implements [net.Conn].
func (c *patientConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetWriteDeadline(t)
}

// Write implements [net.Conn]. A slow server is not a failure.
func (c *patientConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		if err = c.bound(); err != nil {
			break
		}
		var m int
		m, err = c.Conn.Write(b[n:min(len(b), n+pieceBytes)])
		n += m
	}
	if err != nil {
		return n, err
	}
	// TLS may write during reads.
	c.mu.Lock()
	defer c.mu.Unlock()
	return n, c.Conn.SetWriteDeadline(c.until)
}

// bound sets the deadline of the next piece.
func (c *patientConn) bound() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(c.patience)
	if !c.until.IsZero() && c.until.Before(at) {
		at = c.until
	}
	return c.Conn.SetWriteDeadline(at)
}

// SyscallConn implements [syscall.Conn], with which the driver detects that the server has closed an
// idle connection.
func (c *patientConn) SyscallConn() (syscall.RawConn, error) {
	conn := c.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("inspect connection of type %T: no file descriptor", conn)
	}
	return s.SyscallConn()
}
