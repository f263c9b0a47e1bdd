package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// reading is how the bytes of one object, or of a part of one, are got.
type reading struct {
	retry    *retry
	attempts int // 0 is until the context ends
	key      string
	size     int64 // that a listing states, -1 if it is not known
	get      func(context.Context) ([]byte, error)
}

// reads is the whole object under a key.
func (r *retry) reads(b Bucket, key string) reading {
	return reading{retry: r, attempts: r.Reads, key: key, size: -1, get: func(ctx context.Context) ([]byte, error) { return b.Get(ctx, key) }}
}

// readDecoded reads an object and decodes it. Bytes that cannot be decoded may be those of a
// bad read. They are taken for the object's only if they have the size that a listing states
// and two reads return the same; until then the read is repeated like one without an answer.
// An error of decode means that the object is corrupt.
func readDecoded[T any](ctx context.Context, o reading, decode func([]byte) (T, error)) (T, error) {
	var bad []byte
	doubted := false
	return readWhile(ctx, o.retry, o.attempts, func(ctx context.Context) (v T, err error) {
		data, err := o.get(ctx)
		if err != nil {
			return v, err
		}
		v, err = decode(data)
		if err == nil || doubted && bytes.Equal(bad, data) && (o.size < 0 || o.size == int64(len(data))) {
			return v, err
		}
		bad, doubted = data, true
		// The object may be all right, so the chain is cut.
		return v, &Error{Op: OpGet, Key: o.key, Kind: ErrUnavailable, Err: fmt.Errorf("bytes are read again: %v", err)}
	})
}

// readStored reads an object of decodeStored that has at most limit bytes. Its error is a
// [*FormatError] of decode, a [*CorruptError] with any other, or the bucket's.
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
