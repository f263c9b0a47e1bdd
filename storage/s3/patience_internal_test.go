package s3

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/storage"
)

// refusingConn connects to a server that reads the head of a request, responds and closes the
// connection. The response arrives only after the write of the rest has failed.
type refusingConn struct {
	net.Conn
	answer io.Reader
	writes int
	fail   sync.Once
	failed chan struct{}
}

func (c *refusingConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 1 {
		return len(p), nil
	}
	c.fail.Do(func() { close(c.failed) })
	return 0, syscall.ECONNRESET
}

func (c *refusingConn) Read(p []byte) (int, error) {
	<-c.failed
	n, err := c.answer.Read(p)
	if err == io.EOF {
		err = syscall.ECONNRESET
	}
	return n, err
}

func (c *refusingConn) Close() error {
	c.fail.Do(func() { close(c.failed) })
	return nil
}

func TestRefusalBeforeTheBodyIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   error
	}{
		"taken":     {"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n", storage.ErrExists},
		"refused":   {"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", storage.ErrRefused},
		"no answer": {"", storage.ErrUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := NewTransport()
				transport.DialContext = patient(func(context.Context, string, string) (net.Conn, error) {
					return &refusingConn{answer: strings.NewReader(tt.answer), failed: make(chan struct{})}, nil
				})
				b, err := New(&Options{Endpoint: "bucket.test", Bucket: "b-1", Transport: transport})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = b.Create(t.Context(), "k", storage.Bytes(make([]byte, 1<<20)))
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if waited := time.Since(start); waited >= answerWait {
					t.Errorf("the call took %v of waiting", waited)
				}
			})
		})
	}
}
