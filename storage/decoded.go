package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// reading describes how to read an object, or a part of one.
type reading struct {
	retry    *retry
	attempts int // 0 means until the context ends
	key      string
	size     int64 // from a listing, -1 if unknown
	get      func(context.Context) ([]byte, error)
}

// reads returns the reading of a whole object.
func (r *retry) reads(b Bucket, key string) reading {
	return reading{retry: r, attempts: r.Reads, key: key, size: -1, get: func(ctx context.Context) ([]byte, error) { return b.Get(ctx, key) }}
}

// readDecoded reads an object and decodes it. If the bytes do not decode, the read may have been bad,
// and readDecoded retries it like a read without an answer. It blames the object only if the size
// matches the listing and two reads return the same bytes. An error of decode means that the object is
// corrupt.
func readDecoded[T any](ctx context.Context, o reading, decode func([]byte) (T, error)) (T, error) {
	var bad []byte
	rejected := false
	return readWhile(ctx, o.retry, o.attempts, func(ctx context.Context) (v T, err error) {
		data, err := o.get(ctx)
		if err != nil {
			return v, err
		}
		v, err = decode(data)
		if err == nil || rejected && bytes.Equal(bad, data) && (o.size < 0 || o.size == int64(len(data))) {
			return v, err
		}
		bad, rejected = data, true
		// %v hides the decode error from errors.As, because the object may be intact.
		return v, &Error{Op: OpGet, Key: o.key, Kind: ErrUnavailable, Err: fmt.Errorf("bytes do not decode: %v", err)}
	})
}

// readStored reads an object with decodeStored, of at most limit bytes. It returns a [*FormatError] of
// decode, a [*CorruptError] for any other decode error, or the bucket's error.
func readStored[T any](ctx context.Context, b Bucket, key string, seq, limit int64, decode func([]byte) (T, error)) (T, error) {
	o := newRetry(Retry{}).reads(b, key)
	o.get = func(ctx context.Context) ([]byte, error) { return getBounded(ctx, b, key, limit) }
	return readDecoded(ctx, o, func(data []byte) (v T, err error) {
		v, err = decode(data)
		if _, newer := errors.AsType[*FormatError](err); err != nil && !newer {
			err = &CorruptError{Key: key, Seq: seq, Err: err}
		}
		return v, err
	})
}
