package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parleyrun/parley/storage"
)

// store stores the content of src under key. The object is complete, verified and, if large, durable
// before the key is written.
func (s *Store) store(ctx context.Context, key string, src io.Reader, body storage.Body, create bool) error {
	if create && s.isLarge(body.Size) {
		// Avoid writing a large body that would be rejected.
		switch _, err := s.engine.get(ctx, key); {
		case err == nil:
			return errExists
		case !errors.Is(err, errNoKey):
			return err
		}
	}
	o, err := s.receive(src, body)
	if err != nil {
		return err
	}
	return s.commit(ctx, key, o, create)
}

func (s *Store) isLarge(size int64) bool { return s.files != nil && size > s.large }

// receive reads and verifies a body. It stores a large one in a file and keeps a small one in memory.
func (s *Store) receive(src io.Reader, body storage.Body) (o object, err error) {
	sum := sha256.New()
	summed := io.TeeReader(src, sum)
	o.size = body.Size
	if s.isLarge(o.size) {
		o.file, err = s.files.write(summed, o.size)
	} else {
		o.inline, err = readInline(summed, o.size)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = refused("body is shorter than %d bytes", o.size)
	}
	var more [1]byte
	if err == nil {
		switch n, _ := io.ReadFull(src, more[:]); {
		case n != 0:
			err = refused("body is longer than %d bytes", o.size)
		case [sha256.Size]byte(sum.Sum(nil)) != body.SHA256:
			err = refused("body does not match its SHA-256")
		}
	}
	if err != nil {
		s.discard(o.file)
		return object{}, err
	}
	return o, nil
}

// readInline grows its buffer with the data received, so that a false size costs no memory.
func readInline(body io.Reader, size int64) ([]byte, error) {
	if size <= maxLargeObjectBytes {
		b := make([]byte, size)
		_, err := io.ReadFull(body, b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	var b bytes.Buffer
	n, err := io.CopyN(&b, body, size)
	if n < size && err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// commit stores o under key.
func (s *Store) commit(ctx context.Context, key string, o object, create bool) error {
	o.modified = time.Now().UTC().Truncate(time.Millisecond)
	replaced, err := s.engine.put(ctx, key, o, create)
	var fatal *FatalError
	switch {
	case err == nil:
		s.discard(replaced)
	case !errors.As(err, &fatal): // After a fatal error the key may or may not name the file.
		s.discard(o.file)
	}
	return err
}

// discard removes a file without a key. If that fails, the next start repeats it.
func (s *Store) discard(file string) {
	if file == "" {
		return
	}
	if err := s.files.remove(file); err != nil {
		s.log.Warn("remove unused file failed", "err", err)
	}
}

// open returns the object under key and, if it is large, its open file. It returns *CorruptError if
// the file is missing or has another length.
func (s *Store) open(ctx context.Context, key string) (object, vfs.File, error) {
	for missing := ""; ; {
		o, err := s.engine.get(ctx, key)
		if err != nil || o.file == "" {
			return o, nil, err
		}
		file, err := s.files.open(o.file, o.size)
		if !errors.Is(err, fs.ErrNotExist) {
			return o, file, err
		}
		if o.file == missing {
			return o, nil, &CorruptError{Err: err}
		}
		// The object was replaced or deleted since; read it again.
		missing = o.file
	}
}
