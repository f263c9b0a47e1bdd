package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// sizes surround the limit between inline objects and files.
var sizes = []int{1, 1000, 256 << 10, 256<<10 + 1, 3 << 20}

func TestPutGetDelete(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		for _, size := range sizes {
			key := fmt.Sprintf("dir/%d ä+%%/x", size)
			mustPut(t, s, key, pattern(size, 1))
			wantGet(t, s, key, pattern(size, 1))
			mustPut(t, s, key, pattern(size+1, 2))
			wantGet(t, s, key, pattern(size+1, 2))
			mustDelete(t, s, key)
			wantGet(t, s, key, nil)
			mustDelete(t, s, key)
		}
	})
}

func TestConditionalCreate(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		create := func(key string, size int, seed byte) error {
			return s.Create(t.Context(), key, storage.Bytes(pattern(size, seed)))
		}
		for _, size := range sizes {
			key := fmt.Sprint("k", size)
			if err := create(key, size, 1); err != nil {
				t.Fatal(err)
			}
			if err := create(key, size, 2); !errors.Is(err, storage.ErrExists) {
				t.Fatalf("second create: %v", err)
			}
			wantGet(t, s, key, pattern(size, 1))
			mustDelete(t, s, key)
			if err := create(key, size, 3); err != nil {
				t.Fatalf("create after delete: %v", err)
			}
			wantGet(t, s, key, pattern(size, 3))
		}
	})
}

func TestConditionalCreateRace(t *testing.T) {
	const writers = 32
	keys := sample.Of(60, 20)
	onBoth(t, func(t *testing.T, s *local.Store) {
		for k := range keys {
			key := fmt.Sprint("race/", k)
			size := 64
			if k%10 == 0 {
				size = 256<<10 + 1
			}
			var winners atomic.Int32
			var winner atomic.Int32
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					switch err := s.Create(t.Context(), key, storage.Bytes(pattern(size, byte(w)))); {
					case err == nil:
						winners.Add(1)
						winner.Store(int32(w))
					case !errors.Is(err, storage.ErrExists):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := winners.Load(); n != 1 {
				t.Fatalf("%s: %d winners", key, n)
			}
			wantGet(t, s, key, pattern(size, byte(winner.Load())))
		}
	})
}

// TestRange reads ranges of an object, which must lie within it, and the whole object as a stream.
func TestRange(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		for _, size := range []int{10, 300 << 10} {
			key, body := fmt.Sprint("r", size), pattern(size, 5)
			mustPut(t, s, key, body)
			n := int64(size)
			for _, tt := range []struct {
				from, length int64
				want         error
			}{
				{0, 1, nil}, {2, 4, nil}, {7, n - 7, nil}, {0, n, nil}, {n - 1, 1, nil},
				{0, n + 1, storage.ErrRefused}, {n, 1, storage.ErrRefused}, {5, n - 4, storage.ErrRefused}, {1, 1<<63 - 1, storage.ErrRefused},
				{-1, 2, storage.ErrRefused}, {3, 0, storage.ErrRefused}, {3, -1, storage.ErrRefused},
			} {
				got, err := s.GetRange(t.Context(), key, tt.from, tt.length)
				if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, body[tt.from:tt.from+tt.length]) {
					t.Errorf("%d bytes from %d on of %d: %d, %v; want %v", tt.length, tt.from, n, len(got), err, tt.want)
				}
			}
			r, length, err := s.Open(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || length != n || !bytes.Equal(got, body) || r.Close() != nil {
				t.Errorf("open: %d bytes of %d, %v", len(got), length, err)
			}
		}
		if _, err := s.GetRange(t.Context(), "none", 0, 1); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("range of an absent object: %v", err)
		}
	})
}

