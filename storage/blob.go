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
// when it is known to be stored. An object that is there already is read, and is a
// success if it has the same bytes, otherwise an [*IntegrityError]. It is repeated
// until the outcome is known or ctx ends, reading body from its start each time.
func PutBlob(ctx context.Context, b Bucket, conv conversation.Key, body Body) error {
	if err := validConv(conv); err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	key := BlobKey(conv, body.SHA256)
	err := createResolved(ctx, b, newRetry(Retry{}), key, func() Body { return body })
	if errors.Is(err, ErrExists) {
		err = checkBlob(ctx, b, conv, body.SHA256, body.Size)
	}
	if err != nil {
		return fmt.Errorf("put attachment: %w", err)
	}
	return nil
}

// checkBlob reads an attachment and throws it away.
func checkBlob(ctx context.Context, b Bucket, conv conversation.Key, digest Digest, size int64) error {
	content, err := OpenBlob(ctx, b, conv, digest, size)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, content)
	return errors.Join(err, content.Close())
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
	for n := 0; ; n++ {
		content, stored, err := b.Open(ctx, key)
		if err == nil && stored != size {
			return nil, errors.Join(&IntegrityError{Key: key, WantSize: size, Size: stored, Want: digest}, content.Close())
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
