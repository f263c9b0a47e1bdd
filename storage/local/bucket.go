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

// The limits of S3: what is stored here can be moved to an endpoint.
const (
	maxKeyBytes    = 1024
	maxObjectBytes = 5 << 30 // Of a single PUT.
)

var _ storage.Bucket = (*Store)(nil)

// Exclusive reports that nobody else reaches the Store: a folder is locked, and memory is
// this process's.
func (s *Store) Exclusive() bool { return true }

// Create implements storage.Bucket. When ctx ends while the Store owns the commit, that
// goes on, and the error is storage.ErrUncertain: nobody waits for a disk that stalls.
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
			return none, fmt.Errorf("read the body: %w", err)
		}
		return none, s.store(ctx, key, src, body, op == storage.OpCreate)
	}, nil)
	return err
}

func checkBody(body storage.Body) error {
	switch {
	case body.Size <= 0 || body.Reader == nil:
		return refused("the body is empty")
	case body.Size > maxObjectBytes:
		return refused("%d bytes are more than the %d of an object", body.Size, int64(maxObjectBytes))
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
		return nil, errorOf(storage.OpGet, key, refused("%d bytes from %d on are no range", length, offset))
	}
	return perform(ctx, s, storage.OpGet, key, func() ([]byte, error) { return s.read(ctx, key, offset, length) }, nil)
}

// read returns length bytes of an object, or what is left of it if length is negative.
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
		return nil, refused("the object has no %d bytes from %d on", length, offset)
	}
	if file == nil {
		part := o.inline[offset : offset+length]
		if s.files == nil || length < o.size { // Memory lends its bytes, and a part would hold all of them.
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

// Open implements storage.Bucket. ctx must hold until the reader is closed.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, err := perform(ctx, s, storage.OpOpen, key, func() (*objectReader, error) {
		o, file, err := s.open(ctx, key)
		if err != nil {
			return nil, err
		}
		if file == nil {
			return &objectReader{ctx: ctx, key: key, left: o.size, src: bytes.NewReader(o.inline)}, nil
		}
		return &objectReader{ctx: ctx, key: key, left: o.size, src: io.NewSectionReader(file, 0, o.size), file: file}, nil
	}, func(r *objectReader) { _ = r.Close() })
	if err != nil {
		return nil, 0, err
	}
	return r, r.left, nil
}

// objectReader streams one object. A body that ends early is an error.
type objectReader struct {
	ctx  context.Context
	key  string
	left int64
	src  io.Reader
	file vfs.File // Nil for an object without one.
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

// Close implements io.Closer.
func (r *objectReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Delete implements storage.Bucket. The key goes first and its file afterwards.
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

// perform lets the Store do something for a caller who waits no longer than ctx. What it
// does then is dropped; a write may still land. The goroutine belongs to the Store:
// Close waits until it has left. In memory there is none: nothing takes time there but the
// reading of a body.
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
			s.damage.Store(&CorruptError{Err: err})
		}
		s.complain(op, key, err)
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
		case r := <-done: // The caller did not take it.
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
	case r := <-done: // It came at the same time.
		return r.v, errorOf(op, key, r.err)
	default:
		return none, errorOf(op, key, s.gaveUp(ctx))
	}
}

// gaveUp is why a caller waits no longer. The engine searches for the bit that was flipped in
// what it cannot read, for seconds if that is large, so a request may end before it is told.
func (s *Store) gaveUp(ctx context.Context) error {
	if damage := s.damage.Load(); damage != nil {
		return fmt.Errorf("%w; %w", context.Cause(ctx), damage)
	}
	return context.Cause(ctx)
}

// complain logs what an operator should see of an error, whoever still waits for it.
func (s *Store) complain(op, key string, err error) {
	for _, usual := range []error{nil, errNoKey, errExists, storage.ErrReleased, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, usual) {
			return
		}
	}
	if kindOf(op, err) != storage.ErrRefused {
		s.log.Error("local store request", "op", op, "key", key, "err", err)
	}
}

// errorOf is the error that the seam promises.
func errorOf(op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &storage.Error{Op: op, Key: key, Kind: kindOf(op, err)}
	if pebble.IsCorruptionError(err) {
		err = &CorruptError{Err: err}
	}
	if e.Kind != storage.ErrNotFound && e.Kind != storage.ErrExists { // Those say it all.
		e.Err = err
	}
	return e
}

func checkKey(op, key string) error {
	switch {
	case key == "" && op != storage.OpList:
		return refused("the key is empty")
	case len(key) > maxKeyBytes:
		return refused("the key has %d bytes, %d at most are allowed", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return refused("the key is not valid UTF-8")
	}
	return nil
}
