package noderun_test

import (
	"os"
	"testing"

	"github.com/parleyrun/parley/internal/noderun"
)

func TestMemory(t *testing.T) {
	now, most, err := noderun.MemoryIn("Name:\tparley\nVmHWM:\t  307200 kB\nVmRSS:\t  204800 kB\n")
	if now != 200<<20 || most != 300<<20 || err != nil {
		t.Errorf("%d bytes, %d at most, %v; want 200 MiB and 300 MiB", now, most, err)
	}
	if _, _, err := noderun.MemoryIn("Name:\tparley\n"); err == nil {
		t.Error("a process without memory has some")
	}
	if now, most, err := noderun.Memory(os.Getpid()); now <= 0 || most < now || err != nil {
		t.Errorf("this process has %d bytes, %d at most, %v", now, most, err)
	}
}
