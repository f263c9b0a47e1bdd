package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/storage"
)

// Limits of S3, so that the content of a folder can be moved to an endpoint.
const (
	maxKeyBytes    = 1024
	maxObjectBytes = 5 << 30 // Of a single PUT.
)

var _ storage.Bucket = (*Store)(nil)

// Exclusive returns true: a folder is locked by this process, and memory belongs to it.
func (s *Store) Exclusive() bool { return true }

// Create implements storage.Bucket. If ctx ends while the Store owns the commit, the commit continues
// and Create returns storage.ErrUncertain. So callers do not wait for a stalled disk.
func (s *Store) Create(ctx context.Context, key string, body storage.Body) error {
	return s.write(ctx, storage.OpCreate, key, body)
}

// Put implements storage.Bucket.
func (s *Store) Put(ctx context.Context, key string, body storage.Body) error {
	return s.write(ctx, storage.OpPut, key, body)
}

func (s *Store) write(ctx context.Context, op, key string, body storage.Body) error {
	err := checkBody(body)
	if err == nil && s.readOnly {
		err = errReadOnly
	}
	if err != nil {
		return errorOf(op, key, err)
	}
	src := body.Lend()
	defer src.Release()
	_, err = perform(ctx, s, op, key, func() (none struct{}, err error) {
		if _, err = src.Seek(0, io.SeekStart); err != nil {
			return none, fmt.Errorf("read body: %w", err)
		}
		return none, s.store(ctx, key, src, body, op == storage.OpCreate)
	}, nil)
	return err
}

func checkBody(body storage.Body) error {
	switch {
	case body.Size <= 0 || body.Reader == nil:
		return refused("body is empty")
	case body.Size > maxObjectBytes:
		return refused("body of %d bytes exceeds the object limit of %d", body.Size, int64(maxObjectBytes))
	}
	return nil
}

// Get implements storage.Bucket.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return perform(ctx, s, storage.OpGet, key, func() ([]byte, error) { return s.read(ctx, key, 0, -1) }, nil)
}

// GetRange implements storage.Bucket.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if offset < 0 || length <= 0 {
		return nil, errorOf(storage.OpGet, key, refused("invalid range: %d bytes from offset %d", length, offset))
	}
	return perform(ctx, s, storage.OpGet, key, func() ([]byte, error) { return s.read(ctx, key, offset, length) }, nil)
}

// read returns length bytes of an object from offset on, or all remaining bytes if length is negative.
func (s *Store) read(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	o, file, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	if file != nil {
		defer file.Close()
	}
	if length < 0 {
		length = o.size - offset
	}
	if offset > o.size-length {
		return nil, refused("range of %d bytes from offset %d exceeds the object", length, offset)
	}
	if file == nil {
		part := o.inline[offset : offset+length]
		if s.files == nil || length < o.size { // The memory engine shares its bytes, and a slice of a part would retain all of them.
			part = bytes.Clone(part)
		}
		return part, nil
	}
	b := make([]byte, length)
	if n, err := file.ReadAt(b, offset); n < len(b) {
		return nil, fmt.Errorf("read object file: %w", err)
	}
	return b, nil
}

// Open implements storage.Bucket. ctx must stay valid until the reader is closed.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, err := perform(ctx, s, storage.OpOpen, key, func() (*objectReader, error) {
		o, file, err := s.open(ctx, key)
		if err != nil {
			return nil, err
		}
		if file == nil {
			return &objectReader{ctx: ctx, key: key, size: o.size, left: o.size, src: bytes.NewReader(o.inline)}, nil
		}
		return &objectReader{ctx: ctx, key: key, size: o.size, left: o.size, src: io.NewSectionReader(file, 0, o.size), file: file}, nil
	}, func(r *objectReader) { _ = r.Close() })
	if err != nil {
		return nil, 0, err
	}
	return r, r.left, nil
}

