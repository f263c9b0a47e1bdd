package noderun

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// StartReaper starts a reaper for the processes of a test. When t ends, what still runs
// is killed and waited for.
func StartReaper(t testing.TB) *proc.Reaper {
	t.Helper()
	r, err := proc.StartReaper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// FreePorts returns n addresses of a host that nobody listens on, for now. A node with a
// loopback address of its own has them for good: nobody else takes a port there while the
// node is down.
func FreePorts(t testing.TB, host string, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // At the end, so that no port comes twice.
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// Pause waits, or returns why ctx ended.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
