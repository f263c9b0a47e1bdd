package storage_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

// flaw turns a correct bucket into one with one defect, which the named check detects.
type flaw struct {
	check string
	of    func(t *testing.T, b storage.Bucket) storage.Bucket
}

// flaws returns the defects by name.
func flaws() map[string]flaw {
	creates := func(create func(ctx context.Context, b storage.Bucket, key string, body storage.Body) error) func(*testing.T, storage.Bucket) storage.Bucket {
		return func(_ *testing.T, b storage.Bucket) storage.Bucket { return creating{b, create} }
	}
	lists := func(change func(*storage.ListQuery)) func(*testing.T, storage.Bucket) storage.Bucket {
		return func(_ *testing.T, b storage.Bucket) storage.Bucket { return listing{b, change} }
	}
	lags := func(reads, writes string) func(*testing.T, storage.Bucket) storage.Bucket {
		return func(_ *testing.T, b storage.Bucket) storage.Bucket {
			return &lagging{Bucket: b, reads: reads, writes: writes}
		}
	}
	return map[string]flaw{
		"ignores If-None-Match": {"create of an existing key", creates(func(ctx context.Context, b storage.Bucket, key string, body storage.Body) error {
			return b.Put(ctx, key, body)
		})},
		"checks, then puts":         {"create race", creates(checkThenPut)},
		"stores the last of a race": {"create race", creates(storeTheLast())},
		"ignores start-after":       {"list start-after", lists(func(q *storage.ListQuery) { q.After = "" })},
		"ignores max-keys":          {"list pages", lists(func(q *storage.ListQuery) { q.Limit = 0 })},
		"ignores the prefix":        {"list after create", lists(func(q *storage.ListQuery) { q.Prefix = "" })},
		"ignores Range":             {"get of a range", func(_ *testing.T, b storage.Bucket) storage.Bucket { return rangeless{b} }},
		"ignores Range, behind s3":  {"get of a range", func(t *testing.T, b storage.Bucket) storage.Bucket { return behindS3(t, rangeless{b}) }},
		"answers without an ETag":   {"get after put", withoutETag},
		"lists late":                {"list after create", lags("LIST", "PUT")},
		"unlists late":              {"list after delete", lags("LIST", "DELETE")},
		"reads late":                {"get after put", lags("GET", "PUT")},
		"deletes late":              {"create after delete", lags("GET", "DELETE")},
		"has a cache": {"overwrite", func(_ *testing.T, b storage.Bucket) storage.Bucket {
			return &caching{Bucket: b, first: map[string][]byte{}}
		}},
		"never deletes": {"create after delete", func(_ *testing.T, b storage.Bucket) storage.Bucket {
			return storagetest.Through(b, func(ctx context.Context, c *storagetest.Call) error {
				if c.Method == "DELETE" {
					return nil
				}
				return c.Do(ctx)
			})
		}},
		"answers 412 to every create": {"create", refuses(412, "PreconditionFailed", true)},
		"answers 412":                 {"get after put", refuses(412, "PreconditionFailed", false)},
		"answers 409 to every create": {"create", refuses(409, "OperationAborted", true)},
		"answers 501 to every create": {"create", refuses(501, "NotImplemented", true)},
		"answers 400 to every create": {"create", refuses(400, "InvalidArgument", true)},
		"answers 501":                 {"get after put", refuses(501, "NotImplemented", false)},
	}
}

// withoutETag returns b behind a proxy that drops ETags.
func withoutETag(t *testing.T, b storage.Bucket) storage.Bucket {
	front := s3front.New(b)
	return open(t, &s3.Options{Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, PathStyle: true, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := front.RoundTrip(r)
		if err == nil {
			resp.Header.Del("ETag")
		}
		return resp, err
	})})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refuses answers a status, either to creates or to all requests, through the real S3 client.
func refuses(status int, code string, creates bool) func(*testing.T, storage.Bucket) storage.Bucket {
	return func(t *testing.T, b storage.Bucket) storage.Bucket {
		refused := &storage.Error{Status: status, Code: code}
		if creates {
			return behindS3(t, creating{b, func(context.Context, storage.Bucket, string, storage.Body) error { return refused }})
		}
		return behindS3(t, storagetest.Through(b, func(context.Context, *storagetest.Call) error { return refused }))
	}
}

// creating replaces Create.
type creating struct {
	storage.Bucket
	create func(ctx context.Context, b storage.Bucket, key string, body storage.Body) error
}

// Create implements storage.Bucket.
func (c creating) Create(ctx context.Context, key string, body storage.Body) error {
	return c.create(ctx, c.Bucket, key, body)
}

