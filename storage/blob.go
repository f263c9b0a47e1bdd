package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/parleyrun/parley/conversation"
)

// PutBlob stores an attachment of a conversation under its digest and returns
// when it is known to be stored, by one conditional PUT whatever its size. It is
// repeated until the outcome is known or ctx ends, reading body from its start each
// time.
//
// A body of another size or digest than it states is an [*IntegrityError]; the end
// of such a body is never sent, so that no store can take it. An object that is
// there already is read, and is a success if it has the stated bytes, otherwise an
// [*IntegrityError]. Neither way holds more of it in memory than a buffer.
func PutBlob(ctx context.Context, b Bucket, conv conversation.Key, body Body) error {
	if err := validConv(conv); err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	if body.Size <= 0 || body.Reader == nil {
		return fmt.Errorf("put attachment: %w", &Error{Op: "create", Key: BlobKey(conv, body.SHA256), Kind: ErrRefused, Err: errors.New("body is empty")})
	}
	key := BlobKey(conv, body.SHA256)
	// The first bad reading ends the repetitions, which it would only repeat.
	sending, stop := context.WithCancel(ctx)
	defer stop()
	src := &blobSource{body: body, key: key, sum: sha256.New(), stop: stop}
	err := createResolved(sending, b, newRetry(Retry{}), key, func() Body {
		return Body{Reader: src, Size: body.Size, SHA256: body.SHA256}
	})
	if errors.Is(err, ErrExists) {
		err = checkBlob(ctx, b, conv, body.SHA256, body.Size)
	} else if bad := src.flaw(); bad != nil && err != nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	return nil
}

// blobSource reads a body and fails in place of its last bytes if it is not what it
// states. The store verifies a body too, but not of unsigned requests, and not every
// store does.
type blobSource struct {
	body Body
	key  string
	stop context.CancelFunc

	mu   sync.Mutex
	sum  hash.Hash
	read int64
	bad  error
}

// Seek implements io.Seeker. What was read before counts only from the start.
func (s *blobSource) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset != 0 || whence != io.SeekStart {
		return 0, fmt.Errorf("seek attachment to %d: it is read from its start", offset)
	}
	s.read = 0
	s.sum.Reset()
	return s.body.Reader.Seek(0, io.SeekStart)
}

// Read implements io.Reader.
func (s *blobSource) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad != nil {
		return 0, s.bad
	}
	if s.read == s.body.Size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.body.Size-s.read)]
	n, err := s.body.Reader.Read(p)
	s.sum.Write(p[:n])
	s.read += int64(n)
	switch {
	case s.read == s.body.Size:
		err = s.check()
	case err == io.EOF:
		err = &IntegrityError{Key: s.key, WantSize: s.body.Size, Size: s.read, Want: s.body.SHA256}
	}
	if err != nil {
		s.bad = err
		s.stop()
		return 0, err
	}
	return n, nil
}

// check looks at a body that was read to its size.
func (s *blobSource) check() error {
	more, err := io.Copy(io.Discard, s.body.Reader)
	if err != nil {
		return err
	}
	got := Digest(s.sum.Sum(nil))
	if more > 0 || got != s.body.SHA256 {
		return &IntegrityError{Key: s.key, WantSize: s.body.Size, Size: s.body.Size + more, Want: s.body.SHA256, Got: got}
	}
	return nil
}

// flaw returns why the body could not be read as it states.
func (s *blobSource) flaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// checkBlob reads an attachment and throws it away. As in readDecoded, other bytes than
// those of the digest are the object's only if two reads return the same.
func checkBlob(ctx context.Context, b Bucket, conv conversation.Key, digest Digest, size int64) error {
	var bad *IntegrityError
	_, err := readRetried(ctx, newRetry(Retry{}), func(ctx context.Context) (none struct{}, err error) {
		content, err := OpenBlob(ctx, b, conv, digest, size)
		if err == nil {
			_, err = io.Copy(io.Discard, content)
			err = errors.Join(err, content.Close())
		}
		other, ok := errors.AsType[*IntegrityError](err)
		if !ok || bad != nil && *bad == *other {
			return none, err
		}
		bad = other
		return none, &Error{Op: OpOpen, Key: other.Key, Kind: ErrUnavailable, Err: fmt.Errorf("bytes are read again: %v", err)}
	})
	return err
}

// OpenBlob streams an attachment of size bytes: ErrNotFound, ErrUnavailable after
// several attempts, ErrRefused, or an [*IntegrityError] if the object has another
// size. Bytes with another digest are one from Read in place of io.EOF: until that,
// nothing that was read may be trusted. ctx must hold until the reader is closed,
// which is up to the caller.
func OpenBlob(ctx context.Context, b Bucket, conv conversation.Key, digest Digest, size int64) (io.ReadCloser, error) {
	if err := validConv(conv); err != nil {
		return nil, fmt.Errorf("open attachment: %w", err)
	}
	key := BlobKey(conv, digest)
	r := newRetry(Retry{})
	for n, other := 0, int64(-1); ; n++ {
		content, stored, err := b.Open(ctx, key)
		if err == nil && stored != size {
			err = errors.Join(&IntegrityError{Key: key, WantSize: size, Size: stored, Want: digest}, content.Close())
			if stored == other || n+1 == r.Reads || !r.pause(ctx, n, digest[:]) {
				return nil, err
			}
			other = stored
			continue
		}
		if err == nil {
			return &blobReader{ReadCloser: content, key: key, size: size, want: digest, sum: sha256.New()}, nil
		}
		if !errors.Is(err, ErrUnavailable) || n+1 == r.Reads || !r.pause(ctx, n, digest[:]) {
			return nil, fmt.Errorf("open attachment: %w", err)
		}
	}
}

// blobReader fails at the end of content that does not have its digest.
type blobReader struct {
	io.ReadCloser
	key  string
	size int64
	want Digest
	sum  hash.Hash
}

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF {
		if got := Digest(r.sum.Sum(nil)); got != r.want {
			return n, &IntegrityError{Key: r.key, WantSize: r.size, Size: r.size, Want: r.want, Got: got}
		}
	}
	return n, err
}
