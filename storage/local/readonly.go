package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoStore reports that nothing was ever stored in the folder of OpenReadOnly.
var ErrNoStore = errors.New("folder holds no store")

// errReadOnly rejects writes to a read-only store.
var errReadOnly = &refusedError{"store is open read-only"}

// OpenReadOnly opens the store in dir for reading and changes nothing there: it creates, recovers and
// removes no file, and rejects every write. It locks the folder as Open does, unless that would change
// it, as on a read-only volume. It returns ErrNoStore where Open would create a store, and otherwise
// the errors of Open. The caller must Close the Store.
func OpenReadOnly(dir string, opts *Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("open local store %q: %w", dir, err)
	}
	return openReadOnly(vfs.Default, abs, opts)
}

// openReadOnly opens the existing folder dir on any file system for reading.
func openReadOnly(disk vfs.FS, dir string, opts *Options) (*Store, error) {
	o, err := opts.complete(dir)
	if err != nil {
		return nil, err
	}
	disk = readOnlyFS{disk}
	e, err := openPebbleReadOnly(disk, dir, o)
	if err != nil {
		return nil, err
	}
	return &Store{log: o.Logger, engine: e, large: o.LargeObjectBytes, files: newFiles(disk, dir), readOnly: true}, nil
}

func openPebbleReadOnly(disk vfs.FS, dir string, o *Options) (*pebbleEngine, error) {
	folder := disk.PathJoin(dir, "db")
	if _, err := disk.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if _, err := disk.Stat(disk.PathJoin(dir, "objects")); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open local store %q: %w", dir, ErrNoStore)
		}
		return nil, fmt.Errorf("open local store: %w", &IncompleteError{Dir: dir, Lost: "lacks the folder db"})
	}
	lock, err := lockFolder(disk, dir, folder)
	if err != nil {
		return nil, err
	}
	held, err := checkIntact(disk, dir, folder, lock)
	if err == nil && !held {
		err = fmt.Errorf("open local store %q: %w", dir, ErrNoStore)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	fail := newFailure(dir, o.Logger, func(error) {})
	back := newBackoffs(o.Logger, fail)
	opts := engineOptions(disk, o, fail, back, lock)
	opts.ReadOnly = true
	db, err := pebble.Open(folder, opts)
	opts.FileCache.Unref()
	if err != nil {
		return nil, errors.Join(openError(dir, err), lock.Close())
	}
	return newPebbleEngine(db, lock, fail, back), nil
}

// readOnlyFS rejects every change of the file system.
type readOnlyFS struct{ vfs.FS }

var errReadOnlyFS = fmt.Errorf("%w: folder is open read-only", syscall.EROFS)

// Create implements vfs.FS.
func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnlyFS
}

// Link implements vfs.FS.
func (readOnlyFS) Link(string, string) error { return errReadOnlyFS }

// OpenReadWrite implements vfs.FS.
func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnlyFS
}

// Remove implements vfs.FS.
func (readOnlyFS) Remove(string) error { return errReadOnlyFS }

// RemoveAll implements vfs.FS.
func (readOnlyFS) RemoveAll(string) error { return errReadOnlyFS }

// Rename implements vfs.FS.
func (readOnlyFS) Rename(string, string) error { return errReadOnlyFS }

// ReuseForWrite implements vfs.FS.
func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnlyFS
}

// MkdirAll implements vfs.FS.
func (readOnlyFS) MkdirAll(string, fs.FileMode) error { return errReadOnlyFS }

// Unwrap implements vfs.FS.
func (r readOnlyFS) Unwrap() vfs.FS { return r.FS }

// Lock implements vfs.FS. Locking creates and truncates the lock file, so a missing or non-empty one
// is not locked; a store that is open for writing has an empty one.
func (r readOnlyFS) Lock(name string) (io.Closer, error) {
	info, err := r.FS.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (info.IsDir() || info.Size() != 0) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	lock, err := r.FS.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil
	}
	return lock, err
}
