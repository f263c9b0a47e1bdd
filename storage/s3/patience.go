package s3

import (
	"context"
	"net"
	"sync"
	"time"
)

// answerWait bounds how long a failed write waits for the response. The end of the connection ends the
// wait; the timeout only matters if the reader is stuck.
const answerWait = 5 * time.Second

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// patient makes connections of dial report an early rejection. A server may respond before it has read
// a large body, for example that the key exists, and close the connection. Then the write of the rest
// fails while the response is readable, and net/http reports whichever comes first. So a failed write
// returns only after the connection is closed, when the response has been read or is known to be
// absent.
func patient(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: c, closed: make(chan struct{})}, nil
	}
}

type patientConn struct {
	net.Conn
	closing sync.Once
	closed  chan struct{}
}

// Write implements net.Conn.
func (c *patientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		t := time.NewTimer(answerWait)
		defer t.Stop()
		select {
		case <-c.closed:
		case <-t.C:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *patientConn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
