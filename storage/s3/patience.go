package s3

import (
	"context"
	"net"
	"sync"
	"time"
)

// answerWait bounds how long a failed write waits for the answer. The end of the
// connection ends the wait; the time only matters if the reader is stuck.
const answerWait = 5 * time.Second

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// patient makes the connections of dial tell a refusal that comes early. A server
// may answer before it has read a large body, for example that the key is taken,
// and close the connection. Then the write of the rest fails while the answer is
// there to be read, and net/http reports whichever comes first. So a failed write
// returns only once the connection is closed, by which time the answer, or that
// there is none, has been read.
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
