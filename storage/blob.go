package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

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

// GetBlob returns an attachment whole, after checking its digest: ErrNotFound,
// or an [*IntegrityError] if the bytes are others. The caller owns the slice.
func GetBlob(ctx context.Context, b Bucket, conv conversation.Key, digest Digest) ([]byte, error) {
	if err := validConv(conv); err != nil {
		return nil, fmt.Errorf("get attachment: %w", err)
	}
	key := BlobKey(conv, digest)
	r := newRetry(Retry{Read: 5 * time.Minute}) // An attachment may be large.
	data, err := readRetried(ctx, r, func(ctx context.Context) ([]byte, error) { return b.Get(ctx, key) })
	if err != nil {
		return nil, fmt.Errorf("get attachment: %w", err)
	}
	if got := Digest(sha256.Sum256(data)); got != digest {
		return nil, &IntegrityError{Key: key, Want: digest, Got: got}
	}
	return data, nil
}