// checkThenPut waits between the check for an object and the store.
func checkThenPut(ctx context.Context, b storage.Bucket, key string, body storage.Body) error {
	switch _, err := b.Get(ctx, key); {
	case err == nil:
		return &storage.Error{Op: storage.OpCreate, Key: key, Kind: storage.ErrExists}
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	time.Sleep(time.Millisecond)
	return b.Put(ctx, key, body)
}

// storeTheLast acknowledges the first create of a key, but stores the bytes of one that arrived
// concurrently.
func storeTheLast() func(ctx context.Context, b storage.Bucket, key string, body storage.Body) error {
	var mu sync.Mutex
	began := map[string]time.Time{}
	return func(ctx context.Context, b storage.Bucket, key string, body storage.Body) error {
		mu.Lock()
		at, late := began[key]
		if !late {
			began[key] = time.Now()
		}
		mu.Unlock()
		time.Sleep(time.Millisecond)
		if late && time.Since(at) > time.Millisecond {
			return b.Create(ctx, key, body)
		}
		err := b.Put(ctx, key, body)
		if err == nil && late {
			return &storage.Error{Op: storage.OpCreate, Key: key, Kind: storage.ErrExists}
		}
		return err
	}
}

// listing replaces List.
type listing struct {
	storage.Bucket
	change func(*storage.ListQuery)
}

// List implements storage.Bucket.
func (l listing) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	l.change(&q)
	return l.Bucket.List(ctx, q)
}

// rangeless returns the whole object for any range.
type rangeless struct{ storage.Bucket }

// GetRange implements storage.Bucket.
func (r rangeless) GetRange(ctx context.Context, key string, _, _ int64) ([]byte, error) {
	return r.Get(ctx, key)
}

// caching returns the first content of a key to every later read.
type caching struct {
	storage.Bucket
	mu    sync.Mutex
	first map[string][]byte
}

// Put implements storage.Bucket.
func (c *caching) Put(ctx context.Context, key string, body storage.Body) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first[key] == nil {
		var err error
		if c.first[key], err = io.ReadAll(body.Reader); err != nil {
			return err
		}
	}
	return c.Bucket.Put(ctx, key, body)
}

// Get implements storage.Bucket.
func (c *caching) Get(ctx context.Context, key string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.first[key]; known != nil {
		return slices.Clone(known), nil
	}
	return c.Bucket.Get(ctx, key)
}

// lagging hides a kind of write from a kind of read for a second.
type lagging struct {
	storage.Bucket
	reads, writes string

	mu     sync.Mutex
	recent []write
}

type write struct {
	at  time.Time
	key string
}

func (l *lagging) wrote(method, key string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && method == l.writes {
		l.recent = append(l.recent, write{time.Now(), key})
	}
	return err
}

// unseen returns the keys of writes that are still hidden from a kind of read.
func (l *lagging) unseen(method string) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.recent {
		if method == l.reads && time.Since(w.at) < time.Second {
			keys = append(keys, w.key)
		}
	}
	return keys
}

// Create implements storage.Bucket.
func (l *lagging) Create(ctx context.Context, key string, body storage.Body) error {
	return l.wrote("PUT", key, l.Bucket.Create(ctx, key, body))
}

// Put implements storage.Bucket.
func (l *lagging) Put(ctx context.Context, key string, body storage.Body) error {
	return l.wrote("PUT", key, l.Bucket.Put(ctx, key, body))
}

// Delete implements storage.Bucket.
func (l *lagging) Delete(ctx context.Context, key string) error {
	return l.wrote("DELETE", key, l.Bucket.Delete(ctx, key))
}

// Get implements storage.Bucket.
func (l *lagging) Get(ctx context.Context, key string) ([]byte, error) {
	switch {
	case !slices.Contains(l.unseen("GET"), key):
		return l.Bucket.Get(ctx, key)
	case l.writes == "DELETE":
		return []byte("old"), nil
	}
	return nil, &storage.Error{Op: storage.OpGet, Key: key, Kind: storage.ErrNotFound}
}

// List implements storage.Bucket.
func (l *lagging) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	page, err := l.Bucket.List(ctx, q)
	for _, key := range l.unseen("LIST") {
		is := func(k storage.ListedKey) bool { return k.Key == key }
		if l.writes == "PUT" {
			page.Keys = slices.DeleteFunc(page.Keys, is)
		} else if strings.HasPrefix(key, q.Prefix) && !slices.ContainsFunc(page.Keys, is) {
			page.Keys = append(page.Keys, storage.ListedKey{Key: key, Size: 1})
		}
	}
	slices.SortFunc(page.Keys, func(a, b storage.ListedKey) int { return strings.Compare(a.Key, b.Key) })
	return page, err
}
