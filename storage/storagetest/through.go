package storagetest

import (
	"context"
	"io"
	"net/http"

	"github.com/parleyrun/parley/storage"
)

// Call is one operation on a bucket, on its way.
type Call struct {
	Op
	verb string // Of storage.Error.
	do   func(context.Context) error
	// again returns what does it once more, with a copy of the body; nil for what has none.
	again func() (func(context.Context) error, error)
}

// Do performs the operation.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx) }

// Later returns what performs the operation when its caller has left: a body was copied.
func (c *Call) Later() (func(context.Context) error, error) {
	if c.again == nil {
		return c.do, nil
	}
	return c.again()
}

// Unanswered is the error of an operation whose outcome nobody was told.
func (c *Call) Unanswered(err error) error { return c.answered(0, "", err) }

// answered is the error of an operation that was answered so, without telling its outcome.
func (c *Call) answered(status int, code string, err error) error {
	kind := storage.ErrUnavailable
	if c.writes() {
		kind = storage.ErrUncertain
	}
	return &storage.Error{Op: c.verb, Key: c.Key, Kind: kind, Status: status, Code: code, Err: err}
}

// Through returns b with every operation carried by a function, which calls Do or does
// not, and returns what its caller gets to know.
func Through(b storage.Bucket, carry func(context.Context, *Call) error) storage.Bucket {
	return &through{b, carry}
}

type through struct {
	next   storage.Bucket
	around func(context.Context, *Call) error
}

// carry leaves what is over before it begins to the bucket.
func (t *through) carry(ctx context.Context, c *Call) error {
	if ctx.Err() != nil {
		return c.Do(ctx)
	}
	return t.around(ctx, c)
}

// Create implements storage.Bucket.
func (t *through) Create(ctx context.Context, key string, body storage.Body) error {
	return t.write(ctx, "create", key, body, t.next.Create)
}

// Put implements storage.Bucket.
func (t *through) Put(ctx context.Context, key string, body storage.Body) error {
	return t.write(ctx, "put", key, body, t.next.Put)
}

func (t *through) write(ctx context.Context, verb, key string, body storage.Body, send func(context.Context, string, storage.Body) error) error {
	return t.carry(ctx, &Call{
		Op: Op{Method: http.MethodPut, Key: key}, verb: verb,
		do: func(ctx context.Context) error { return send(ctx, key, body) },
		again: func() (func(context.Context) error, error) {
			if body.Reader == nil {
				return func(ctx context.Context) error { return send(ctx, key, body) }, nil
			}
			if _, err := body.Reader.Seek(0, io.SeekStart); err != nil {
				return nil, err
			}
			b, err := io.ReadAll(body.Reader)
			if err != nil {
				return nil, err
			}
			copied := storage.Bytes(b)
			copied.Size, copied.SHA256 = body.Size, body.SHA256
			return func(ctx context.Context) error { return send(ctx, key, copied) }, nil
		},
	})
}

// read carries an operation that returns something, which is dropped with an error.
func read[T any](ctx context.Context, t *through, verb, method, key string, get func(context.Context) (T, error), drop func(T)) (got T, err error) {
	var zero T
	done := false
	err = t.carry(ctx, &Call{Op: Op{Method: method, Key: key}, verb: verb, do: func(ctx context.Context) (err error) {
		got, err = get(ctx)
		done = err == nil
		return err
	}})
	if err != nil {
		if done && drop != nil {
			drop(got)
		}
		return zero, err
	}
	return got, nil
}

// Get implements storage.Bucket.
func (t *through) Get(ctx context.Context, key string) ([]byte, error) {
	return read(ctx, t, "get", http.MethodGet, key, func(ctx context.Context) ([]byte, error) { return t.next.Get(ctx, key) }, nil)
}

// GetRange implements storage.Bucket.
func (t *through) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return read(ctx, t, "get", http.MethodGet, key, func(ctx context.Context) ([]byte, error) { return t.next.GetRange(ctx, key, offset, length) }, nil)
}

type opened struct {
	io.ReadCloser
	size int64
}

// Open implements storage.Bucket.
func (t *through) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	o, err := read(ctx, t, "open", http.MethodGet, key, func(ctx context.Context) (o opened, err error) {
		o.ReadCloser, o.size, err = t.next.Open(ctx, key)
		return o, err
	}, func(o opened) { _ = o.Close() })
	return o.ReadCloser, o.size, err
}

// List implements storage.Bucket.
func (t *through) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	return read(ctx, t, "list", "LIST", q.Prefix, func(ctx context.Context) (storage.ListPage, error) { return t.next.List(ctx, q) }, nil)
}

// Delete implements storage.Bucket.
func (t *through) Delete(ctx context.Context, key string) error {
	return t.carry(ctx, &Call{
		Op: Op{Method: http.MethodDelete, Key: key}, verb: "delete", do: func(ctx context.Context) error { return t.next.Delete(ctx, key) },
	})
}
