package noderun_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/waiting"
)

func TestMemory(t *testing.T) {
	if now, most, err := noderun.Memory(os.Getpid()); now <= 0 || most < now || err != nil {
		t.Errorf("this process has %d bytes, %d at most, %v", now, most, err)
	}
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	waiting.Until(t, "a process that has ended, and is there until it is waited for, to have no memory", func() bool {
		_, _, err := noderun.Memory(ended.Process.Pid)
		return err != nil
	})
	if err := ended.Wait(); err != nil {
		t.Error(err)
	}
}
