package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage"
)

// TestFolderThatIsGone removes the folder of a running store in several ways. The next write is not
// acknowledged, the process is told to end, and reads fail afterwards.
func TestFolderThatIsGone(t *testing.T) {
	for name, take := range map[string]func(dir string) error{
		"deleted":      os.RemoveAll,
		"db deleted":   func(dir string) error { return os.RemoveAll(filepath.Join(dir, "db")) },
		"db emptied":   func(dir string) error { return removeGlob(dir + "/db/*") },
		"logs deleted": func(dir string) error { return removeGlob(dir + "/db/*.log") },
		"moved":        func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"parent moved": func(dir string) error { return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+"-moved") },
		"made again": func(dir string) error {
			if out, status := helper(t, "open", dir+"-new"); status != 0 {
				t.Fatal(out)
			}
			return errors.Join(os.RemoveAll(dir), os.Rename(dir+"-new", dir))
		},
		"moved, copied": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.CopyFS(dir, os.DirFS(dir+"-moved")))
		},
	} {
		for _, size := range []int{10, defaultLargeObjectBytes + 1} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "parent", "data")
				var fatal error
				s, err := Open(dir, &Options{Fatal: func(err error) { fatal = err }})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				mustPut(t, s, "before", make([]byte, size))
				if err := take(dir); err != nil {
					t.Fatal(err)
				}
				// The folder of large objects is missed at the first file.
				for _, body := range [][]byte{make([]byte, size), []byte("lost")} {
					if err := s.Put(t.Context(), fmt.Sprint(len(body)), storage.Bytes(body)); !errors.Is(err, storage.ErrUncertain) {
						t.Errorf("a write of %d bytes after it: %v", len(body), err)
					}
				}
				var fe *FatalError
				var gone *GoneError
				if !errors.As(fatal, &fe) || !errors.As(fatal, &gone) || filepath.Ext(gone.Path) != ".log" {
					t.Fatalf("fatal error: %v", fatal)
				}
				for _, part := range []string{fe.Dir, "deleted, moved or replaced", "restore it from a backup"} {
					if !strings.Contains(fatal.Error(), part) {
						t.Errorf("%q lacks %q", fatal, part)
					}
				}
				if strings.Contains(fatal.Error(), "recovers every acknowledged write") {
					t.Errorf("error %q is too optimistic", fatal)
				}
				if _, err := s.Get(t.Context(), "before"); !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("a read after it: %v", err)
				}
			})
		}
	}
}

func removeGlob(pattern string) error {
	names, err := filepath.Glob(pattern)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
