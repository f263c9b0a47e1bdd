package local

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS is the engine's file system. It reports a failed write of the log or sync of a folder at
// once. The engine itself reports the failure only to commits that wait for the log. In a later
// commit, in one that has to create another log, and after the sync of a folder it panics without a
// remedy. watchedFS also detects that the log is no longer in its folder, which the engine never does.
type watchedFS struct {
	vfs.FS
	fail     *failure
	backoffs *backoffs
}

// Create implements vfs.FS.
func (w *watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, tableSuffix) {
		w.backoffs.wait(category)
	}
	f, err := w.FS.Create(name, category)
	return w.watch(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (w *watchedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.ReuseForWrite(oldname, newname, category)
	if err == nil {
		removeExtent(w.FS, oldname)
	}
	return w.watch(newname, f, err)
}

// Remove implements vfs.FS.
func (w *watchedFS) Remove(name string) error {
	err := w.FS.Remove(name)
	if err == nil && hasExtent(w.PathBase(name)) {
		removeExtent(w.FS, name)
	}
	return err
}

// OpenDir implements vfs.FS.
func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &watchedFile{File: f, report: w.fail.reportAny}, nil
}

// Unwrap implements vfs.FS.
func (w *watchedFS) Unwrap() vfs.FS { return w.FS }

// watch begins the extent of a file to which the engine appends.
func (w *watchedFS) watch(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !hasExtent(w.PathBase(name)) {
		return f, err
	}
	begun, err := w.stat(name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	extent, err := beginExtent(w.FS, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &watchedFile{File: f, report: w.fail.reportOpen, extent: extent, found: func() error { return w.find(name, begun) }}, nil
}

// stat uses the disk if there is one, because its files have an identity.
func (w *watchedFS) stat(name string) (os.FileInfo, error) {
	if w.FS == vfs.Default {
		return os.Stat(name)
	}
	return w.FS.Stat(name)
}

// find checks that a file is still under its path. The link count does not serve, because files in a
// moved folder keep theirs.
func (w *watchedFS) find(name string, begun os.FileInfo) error {
	now, err := w.stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &GoneError{Path: name}
	case err != nil:
		return err
	case w.FS == vfs.Default && !os.SameFile(begun, now):
		return &GoneError{Path: name}
	}
	return nil
}

// logCreated handles the creation of a log, or its failure.
func (w *watchedFS) logCreated(info pebble.WALCreateInfo) { w.fail.reportOpen(info.Err) }

// watchedFile reports the errors of its writes and syncs before it returns them.
type watchedFile struct {
	vfs.File
	report func(error)
	// found, unless nil, is called after each sync and checks that the next start would find the file.
	// It costs one stat, shared by all commits of the sync.
	found func() error
	// extent, unless nil, records how much of the file was synced.
	extent *extentFile
}

// Write implements vfs.File.
func (f *watchedFile) Write(p []byte) (int, error) {
	var next extent
	if f.extent != nil {
		next = f.extent.now.with(p) // Before the write, which may change p.
	}
	n, err := f.File.Write(p)
	if f.extent != nil {
		f.extent.add(next, n == len(p))
	}
	f.report(err)
	return n, err
}

// Sync implements vfs.File.
func (f *watchedFile) Sync() error { return f.synced(f.File.Sync()) }

// SyncData implements vfs.File.
func (f *watchedFile) SyncData() error { return f.synced(f.File.SyncData()) }

// synced completes a sync.
func (f *watchedFile) synced(err error) error {
	if err == nil && f.found != nil {
		err = f.found()
	}
	if err == nil && f.extent != nil {
		err = f.extent.store()
	}
	f.report(err)
	return err
}

// SyncTo implements vfs.File.
func (f *watchedFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.report(err)
	return full, err
}

// Close implements vfs.File.
func (f *watchedFile) Close() error {
	err := f.File.Close()
	if f.extent != nil {
		err = errors.Join(err, f.extent.close())
	}
	f.report(err)
	return err
}