// objectReader streams one object. A truncated body is an error.
type objectReader struct {
	ctx  context.Context
	key  string
	size int64
	left int64
	src  io.ReadSeeker
	file vfs.File // Nil for an inline object.
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (n int, err error) {
	if err = context.Cause(r.ctx); err == nil {
		n, err = r.src.Read(p)
		r.left -= int64(n)
	}
	switch {
	case err == nil, err == io.EOF && r.left == 0:
		return n, err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, &storage.Error{Op: storage.OpOpen, Key: r.key, Kind: storage.ErrUnavailable, Err: err}
}

// Seek implements io.Seeker.
func (r *objectReader) Seek(offset int64, whence int) (int64, error) {
	at, err := r.src.Seek(offset, whence)
	if err == nil {
		r.left = r.size - at
	}
	return at, err
}

// Close implements io.Closer.
func (r *objectReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Delete implements storage.Bucket. It deletes the key first, then its file.
func (s *Store) Delete(ctx context.Context, key string) error {
	if s.readOnly {
		return errorOf(storage.OpDelete, key, errReadOnly)
	}
	_, err := perform(ctx, s, storage.OpDelete, key, func() (none struct{}, err error) {
		removed, err := s.engine.remove(ctx, key)
		if err == nil {
			s.discard(removed)
		}
		return none, err
	}, nil)
	return err
}

// perform runs do on a goroutine of the Store while the caller waits until ctx ends. A late result is
// passed to drop, and a write may still be stored. Close waits for the goroutine. The memory engine
// needs none, because only the read of a body takes time there.
func perform[T any](ctx context.Context, s *Store, op, key string, do func() (T, error), drop func(T)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, &storage.Error{Op: op, Key: key, Err: context.Cause(ctx)}
	}
	if err := checkKey(op, key); err != nil {
		return none, errorOf(op, key, err)
	}
	if !s.enter() {
		return none, errorOf(op, key, errClosed)
	}
	type result struct {
		v   T
		err error
	}
	act := func() result {
		v, err := do()
		if pebble.IsCorruptionError(err) {
			s.corruption.Store(&CorruptError{Err: err})
		}
		s.logError(op, key, err)
		return result{v, err}
	}
	if s.files == nil {
		defer s.leave()
		r := act()
		return r.v, errorOf(op, key, r.err)
	}
	done := make(chan result, 1)
	var left atomic.Bool
	go func() {
		defer s.leave()
		done <- act()
		if !left.Load() {
			return
		}
		select {
		case r := <-done: // The caller has left.
			if r.err == nil && drop != nil {
				drop(r.v)
			}
		default:
		}
	}()
	select {
	case r := <-done:
		return r.v, errorOf(op, key, r.err)
	case <-ctx.Done():
	}
	left.Store(true)
	select {
	case r := <-done: // The result arrived at the same time.
		return r.v, errorOf(op, key, r.err)
	default:
		return none, errorOf(op, key, s.waitError(ctx))
	}
}

// waitError returns why a caller stops waiting: ctx, or a fatal error of the folder. For an unreadable
// block the engine searches for a flipped bit, for seconds if it is large, so a request may end before
// that error.
func (s *Store) waitError(ctx context.Context) error {
	if corruption := s.corruption.Load(); corruption != nil {
		return fmt.Errorf("%w; %w", context.Cause(ctx), corruption)
	}
	return context.Cause(ctx)
}

// logError logs errors that concern the operator, even if the caller has left.
func (s *Store) logError(op, key string, err error) {
	for _, usual := range []error{nil, errNoKey, errExists, storage.ErrReleased, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, usual) {
			return
		}
	}
	if kindOf(op, err) != storage.ErrRefused {
		s.log.Error("local store request failed", "op", op, "key", key, "err", err)
	}
}

// errorOf maps an error to the one that Bucket requires.
func errorOf(op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &storage.Error{Op: op, Key: key, Kind: kindOf(op, err)}
	if pebble.IsCorruptionError(err) {
		err = &CorruptError{Err: err}
	}
	if e.Kind != storage.ErrNotFound && e.Kind != storage.ErrExists { // These kinds need no cause.
		e.Err = err
	}
	return e
}

func checkKey(op, key string) error {
	switch {
	case key == "" && op != storage.OpList:
		return refused("key is empty")
	case len(key) > maxKeyBytes:
		return refused("key has %d bytes, limit %d", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return refused("key is not valid UTF-8")
	}
	return nil
}
