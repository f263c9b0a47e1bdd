package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/parleyrun/parley/conversation"
)

// PutBlob stores an attachment of a conversation under its digest and returns
// when it is known to be stored. An object that is there already has the same
// bytes, so that is a success. It is repeated until the outcome is known or ctx
// ends, reading body from its start each time.
func PutBlob(ctx context.Context, b Bucket, conv conversation.Key, body Body) error {
	if err := validConv(conv); err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	key := BlobKey(conv, body.SHA256)
	err := createResolved(ctx, b, newRetry(Retry{}), key, func() Body { return body })
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("put attachment: %w", err)
	}
	return nil
}

// OpenBlob streams an attachment of size bytes: ErrNotFound, ErrUnavailable after
// several attempts, ErrRefused, or an error without kind if the object has another
// size. Bytes with another digest are an [*IntegrityError] from Read in place of
// io.EOF: until that, nothing that was read may be trusted. ctx must hold until
// the reader is closed, which is up to the caller.
func OpenBlob(ctx context.Context, b Bucket, conv conversation.Key, digest Digest, size int64) (io.ReadCloser, error) {
	if err := validConv(conv); err != nil {
		return nil, fmt.Errorf("open attachment: %w", err)
	}
	key := BlobKey(conv, digest)
	r := newRetry(Retry{})
	for n := 0; ; n++ {
		content, stored, err := b.Open(ctx, key)
		if err == nil && stored != size {
			err = fmt.Errorf("open attachment %s: stored with %d bytes, want %d", key, stored, size)
			return nil, errors.Join(err, content.Close())
		}
		if err == nil {
			return &blobReader{ReadCloser: content, key: key, want: digest, sum: sha256.New()}, nil
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
	want Digest
	sum  hash.Hash
}

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF {
		if got := Digest(r.sum.Sum(nil)); got != r.want {
			return n, &IntegrityError{Key: r.key, Want: r.want, Got: got}
		}
	}
	return n, err
}
