package storagetest

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/parleyrun/parley/storage"
)

// Call is one operation on a bucket in progress.
type Call struct {
	Op
	After  string // Start position of a LIST.
	Verb   string // Of storage.Error.
	Ranged bool   // Set for a GetRange.

	do     func(context.Context) error
	got    []byte
	body   storage.Body                              // Body of a PUT.
	copied []byte                                    // Its content, once requested.
	send   func(context.Context, storage.Body) error // The operation with another body.
}

func newCall(method, verb, key string) *Call {
	return &Call{Op: Op{Method: method, Key: key}, Verb: verb}
}

// Do performs the operation.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx) }

// Got returns the result of a Get. The caller of the operation owns it.
func (c *Call) Got() []byte { return c.got }

// Body returns a copy of the body of a PUT, nil for other operations. It is made once and must not be
// changed.
func (c *Call) Body() (_ []byte, err error) {
	if c.body.Reader == nil || c.copied != nil {
		return c.copied, nil
	}
	if _, err := c.body.Reader.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	c.copied, err = io.ReadAll(c.body.Reader)
	return c.copied, err
}

// Later returns a function that performs the operation again. A write uses a copy of its body and
// works after the caller has left; other operations need a waiting caller.
func (c *Call) Later() (func(context.Context) error, error) {
	b, err := c.Body()
	if err != nil || b == nil {
		return c.do, err
	}
	copied := storage.Body{Reader: bytes.NewReader(b), Size: c.body.Size, SHA256: c.body.SHA256}
	return func(ctx context.Context) error { return c.send(ctx, copied) }, nil
}

// Unanswered returns the error of an operation with an unknown outcome.
func (c *Call) Unanswered(err error) error { return c.Answered(0, "", err) }

// Answered returns the error of an operation whose response leaves the outcome unknown.
func (c *Call) Answered(status int, code string, err error) error {
	kind := storage.ErrUnavailable
	if c.writes() {
		kind = storage.ErrUncertain
	}
	return &storage.Error{Op: c.Verb, Key: c.Key, Kind: kind, Status: status, Code: code, Err: err}
}

// Through returns b with every operation passed to carry. carry may call Do and returns the error for
// the caller. An operation whose context has already ended goes to b directly.
func Through(b storage.Bucket, carry func(context.Context, *Call) error) storage.Bucket {
	return ThroughAlways(b, func(ctx context.Context, c *Call) error {
		if ctx.Err() != nil {
			return c.Do(ctx)
		}
		return carry(ctx, c)
	})
}

// ThroughAlways is Through that also passes operations whose context has already ended.
func ThroughAlways(b storage.Bucket, carry func(context.Context, *Call) error) storage.Bucket {
	return &through{b, carry}
}

type through struct {
	next  storage.Bucket
	carry func(context.Context, *Call) error
}

// Unwrap returns the underlying bucket.
func (t *through) Unwrap() storage.Bucket { return t.next }

// Create implements storage.Bucket.
func (t *through) Create(ctx context.Context, key string, body storage.Body) error {
	return t.write(ctx, storage.OpCreate, key, body, t.next.Create)
}

// Put implements storage.Bucket.
func (t *through) Put(ctx context.Context, key string, body storage.Body) error {
	return t.write(ctx, storage.OpPut, key, body, t.next.Put)
}

func (t *through) write(ctx context.Context, verb, key string, body storage.Body, send func(context.Context, string, storage.Body) error) error {
	c := newCall(http.MethodPut, verb, key)
	c.body, c.send = body, func(ctx context.Context, body storage.Body) error { return send(ctx, key, body) }
	c.do = func(ctx context.Context) error { return send(ctx, key, body) }
	return t.carry(ctx, c)
}

// Delete implements storage.Bucket.
func (t *through) Delete(ctx context.Context, key string) error {
	c := newCall(http.MethodDelete, storage.OpDelete, key)
	c.do = func(ctx context.Context) error { return t.next.Delete(ctx, key) }
	return t.carry(ctx, c)
}

// read passes an operation with a result to carry.
func read[T any](ctx context.Context, t *through, c *Call, get func(context.Context) (T, error)) (got T, err error) {
	c.do = func(ctx context.Context) (err error) {
		got, err = get(ctx)
		c.got, _ = any(got).([]byte)
		return err
	}
	if err := t.carry(ctx, c); err != nil {
		if o, ok := any(got).(opened); ok && o.ReadCloser != nil {
			_ = o.Close() // The caller does not get it.
		}
		return *new(T), err
	}
	return got, nil
}

// Get implements storage.Bucket.
func (t *through) Get(ctx context.Context, key string) ([]byte, error) {
	return read(ctx, t, newCall(http.MethodGet, storage.OpGet, key), func(ctx context.Context) ([]byte, error) { return t.next.Get(ctx, key) })
}

// GetRange implements storage.Bucket.
func (t *through) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	c := newCall(http.MethodGet, storage.OpGet, key)
	c.Ranged = true
	return read(ctx, t, c, func(ctx context.Context) ([]byte, error) { return t.next.GetRange(ctx, key, offset, length) })
}

type opened struct {
	io.ReadCloser
	size int64
}

// Open implements storage.Bucket.
func (t *through) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	o, err := read(ctx, t, newCall(http.MethodGet, storage.OpOpen, key), func(ctx context.Context) (o opened, err error) {
		o.ReadCloser, o.size, err = t.next.Open(ctx, key)
		return o, err
	})
	return o.ReadCloser, o.size, err
}

// List implements storage.Bucket.
func (t *through) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	c := newCall("LIST", storage.OpList, q.Prefix)
	c.After = q.After
	return read(ctx, t, c, func(ctx context.Context) (storage.ListPage, error) { return t.next.List(ctx, q) })
}
