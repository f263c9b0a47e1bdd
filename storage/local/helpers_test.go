package local_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

func mustPut(t testing.TB, s *local.Store, key string, body []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, storage.Bytes(body)); err != nil {
		t.Fatal(err)
	}
}

func mustDelete(t testing.TB, s *local.Store, key string) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// wantGet expects an object, or none if want is nil.
func wantGet(t testing.TB, s *local.Store, key string, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if want == nil && errors.Is(err, storage.ErrNotFound) {
		return
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("get %q: %d bytes, %v; want %d bytes", key, len(got), err, len(want))
	}
}

// open opens a Store on dir and closes it with the test.
func open(t testing.TB, dir string) *local.Store {
	t.Helper()
	s, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(t *testing.T, s *local.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		s := local.NewMemory()
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, s)
	})
	t.Run("pebble", func(t *testing.T) { test(t, open(t, t.TempDir())) })
}

// pattern returns n bytes that differ by position and seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ seed
	}
	return b
}
