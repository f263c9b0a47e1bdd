package local

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	defaultOpenTables       = 246
	defaultLargeObjectBytes = 256 << 10
	// A value must stay well below half of the engine's memtable; larger values get a memtable of
	// their own.
	maxLargeObjectBytes = 1 << 20
)

// discard is the default of Options.Logger.
var discard = slog.New(slog.DiscardHandler)

// Options configure Open. The zero value works.
type Options struct {
	// Logger receives messages for the operator; nil discards them.
	Logger *slog.Logger
	// LargeObjectBytes is the size above which an object is stored as a file. 0 means 256 KiB; the
	// maximum is 1 MiB.
	LargeObjectBytes int64
	// OpenTables is the maximum number of open tables of the engine; the store opens some more files.
	// 0 means 246.
	OpenTables int
	// Fatal is called once, with a *FatalError, when a commit could not be made durable, or never will
	// be. Nil prints the error to standard error and exits with status 1. It may be called with locks
	// held and must not call the Store. If it returns, every further request fails, and the outcome of
	// a write is unknown.
	Fatal func(err error)
}

// Store is a storage.Bucket over one folder or over memory. Use Open or NewMemory. It is safe for
// concurrent use.
type Store struct {
	log    *slog.Logger
	engine engine
	// files is nil if every object is inline.
	files    *files
	large    int64
	readOnly bool
	// corruption is the last corruption that a request has met, nil for none.
	corruption atomic.Pointer[CorruptError]

	// closing is held for reading by every request and for writing by Close.
	closing sync.RWMutex
	closed  bool
}

// Open opens the store in dir and creates it with mode 0700 if it is absent. It returns *LockedError
// if another Store, of this or another process, has the folder open. It returns *IncompleteError if
// data of the folder is missing, and *FatalError if the disk is full. The caller must Close the Store.
func Open(dir string, opts *Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open local store %q: %w", dir, err)
	}
	if err := mkdirSynced(vfs.Default, abs); err != nil {
		return nil, explainFull(abs, fmt.Errorf("open local store %q: %w", dir, err))
	}
	// The lock is per name within a process, so resolve links.
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("open local store %q: %w", dir, err)
	}
	return openStore(vfs.Default, real, opts)
}

// NewMemory returns a Store in memory, for tests and temporary runs. A context does not bound the read
// of a body.
func NewMemory() *Store {
	return &Store{log: discard, engine: newMemoryEngine()}
}

// Close waits for the requests in progress and closes the folder. Later requests fail with
// storage.ErrUnavailable or storage.ErrUncertain. Open readers stay readable. A second Close has no
// effect.
func (s *Store) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.engine.close(); err != nil {
		return fmt.Errorf("close local store: %w", err)
	}
	return nil
}

// enter begins a request. It returns false if the Store is closed or closing.
func (s *Store) enter() bool {
	if !s.closing.TryRLock() {
		return false
	}
	if s.closed {
		s.closing.RUnlock()
		return false
	}
	return true
}

func (s *Store) leave() { s.closing.RUnlock() }

// openStore opens the existing folder dir on any file system.
func openStore(fs vfs.FS, dir string, opts *Options) (*Store, error) {
	o, err := opts.complete(dir)
	if err != nil {
		return nil, err
	}
	fail := newFailure(dir, o.Logger, o.Fatal)
	e, err := openPebble(fs, dir, o, fail)
	if err != nil {
		return nil, explainFull(dir, err)
	}
	s := &Store{log: o.Logger, engine: e, large: o.LargeObjectBytes}
	if s.files, err = openFiles(fs, dir); err == nil {
		err = sweepOrphans(e, s.files)
	}
	if err != nil {
		err = explainFull(dir, fmt.Errorf("open local store %q: %w", dir, err))
		if cerr := e.close(); cerr != nil {
			o.Logger.Error("close after failed open failed", "folder", dir, "err", cerr)
		}
		return nil, err
	}
	return s, nil
}

// complete returns the options for dir with defaults applied.
func (opts *Options) complete(dir string) (*Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = discard
	}
	if o.LargeObjectBytes == 0 {
		o.LargeObjectBytes = defaultLargeObjectBytes
	}
	if o.LargeObjectBytes < 0 || o.LargeObjectBytes > maxLargeObjectBytes {
		return nil, fmt.Errorf("open local store %q: LargeObjectBytes is %d, want 1 to %d",
			dir, o.LargeObjectBytes, maxLargeObjectBytes)
	}
	if o.OpenTables < 0 {
		return nil, fmt.Errorf("open local store %q: OpenTables %d is negative", dir, o.OpenTables)
	}
	if o.OpenTables == 0 {
		o.OpenTables = defaultOpenTables
	}
	if o.Fatal == nil {
		o.Fatal = exit
	}
	return &o, nil
}

// exit is the default of Options.Fatal.
func exit(err error) {
	io.WriteString(os.Stderr, err.Error()+"\n")
	os.Exit(1)
}
