package proc_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

func TestUsageOf(t *testing.T) {
	before, err := proc.UsageOf(os.Getpid())
	if m := before.Memory; err != nil || m.RSS <= 0 || m.Peak < m.RSS || m.Anonymous <= 0 || m.Anonymous > m.RSS {
		t.Fatalf("%+v, %v", before, err)
	}
	for now := before; now.CPU-before.CPU < 50*time.Millisecond; { // Reading uses CPU time.
		if now, err = proc.UsageOf(os.Getpid()); err != nil || now.CPU < before.CPU {
			t.Fatalf("%+v, %v after %+v", now, err, before)
		}
	}
	gone := exec.Command("true")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	for { // A zombie has no memory.
		if u, err := proc.UsageOf(gone.Process.Pid); err != nil {
			break
		} else if u.Memory.RSS <= 0 {
			t.Errorf("%+v", u)
		}
	}
	if err := gone.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{-1, 0, gone.Process.Pid} {
		if u, err := proc.UsageOf(pid); err == nil {
			t.Errorf("process %d has %+v", pid, u)
		}
	}
}
