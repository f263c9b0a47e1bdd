package jsonl_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/sinktest"
)

// TestFileIsAPipe: what has been taken by something that cannot be synced, such as
// /dev/stdout, is stored, and does not come again.
func TestFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := jsonl.Open(path, nil) // To read and to write, which does not wait for a reader.
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sample := sinktest.Sample()
	write(t, f, sample[:10]...)
	write(t, f, sample[10:]...)
	if err := f.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	n := 0
	for _, err := range jsonl.Read(r) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != len(sample) {
		t.Errorf("%d events in the pipe, want %d", n, len(sample))
	}
}
