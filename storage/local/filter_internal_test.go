package local

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCreateAsksFilters checks that looking for a key that is not there, as every
// conditional create does, is answered by the filters of the lowest level.
func TestCreateAsksFilters(t *testing.T) {
	s := openTest(t, vfs.NewMem(), nil)
	e := s.engine.(*pebbleEngine)
	const keys = 200
	for i := range keys {
		do(t, s, "PUT", fmt.Sprintf("/k%04d", 2*i), []byte("x"))
	}
	if err := e.db.Compact(t.Context(), []byte{objectSpace}, []byte{objectSpace + 1}, false); err != nil {
		t.Fatal(err)
	}
	if n := e.db.Metrics().Levels[6].TablesCount; n == 0 {
		t.Fatal("nothing is in the lowest level")
	}
	before := e.db.Metrics().Filter.Hits
	for i := range keys - 1 {
		do(t, s, "PUT", fmt.Sprintf("/k%04d", 2*i+1), []byte("x"), "If-None-Match", "*")
	}
	// A filter of 10 bits per key lets one of a hundred pass.
	if hits := e.db.Metrics().Filter.Hits - before; hits < keys*9/10 {
		t.Errorf("filters answered %d of %d look-ups", hits, keys-1)
	}
	if status, _ := do(t, s, "PUT", "/k0000", []byte("y"), "If-None-Match", "*"); status != 412 {
		t.Errorf("create over a key in the lowest level: %d", status)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