// TestRefused checks that invalid requests and bodies leave no trace.
func TestRefused(t *testing.T) {
	body := func(have int, want int64) storage.Body {
		return storage.Body{Reader: bytes.NewReader(pattern(have, 1)), Size: want, SHA256: storage.Bytes(pattern(int(min(want, 1<<20)), 1)).SHA256}
	}
	wrong := storage.Bytes(pattern(300<<10, 1))
	wrong.SHA256[31] ^= 1
	onBoth(t, func(t *testing.T, s *local.Store) {
		for name, tt := range map[string]struct {
			key  string
			body storage.Body
			why  string
		}{
			"no key":         {"", body(3, 3), "key is empty"},
			"long key":       {strings.Repeat("k", 1025), body(3, 3), "1025 bytes"},
			"key of no text": {"\xff", body(3, 3), "UTF-8"},
			"nothing":        {"k", storage.Bytes(nil), "empty"},
			"no reader":      {"k", storage.Body{Size: 1}, "empty"},
			"too large":      {"k", body(5, 5<<30+1), "exceeds"},
			"short":          {"k", body(5, 6), "shorter than 6 bytes"},
			"absent":         {"k", body(0, 6), "shorter than 6 bytes"},
			"long":           {"k", body(7, 6), "longer than 6 bytes"},
			"short file":     {"k", body(300<<10, 300<<10+1), "shorter"},
			"long file":      {"k", body(300<<10+1, 300<<10), "longer"},
			"other bytes":    {"k", storage.Body{Reader: strings.NewReader("abc"), Size: 3, SHA256: storage.Bytes([]byte("abd")).SHA256}, "SHA-256"},
			"another file":   {"k", wrong, "SHA-256"},
		} {
			if err := s.Create(t.Context(), tt.key, tt.body); !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%s: %v", name, err)
			}
			if err := s.Put(t.Context(), tt.key, tt.body); !errors.Is(err, storage.ErrRefused) {
				t.Errorf("%s: put: %v", name, err)
			}
		}
		for _, q := range []storage.ListQuery{{Limit: -1}, {Limit: 1001}, {Delimiter: "-"}, {Prefix: "\xff"}} {
			if _, err := s.List(t.Context(), q); !errors.Is(err, storage.ErrRefused) {
				t.Errorf("list %+v: got error %v", q, err)
			}
		}
		if keys, _ := listAll(t, s, storage.ListQuery{}); len(keys) != 0 {
			t.Errorf("keys after rejected requests: %q", keys)
		}
	})
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := local.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the folder: %v, %v", info.Mode(), err)
	}
	for _, size := range sizes {
		mustPut(t, s, fmt.Sprint("k", size), pattern(size, 9))
		mustPut(t, s, fmt.Sprint("k", size), pattern(size, 1))
		mustPut(t, s, fmt.Sprint("gone", size), pattern(size, 1))
		mustDelete(t, s, fmt.Sprint("gone", size))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := s.Get(t.Context(), "k1"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("get after close: %v", err)
	}
	objects := filepath.Join(dir, "objects")
	orphan := strings.Repeat("ab", 16)
	for _, path := range []string{filepath.Join(objects, orphan), filepath.Join(objects, "notes.txt"), filepath.Join(dir, "tmp", orphan)} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	var want []string
	for _, size := range sizes {
		wantGet(t, s, fmt.Sprint("k", size), pattern(size, 1))
		want = append(want, fmt.Sprint("k", size))
	}
	if keys, _ := listAll(t, s, storage.ListQuery{}); len(keys) != len(want) {
		t.Errorf("keys after reopening: %q", keys)
	}
	// Two large objects, and a foreign file.
	left, err := os.ReadDir(objects)
	if err != nil || len(left) != 3 {
		t.Errorf("object files: %v, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("unfinished uploads: %v, %v", left, err)
	}
}

// TestOverwriteLarge reads while a large object is replaced, deleted and created again: every read
// returns one whole version or none.
func TestOverwriteLarge(t *testing.T) {
	onBoth(t, func(t *testing.T, s *local.Store) {
		const size = 300 << 10
		versions := [][]byte{pattern(size, 1), pattern(size+1, 2), pattern(100, 3)}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got, err := s.Get(t.Context(), "k")
					whole := errors.Is(err, storage.ErrNotFound)
					for _, v := range versions {
						whole = whole || err == nil && bytes.Equal(got, v)
					}
					if !whole {
						t.Errorf("read %d bytes, %v", len(got), err)
					}
				}
			})
		}
		for i := range 60 {
			if i%7 == 6 {
				mustDelete(t, s, "k")
			} else {
				mustPut(t, s, "k", versions[i%3])
			}
		}
		close(stop)
		wg.Wait()
	})
}

func TestOptionsChecked(t *testing.T) {
	for _, n := range []int64{-1, 2 << 20} {
		if s, err := local.Open(t.TempDir(), &local.Options{LargeObjectBytes: n}); err == nil {
			s.Close()
			t.Errorf("LargeObjectBytes %d was accepted", n)
		}
	}
}
