package clickhouse

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatientConn checks that a slow server gets all bytes, that a stalled one is disconnected, and
// that an earlier deadline of the driver applies.
func TestPatientConn(t *testing.T) {
	const patience, long = 5 * time.Second, 100 * pieceBytes
	for name, c := range map[string]struct {
		pieces int // read by the server, one every four seconds
		until  time.Duration
		want   error
		after  time.Duration
	}{
		"slow":                  {100, 0, nil, 400 * time.Second},
		"deaf":                  {0, 0, os.ErrDeadlineExceeded, patience},
		"deaf after a while":    {3, 0, os.ErrDeadlineExceeded, 12*time.Second + patience},
		"deaf to the deadline":  {0, time.Second, os.ErrDeadlineExceeded, time.Second},
		"slow and a deadline":   {100, 10 * time.Second, os.ErrDeadlineExceeded, 10 * time.Second},
		"slow, a deadline late": {100, time.Hour, nil, 400 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				var server sync.WaitGroup
				defer server.Wait()
				defer ours.Close()
				defer theirs.Close()
				server.Go(func() {
					for range c.pieces {
						time.Sleep(4 * time.Second)
						if _, err := io.CopyN(io.Discard, theirs, pieceBytes); err != nil {
							return
						}
					}
				})
				conn := &patientConn{Conn: ours, patience: patience}
				began := time.Now()
				if c.until > 0 {
					if err := conn.SetDeadline(began.Add(c.until)); err != nil {
						t.Fatal(err)
					}
				}
				n, err := conn.Write(make([]byte, long))
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.after || (err == nil) != (n == long) {
					t.Errorf("%d bytes: got %[3]v after %[2]v, want %[4]v after %[5]v", n, took, err, c.want, c.after)
				}
				if c.want != nil || c.until > 0 {
					return
				}
				// Writes of TLS during reads have no expired deadline.
				time.Sleep(time.Hour)
				server.Go(func() { _, _ = theirs.Read(make([]byte, 1)) })
				if _, err := ours.Write([]byte("x")); err != nil {
					t.Errorf("write after the deadline: got %v", err)
				}
			})
		})
	}
}
