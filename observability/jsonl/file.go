package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parleyrun/parley/observability"
)

// chunkBytes is the approximate size of one write.
const chunkBytes = 1 << 20

// Options configure a File. Zero fields have defaults.
type Options struct {
	// Name is the name of the sink, "jsonl" if empty.
	Name string
	// SyncEvery bounds how long a power loss may lose written events. 0 syncs the file at the end of
	// every Write; a negative value never syncs. A sync happens in a Write, so the last events may
	// wait for Close.
	SyncEvery time.Duration
	// MaxBytes is the size from which a file is renamed to path.000001 and so on, and a new one
	// created. 0 is never.
	MaxBytes int64
	// Keep is the number of renamed files to keep; 0 is 5.
	Keep int
}

// File is a sink that appends to a file.
type File struct {
	path string
	opts Options

	mu     sync.Mutex
	file   *os.File // nil before the first Write and after a failure
	torn   bool     // the last line is truncated; a pipe cannot be inspected
	synced time.Time
	closed bool
}

// Open returns a sink for the file, which it creates with the permissions 0600 if absent; its folder
// must exist. A pipe or device is never synced.
func Open(path string, opts *Options) (*File, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = "jsonl"
	}
	if o.Keep <= 0 {
		o.Keep = 5
	}
	f := &File{path: path, opts: o, synced: time.Now()}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open events file %s: %w", path, err)
	}
	return f, nil
}

// Name implements [observability.Sink].
func (f *File) Name() string { return f.opts.Name }

// Write implements [observability.Sink]. If it fails, the file may hold some of the events. After
// Close it returns [fs.ErrClosed]. A stalled pipe blocks it until ctx ends.
func (f *File) Write(ctx context.Context, events []observability.Event) error {
	if len(events) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("write events to %s: %w", f.path, fs.ErrClosed)
	}
	err := encode(ctx, events, func(lines []byte) error { return f.append(ctx, lines) })
	if err == nil && f.opts.SyncEvery >= 0 && time.Since(f.synced) >= f.opts.SyncEvery {
		err = f.sync()
	}
	if err != nil {
		return fmt.Errorf("write events to %s: %w", f.path, err)
	}
	return nil
}

// Close syncs the file, unless SyncEvery is negative, and closes it.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return f.release()
}

// append writes whole lines with one call, so that they stay contiguous.
func (f *File) append(ctx context.Context, lines []byte) error {
	size, err := f.current()
	if err != nil {
		return err
	}
	if f.opts.MaxBytes > 0 && size >= f.opts.MaxBytes {
		if err := f.rotate(); err != nil {
			return err
		}
		size, f.torn = 0, false
	}
	torn := f.torn
	if size > 0 {
		var last [1]byte
		if _, err := f.file.ReadAt(last[:], size-1); err != nil {
			return err
		}
		torn = last[0] != '\n'
	}
	if torn { // Terminate a truncated line.
		lines = append([]byte("\n"), lines...)
	}
	n, err := writeUntil(ctx, f.file, lines)
	if n > 0 {
		f.torn = lines[n-1] != '\n'
	}
	return err
}

// writeUntil is file.Write that ends with ctx if the file is a stalled pipe or device. Other files
// have no deadlines and need none.
func writeUntil(ctx context.Context, file *os.File, lines []byte) (int, error) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = file.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := file.Write(lines)
	if !stop() {
		<-over
		_ = file.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// current makes file the one at the path, which another File may have rotated or a user removed, and
// returns its size.
func (f *File) current() (int64, error) {
	if f.file != nil {
		there, err := os.Stat(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		own, ownErr := f.file.Stat()
		if ownErr != nil {
			return 0, ownErr
		}
		if err == nil && os.SameFile(there, own) {
			return own.Size(), nil
		}
		if err := f.release(); err != nil {
			return 0, err
		}
	}
	if err := f.open(); err != nil {
		return 0, err
	}
	own, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	return own.Size(), nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	f.file = file
	if f.opts.SyncEvery < 0 {
		return nil
	}
	return syncFolder(f.path)
}

func (f *File) sync() error {
	if err := syncFile(f.file); err != nil {
		// The system may report a write error only once: reopen the file, and let the caller write
		// again.
		return errors.Join(err, f.release())
	}
	f.synced = time.Now()
	return nil
}

// release closes the file.
func (f *File) release() error {
	file := f.file
	f.file = nil
	if file == nil {
		return nil
	}
	var err error
	if f.opts.SyncEvery >= 0 {
		err = syncFile(file)
	}
	return errors.Join(err, file.Close())
}

// syncFile makes the content of a file durable. A pipe or device, such as /dev/stdout, cannot be
// synced.
func syncFile(file *os.File) error {
	err := file.Sync()
	if err == nil {
		return nil
	}
	if info, statErr := file.Stat(); statErr == nil && !info.Mode().IsRegular() {
		return nil
	}
	return err
}

// syncFolder makes the name of a file durable.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// encode passes the lines of the events to write in pieces of about chunkBytes.
func encode(ctx context.Context, events []observability.Event, write func([]byte) error) error {
	var lines []byte
	for i := range events {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if lines, err = events[i].AppendJSON(lines); err != nil {
			return err
		}
		if lines = append(lines, '\n'); len(lines) < chunkBytes && i < len(events)-1 {
			continue
		}
		if err := write(lines); err != nil {
			return err
		}
		lines = lines[:0]
	}
	return nil
}
