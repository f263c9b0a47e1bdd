package jsonl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/sinktest"
)

// TestFileIsAPipe checks that events written to a file that cannot be synced, such as /dev/stdout,
// count as stored.
func TestFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := jsonl.Open(path, nil) // Opening for both directions does not wait for a reader.
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
		t.Errorf("got %d events in the pipe, want %d", n, len(sample))
	}
}

// TestFileIsAStuckPipe checks that a Write ends with its context, and that a later event does not join
// the truncated line.
func TestFileIsAStuckPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, nil)
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events := make([]observability.Event, 500) // more than a pipe buffers
	for i := range events {
		events[i] = sinktest.Sample()[0]
		events[i].ID = strconv.Itoa(i)
	}
	for range 2 { // The second write finds a full pipe.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := f.Write(ctx, events)
		// On a slow machine the deadline may pass before the first write.
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write to a pipe without a reader: got %v", err)
		}
		cancel()
	}
	read, torn := map[string]bool{}, 0
	over := make(chan struct{})
	go func() {
		defer close(over)
		for e, err := range jsonl.Read(r) {
			if err != nil {
				torn++
			}
			read[e.ID] = true
			if e.ID == "end" {
				return
			}
		}
	}()
	write(t, f, events...)
	end := sinktest.Sample()[0]
	end.ID = "end"
	write(t, f, end)
	<-over
	for _, e := range events {
		if !read[e.ID] {
			t.Errorf("stored event %s: got no line", e.ID)
		}
	}
	if torn != 1 {
		t.Errorf("got %d torn lines, want 1", torn)
	}
}
