package jsonl

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/observability/sinktest"
)

// TestFailedRotationCostsNothing checks that a failed rotation leaves no empty files, which would
// displace those to keep.
func TestFailedRotationCostsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f, err := Open(path, &Options{MaxBytes: 1, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events := sinktest.Sample()[:5]
	for i := range events[:4] {
		if err := f.Write(t.Context(), events[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if _, err := f.current(); err != nil {
			t.Fatal(err)
		}
		_ = f.file.Close() // Its sync fails from now on.
		if err := f.rotate(); err == nil {
			t.Fatal("rotation of a file that cannot be synced: got no error")
		}
	}
	if err := f.Write(t.Context(), events[4:]); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range ReadFiles(path) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ID)
	}
	var want []string
	for _, e := range events[1:] {
		want = append(want, e.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
