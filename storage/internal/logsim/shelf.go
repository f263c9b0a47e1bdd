package logsim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/storage"
)

// Shelf is a bucket in memory that answers at once, for the many schedules of [Run]
// that a server would take too long for. It is held to the suite of logs, and a schedule
// has the same trace on it as on a store behind package storage/s3.
//
// It is safe for concurrent use. The zero value is an empty bucket.
type Shelf struct {
	mu      sync.Mutex
	keys    []string // in order
	objects map[string][]byte
}

var _ storage.Bucket = (*Shelf)(nil)

// Create implements storage.Bucket.
func (s *Shelf) Create(_ context.Context, key string, body storage.Body) error {
	return s.write("create", key, body, false)
}

// Put implements storage.Bucket.
func (s *Shelf) Put(_ context.Context, key string, body storage.Body) error {
	return s.write("put", key, body, true)
}

func (s *Shelf) write(op, key string, body storage.Body, replace bool) error {
	if body.Size <= 0 || body.Reader == nil {
		return &storage.Error{Op: op, Key: key, Kind: storage.ErrRefused, Err: errors.New("body is empty")}
	}
	data, err := contentOf(body)
	if err != nil {
		return &storage.Error{Op: op, Key: key, Kind: storage.ErrRefused, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := slices.BinarySearch(s.keys, key)
	switch {
	case found && !replace:
		return &storage.Error{Op: op, Key: key, Kind: storage.ErrExists}
	case !found:
		s.keys = slices.Insert(s.keys, i, key)
	}
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[key] = data
	return nil
}

// Get implements storage.Bucket.
func (s *Shelf) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[key]
	if !ok {
		return nil, &storage.Error{Op: "get", Key: key, Kind: storage.ErrNotFound}
	}
	return bytes.Clone(data), nil
}

// GetRange implements storage.Bucket.
func (s *Shelf) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, err := s.Get(ctx, key)
	if err == nil && (offset < 0 || length <= 0 || offset > int64(len(data)) || length > int64(len(data))-offset) {
		err = &storage.Error{Op: "get", Key: key, Kind: storage.ErrRefused, Err: errors.New("not a range of the object")}
	}
	if err != nil {
		return nil, err
	}
	return data[offset : offset+length], nil
}

// Open implements storage.Bucket.
func (s *Shelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	data, err := s.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// List implements storage.Bucket. It knows no folders.
func (s *Shelf) List(_ context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if q.Delimiter != "" || q.Limit < 0 || q.Limit > 1000 {
		return storage.ListPage{}, &storage.Error{Op: "list", Key: q.Prefix, Kind: storage.ErrRefused, Err: errors.New("not supported")}
	}
	limit := q.Limit
	if limit == 0 {
		limit = 1000
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var page storage.ListPage
	i, _ := slices.BinarySearch(s.keys, max(q.Prefix, q.After))
	for ; i < len(s.keys) && (strings.HasPrefix(s.keys[i], q.Prefix) || s.keys[i] <= q.After); i++ {
		if s.keys[i] <= q.After {
			continue
		}
		if len(page.Keys) == limit {
			page.More = true
			break
		}
		page.Keys = append(page.Keys, storage.ListedKey{Key: s.keys[i], Size: int64(len(s.objects[s.keys[i]]))})
	}
	return page, nil
}

// Delete implements storage.Bucket.
func (s *Shelf) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := slices.BinarySearch(s.keys, key); found {
		s.keys = slices.Delete(s.keys, i, i+1)
		delete(s.objects, key)
	}
	return nil
}
