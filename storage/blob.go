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

// PutBlob stores an attachment of a conversation under its digest, by one conditional PUT of any size.
// It retries until the outcome is known or ctx ends, and reads body from its start each time.
//
// If the body does not have the stated size or digest, PutBlob returns an [*IntegrityError]. It never
// sends the end of such a body, so no store can accept it. An object that exists already is read: the
// stated bytes are a success, any other an [*IntegrityError]. Memory use is one buffer in either case.
func PutBlob(ctx context.Context, b Bucket, conv conversation.Key, body Body) error {
	if err := validConv(conv); err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	if body.Size <= 0 || body.Reader == nil {
		return fmt.Errorf("put attachment: %w", &Error{Op: "create", Key: BlobKey(conv, body.SHA256), Kind: ErrRefused, Err: errors.New("body is empty")})
	}
	key := BlobKey(conv, body.SHA256)
	// An invalid body ends the retries, because each would read the same bytes.
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

// blobSource reads a body and fails in place of its last bytes if the body does not have the stated
// digest. Stores verify the digest too, but not all of them, and not for unsigned requests.
type blobSource struct {
	body Body
	key  string
	stop context.CancelFunc

	mu   sync.Mutex
	sum  hash.Hash
	read int64
	bad  error
}

// Seek implements io.Seeker. The digest covers only the bytes read since the last seek to the start.
func (s *blobSource) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset != 0 || whence != io.SeekStart {
		return 0, fmt.Errorf("seek attachment to %d: want the start", offset)
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

// check compares the digest of a fully read body with the stated one.
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

// flaw returns the integrity error of the body, if any.
func (s *blobSource) flaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// checkBlob reads an attachment and discards it. As in readDecoded, a wrong digest is reported only if
// two reads return the same bytes.
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
		return none, &Error{Op: OpOpen, Key: other.Key, Kind: ErrUnavailable, Err: fmt.Errorf("bytes do not decode: %v", err)}
	})
	return err
}

// OpenBlob streams an attachment of size bytes. It returns ErrNotFound, ErrUnavailable after several
// attempts, ErrRefused, or an [*IntegrityError] if the object has another size. On a digest mismatch
// the last Read returns an [*IntegrityError] in place of io.EOF. Callers must not trust any byte
// before io.EOF. ctx must stay valid until the caller closes the reader.
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

// blobReader verifies the digest and fails at the end of the content if it does not match.
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
