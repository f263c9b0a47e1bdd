package inspect_test

import (
	"bytes"
	"context"
	"io"

	"github.com/parleyrun/parley/storage"
)

// one is a read-only bucket with one object.
type one struct {
	storage.Bucket
	key  string
	data []byte
}

func (o one) missing(key string) error {
	if key == o.key {
		return nil
	}
	return &storage.Error{Op: "get", Key: key, Kind: storage.ErrNotFound}
}

// Get implements storage.Bucket.
func (o one) Get(_ context.Context, key string) ([]byte, error) {
	return bytes.Clone(o.data), o.missing(key)
}

// GetRange implements storage.Bucket.
func (o one) GetRange(_ context.Context, key string, offset, length int64) ([]byte, error) {
	return bytes.Clone(o.data[offset : offset+length]), o.missing(key)
}

// Open implements storage.Bucket.
func (o one) Open(_ context.Context, key string) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(o.data)), int64(len(o.data)), o.missing(key)
}
