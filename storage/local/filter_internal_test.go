package local

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/storage"
)

// TestCreateAsksFilters checks that the filters of the lowest level answer lookups of absent keys,
// which every conditional create makes.
func TestCreateAsksFilters(t *testing.T) {
	s := openTest(t, vfs.NewMem(), nil)
	e := s.engine.(*pebbleEngine)
	const keys = 200
	for i := range keys {
		mustPut(t, s, fmt.Sprintf("k%04d", 2*i), []byte("x"))
	}
	if err := e.db.Compact(t.Context(), []byte{objectSpace}, []byte{objectSpace + 1}, false); err != nil {
		t.Fatal(err)
	}
	if n := e.db.Metrics().Levels[6].TablesCount; n == 0 {
		t.Fatal("nothing is in the lowest level")
	}
	before := e.db.Metrics().Filter.Hits
	for i := range keys - 1 {
		if err := s.Create(t.Context(), fmt.Sprintf("k%04d", 2*i+1), storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	// A filter of 10 bits per key has about 1 % false positives.
	if hits := e.db.Metrics().Filter.Hits - before; hits < keys*9/10 {
		t.Errorf("filters answered %d of %d look-ups", hits, keys-1)
	}
	if err := s.Create(t.Context(), "k0000", storage.Bytes([]byte("y"))); !errors.Is(err, storage.ErrExists) {
		t.Errorf("create over a key in the lowest level: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
