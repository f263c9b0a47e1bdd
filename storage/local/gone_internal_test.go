package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolderThatIsGone takes the folder away from a running store in several ways. The
// next write is not acknowledged, the process is told to end, and nothing is read any
// more.
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
				if status, text := do(t, s, "PUT", "/before", make([]byte, size)); status != 200 {
					t.Fatal(status, text)
				}
				if err := take(dir); err != nil {
					t.Fatal(err)
				}
				// The folder of the large objects is missed when the first file is put there.
				if status, _ := do(t, s, "PUT", "/large", make([]byte, size)); status != 500 {
					t.Errorf("a write after it: %d", status)
				}
				if status, _ := do(t, s, "PUT", "/small", []byte("lost")); status != 500 {
					t.Errorf("a second write after it: %d", status)
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
					t.Errorf("%q promises too much", fatal)
				}
				if status, _ := do(t, s, "GET", "/before", nil); status != 500 {
					t.Errorf("a read after it: %d", status)
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
