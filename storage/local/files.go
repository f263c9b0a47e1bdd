package local

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileNameLen = 32
	copyBytes   = 128 << 10
)

// files stores the bytes of large objects, one file per object version under a unique name. A file is
// complete and durable when its name is returned and is never changed. An overwrite therefore shows
// either the old version or the new one.
type files struct {
	fs      vfs.FS
	objects string
	tmp     string
}

// newFiles is openFiles without changes to the folder.
func newFiles(fs vfs.FS, dir string) *files {
	return &files{fs: fs, objects: fs.PathJoin(dir, "objects"), tmp: fs.PathJoin(dir, "tmp")}
}

// openFiles creates the folders below dir and removes incomplete uploads. The caller holds the lock of
// dir.
func openFiles(fs vfs.FS, dir string) (*files, error) {
	f := newFiles(fs, dir)
	for _, folder := range []string{f.objects, f.tmp} {
		if err := mkdirSynced(fs, folder); err != nil {
			return nil, err
		}
	}
	left, err := fs.List(f.tmp)
	if err != nil {
		return nil, fmt.Errorf("list unfinished uploads: %w", err)
	}
	for _, name := range left {
		if err := fs.Remove(fs.PathJoin(f.tmp, name)); err != nil {
			return nil, fmt.Errorf("remove unfinished upload %q: %w", name, err)
		}
	}
	return f, nil
}

// write stores exactly size bytes of body and returns the name of the file. After an error there is no
// file.
func (f *files) write(body io.Reader, size int64) (string, error) {
	name := newFileName()
	tmp := f.fs.PathJoin(f.tmp, name)
	if err := f.writeTmp(tmp, body, size); err != nil {
		f.fs.Remove(tmp)
		return "", err
	}
	err := f.link(tmp, name)
	// A file that remains in tmp only takes space until the next start.
	f.fs.Remove(tmp)
	if err != nil {
		return "", err
	}
	return name, nil
}

func (f *files) writeTmp(path string, body io.Reader, size int64) error {
	file, err := f.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create upload: %w", err)
	}
	// The wrappers hide methods by which the copy could bypass the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{io.LimitReader(body, size)}, make([]byte, copyBytes))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write upload: %w", err)
	}
	return nil
}

// link makes the file at path durable as an object file. Unlike a rename, a link can never replace
// another object's file.
func (f *files) link(path, name string) error {
	if err := f.fs.Link(path, f.fs.PathJoin(f.objects, name)); err != nil {
		return fmt.Errorf("link object file: %w", err)
	}
	if err := syncFolder(f.fs, f.objects); err != nil {
		f.fs.Remove(f.fs.PathJoin(f.objects, name))
		return err
	}
	return nil
}

// open opens a file of size bytes for reading. It returns fs.ErrNotExist if the file was removed, and
// *CorruptError if it has another length.
func (f *files) open(name string, size int64) (vfs.File, error) {
	file, err := f.fs.Open(f.fs.PathJoin(f.objects, name))
	if err != nil {
		return nil, fmt.Errorf("open object file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.Size() != size {
		err = &CorruptError{Err: fmt.Errorf("object file %q has %d bytes, want %d", name, info.Size(), size)}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// remove deletes a file without a key. Readers that have it open are not affected. The removal is not
// synced, because the next start repeats it.
func (f *files) remove(name string) error {
	err := f.fs.Remove(f.fs.PathJoin(f.objects, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove object file %q: %w", name, err)
	}
	return nil
}

// sweepOrphans removes files without a key: uncommitted uploads and versions whose key is gone.
func sweepOrphans(e *pebbleEngine, f *files) error {
	names, err := f.fs.List(f.objects)
	if err != nil {
		return fmt.Errorf("list object files: %w", err)
	}
	orphans := make(map[string]bool, len(names))
	for _, name := range names {
		// Remove only files named by this package.
		if validFileName(name) {
			orphans[name] = true
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	if err := e.eachFile(func(name string) { delete(orphans, name) }); err != nil {
		return err
	}
	for name := range orphans {
		if err := f.remove(name); err != nil {
			return err
		}
	}
	return nil
}

func newFileName() string {
	var b [fileNameLen / 2]byte
	rand.Read(b[:]) // Never fails: it ends the process instead.
	return hex.EncodeToString(b[:])
}

// validFileName protects the file system from a corrupt value.
func validFileName(name string) bool {
	if len(name) != fileNameLen {
		return false
	}
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// mkdirSynced creates dir and its parents, mode 0700, durably. If dir exists it still syncs its entry,
// because an earlier process may have crashed between the two steps.
func mkdirSynced(disk vfs.FS, dir string) error {
	if _, err := disk.Stat(dir); err == nil {
		return syncFolder(disk, disk.PathDir(dir))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create folder: %w", err)
	}
	parent := disk.PathDir(dir)
	if parent != dir {
		if err := mkdirSynced(disk, parent); err != nil {
			return err
		}
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	return syncFolder(disk, parent)
}

func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
