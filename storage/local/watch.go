package local

import (
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS is the engine's file system. It reports that the log cannot be
// written, or a folder not be synced, where that is found out. The engine itself
// tells only the commits that wait for the log. In a commit that comes later, in
// one that has to begin another log, and after the sync of a folder it panics,
// from which nobody can learn what to do.
type watchedFS struct {
	vfs.FS
	fail *failure
}

// Create implements vfs.FS.
func (w *watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, category)
	return w.watchLog(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (w *watchedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.ReuseForWrite(oldname, newname, category)
	return w.watchLog(newname, f, err)
}

// OpenDir implements vfs.FS.
func (w *watchedFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w.fail.reportAny}, nil
}

// Unwrap implements vfs.FS.
func (w *watchedFS) Unwrap() vfs.FS { return w.FS }

func (w *watchedFS) watchLog(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &watchedFile{f, w.fail.reportOpen}, nil
}

// logCreated is told of every log that was begun, or could not be.
func (w *watchedFS) logCreated(info pebble.WALCreateInfo) { w.fail.reportOpen(info.Err) }

// watchedFile reports the errors of its writes and syncs before it returns them.
type watchedFile struct {
	vfs.File
	report func(error)
}

// Write implements vfs.File.
func (f *watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.report(err)
	return n, err
}

// Sync implements vfs.File.
func (f *watchedFile) Sync() error {
	err := f.File.Sync()
	f.report(err)
	return err
}

// SyncData implements vfs.File.
func (f *watchedFile) SyncData() error {
	err := f.File.SyncData()
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
	f.report(err)
	return err
}
