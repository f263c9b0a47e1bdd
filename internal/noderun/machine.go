package noderun

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime/debug"
	"testing"
	"time"
)

// Raced reports whether this program has the race detector.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// Build builds the parley program into a file. It has the race detector if the test has.
func Build(file string, flags ...string) error {
	args := append([]string{"build", "-o", file}, flags...)
	if Raced() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/parleyrun/parley/cmd/parley")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build parley: %w\n%s", err, out)
	}
	return nil
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
