package local

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/storage"
)

// LockedError reports that the data folder is in use.
type LockedError struct {
	// Dir is the absolute path of the data folder.
	Dir string
	// Err is the error of the lock.
	Err error
}

// Error names the folder and the remedy.
func (e *LockedError) Error() string {
	return fmt.Sprintf("data folder %q is in use by another process: stop that process or use another folder (%v)", e.Dir, e.Err)
}

// Unwrap returns the error of the lock.
func (e *LockedError) Unwrap() error { return e.Err }

// IncompleteError reports that a folder with data lacks files of its engine, which would take it for
// empty and delete the rest. Nothing was changed.
type IncompleteError struct {
	// Dir is the absolute path of the data folder.
	Dir string
	// Lost describes the missing or corrupt files.
	Lost string
	// Create lists the absolute paths of empty files that complete the folder if nothing else is
	// missing. It is empty if that is unknown.
	Create []string
}

// Error names the folder, its missing files and the remedy.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("data folder %q holds data but %s; nothing was changed: restore the whole folder from a backup, empty files included", e.Dir, e.Lost)
	if len(e.Create) > 0 {
		text += ", or, if nothing else is missing, create as an empty file " + strings.Join(e.Create, " and ")
	}
	return text + "; to start with an empty store, use another folder"
}

// GoneError reports that a file that the store writes is no longer in its folder. The next start does
// not find its content.
type GoneError struct {
	// Path is the former path of the file.
	Path string
}

// Error names the file.
func (e *GoneError) Error() string {
	return e.Path + " was deleted, moved or replaced while the process ran"
}

// FatalError reports that a commit could not be made durable. The outcome of the writes in progress is
// unknown until the folder is opened again.
type FatalError struct {
	// Dir is the absolute path of the data folder.
	Dir string
	// Err is the cause.
	Err error
}

// Error names the folder and the remedy.
func (e *FatalError) Error() string {
	var gone *GoneError
	if errors.As(e.Err, &gone) {
		return fmt.Sprintf("data folder %q is gone: %v; put it back or restore it from a backup, then restart the process, which recovers the remaining data", e.Dir, e.Err)
	}
	return fmt.Sprintf("data folder %q cannot be written durably: %v; free space on its disk or repair it, then restart the process, which recovers every acknowledged write", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// CorruptError reports that a file of the engine is corrupt. Its keys are unknown, so listings fail
// too.
type CorruptError struct {
	// Err names the file and the place in it.
	Err error
}

// Error describes the corruption and the remedy.
func (e *CorruptError) Error() string {
	desc, _, _ := strings.Cut(e.Err.Error(), "\n") // The rest is for developers of the engine.
	return desc + "; a file of the data folder is corrupt: restore the whole folder from a backup"
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

var (
	// errNoKey is the engine's error for an absent key.
	errNoKey = errors.New("no such key")
	// errExists is the engine's error for a conditional create of an existing key.
	errExists = errors.New("key exists")
	errClosed = errors.New("store is closed")
)

// refusedError describes an invalid request. Nothing was changed.
type refusedError struct{ text string }

// Error implements error.
func (e *refusedError) Error() string { return e.text }

func refused(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// kindOf returns the kind of an error for storage.Error.
func kindOf(op string, err error) error {
	var wrong *refusedError
	switch {
	case errors.Is(err, errNoKey):
		return storage.ErrNotFound
	case errors.Is(err, errExists):
		return storage.ErrExists
	case errors.As(err, &wrong):
		return storage.ErrRefused
	case op == storage.OpGet || op == storage.OpOpen || op == storage.OpList:
		return storage.ErrUnavailable
	}
	return storage.ErrUncertain
}

// explainFull adds the remedy to an error of opening dir on a full disk.
func explainFull(dir string, err error) error {
	var fatal *FatalError
	if !vfs.IsNoSpaceError(err) || errors.As(err, &fatal) {
		return err
	}
	return &FatalError{Dir: dir, Err: err}
}

// failure stores the first fatal error of a folder and reports it once.
type failure struct {
	dir  string
	log  *slog.Logger
	hook func(error)
	once sync.Once
	err  atomic.Pointer[FatalError]
	// open is set once the engine is open. Before that, most errors only make the opening fail.
	open atomic.Bool
	// opening receives the first error that would block the opening.
	opening chan error
}

func newFailure(dir string, log *slog.Logger, hook func(error)) *failure {
	return &failure{dir: dir, log: log, hook: hook, opening: make(chan error, 1)}
}

// stopOpening makes an opening return err. It has no effect on an open folder.
func (f *failure) stopOpening(err error) {
	select {
	case f.opening <- err:
	default:
	}
}

// report makes err the fatal error of the folder unless there is one, and returns the effective one.
// With the default hook it does not return.
func (f *failure) report(err error) error {
	f.once.Do(func() {
		fatal := &FatalError{Dir: f.dir, Err: err}
		// Store the error before the hook runs, so that a commit that ends concurrently does not count
		// as a success.
		f.err.Store(fatal)
		f.log.Error("local store failed permanently", "folder", f.dir, "err", fatal)
		f.hook(fatal)
	})
	return f.check()
}

// reportAny reports err if it is not nil.
func (f *failure) reportAny(err error) {
	if err != nil {
		f.report(err)
	}
}

// reportOpen reports err if it is not nil and the folder is open.
func (f *failure) reportOpen(err error) {
	if f.open.Load() {
		f.reportAny(err)
	}
}

// check returns the fatal error of the folder, if any.
func (f *failure) check() error {
	if fatal := f.err.Load(); fatal != nil {
		return fatal
	}
	return nil
}

// isLocked reports whether an error of the folder's lock means that another holder exists. The
// engine's own error, within this process, has no type: it is neither a path error nor an errno.
func isLocked(err error) bool {
	var path *fs.PathError
	if errors.As(err, &path) {
		return false
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno == syscall.EAGAIN || errno == syscall.EACCES
	}
	return true
}
