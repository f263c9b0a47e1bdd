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

// LockedError reports that the data folder is in use already.
type LockedError struct {
	// Dir is the absolute path of the data folder.
	Dir string
	// Err is what the lock answered.
	Err error
}

// Error names the folder and the remedy.
func (e *LockedError) Error() string {
	return fmt.Sprintf("data folder %q is in use by another process: stop that process or start this one with another folder (%v)", e.Dir, e.Err)
}

// Unwrap returns what the lock answered.
func (e *LockedError) Unwrap() error { return e.Err }

// IncompleteError reports that a folder with data lacks files of its engine, which
// would take it for an empty one and delete what is left. Nothing was changed.
type IncompleteError struct {
	// Dir is the absolute path of the data folder.
	Dir string
	// Lost says what is missing or damaged.
	Lost string
	// Create are the absolute paths of the empty files that make the folder whole
	// again if nothing else is missing. None if that cannot be told.
	Create []string
}

// Error names the folder, what it lacks and the remedy.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("data folder %q holds data but %s; nothing was changed: restore the whole folder from a backup, empty files included", e.Dir, e.Lost)
	if len(e.Create) > 0 {
		text += ", or, if nothing else is missing, create as an empty file " + strings.Join(e.Create, " and ")
	}
	return text + "; to begin with an empty store, name another folder"
}

// GoneError reports that a file which the store writes is not in its folder any more.
// What was written to it is not there for the next start.
type GoneError struct {
	// Path is where the file was.
	Path string
}

// Error names the file.
func (e *GoneError) Error() string {
	return e.Path + " was deleted, moved or replaced while the process ran"
}

// FatalError reports that a commit could not be made durable. The outcome of
// the writes in progress is unknown until the folder is opened again.
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
		return fmt.Sprintf("data folder %q is gone: %v; put it back, or restore it from a backup, then start the process again: it recovers what is there", e.Dir, e.Err)
	}
	return fmt.Sprintf("data folder %q cannot be written durably: %v; free space on the disk that holds the folder or repair it, then start the process again: it recovers every acknowledged write", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// CorruptError reports that a file of the folder's engine does not hold what was written to
// it. What it holds cannot be told apart, so that listings fail, too.
type CorruptError struct {
	// Err says which file, and where in it.
	Err error
}

// Error says what is damaged and the remedy.
func (e *CorruptError) Error() string {
	what, _, _ := strings.Cut(e.Err.Error(), "\n") // What follows is for the engine's authors.
	return what + "; a file of the data folder is damaged: restore the whole folder from a backup"
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

var (
	// errNoKey is the engine's answer for a key that does not exist.
	errNoKey = errors.New("no such key")
	// errExists is the engine's answer to a conditional create that lost.
	errExists = errors.New("key exists")
	errClosed = errors.New("the store is closed")
)

// refusedError says what is wrong with a request. Nothing was changed.
type refusedError struct{ text string }

// Error implements error.
func (e *refusedError) Error() string { return e.text }

func refused(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// kindOf is the kind that an error has at the seam.
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

// explainFull adds the remedy to the error of opening dir on a full disk.
func explainFull(dir string, err error) error {
	var fatal *FatalError
	if !vfs.IsNoSpaceError(err) || errors.As(err, &fatal) {
		return err
	}
	return &FatalError{Dir: dir, Err: err}
}

// failure remembers the first fatal error of a folder and reports it once.
type failure struct {
	dir  string
	log  *slog.Logger
	hook func(error)
	once sync.Once
	err  atomic.Pointer[FatalError]
	// open is set once the engine is open. Until then most errors make the opening
	// fail, and nothing else.
	open atomic.Bool
	// opening gets the first error that would keep the opening from ending.
	opening chan error
}

func newFailure(dir string, log *slog.Logger, hook func(error)) *failure {
	return &failure{dir: dir, log: log, hook: hook, opening: make(chan error, 1)}
}

// stopOpening lets an opening end with err; it does nothing to an open folder.
func (f *failure) stopOpening(err error) {
	select {
	case f.opening <- err:
	default:
	}
}

// report makes err the fatal error of the folder, unless there is one already,
// and returns the one that counts. With the default hook it does not return.
func (f *failure) report(err error) error {
	f.once.Do(func() {
		fatal := &FatalError{Dir: f.dir, Err: err}
		// The error is stored before the hook runs, so that no commit that
		// ends meanwhile is taken for a good one.
		f.err.Store(fatal)
		f.log.Error("local store cannot go on", "folder", f.dir, "err", fatal)
		f.hook(fatal)
	})
	return f.check()
}

// reportAny reports err, if there is one.
func (f *failure) reportAny(err error) {
	if err != nil {
		f.report(err)
	}
}

// reportOpen reports err, if there is one and the folder is open.
func (f *failure) reportOpen(err error) {
	if f.open.Load() {
		f.reportAny(err)
	}
}

// check returns the fatal error of the folder, if there is one.
func (f *failure) check() error {
	if fatal := f.err.Load(); fatal != nil {
		return fatal
	}
	return nil
}

// isLocked tells whether an error of the folder's lock means that somebody holds
// it. The engine's own refusal, within this process, has no type: it is what is
// neither about a path nor an error number.
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
