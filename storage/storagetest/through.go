package storagetest

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/parleyrun/parley/storage"
)

// Call is one operation on a bucket, on its way.
type Call struct {
	Op
	After  string // What a LIST starts after.
	Verb   string // Of storage.Error.
	Ranged bool   // It is a GetRange.

	do     func(context.Context) error
	got    []byte
	body   storage.Body                              // Of a PUT.
	copied []byte                                    // What is in it, once somebody asked.
	send   func(context.Context, storage.Body) error // It, with another body.
}

func newCall(method, verb, key string) *Call {
	return &Call{Op: Op{Method: method, Key: key}, Verb: verb}
}

// Do performs the operation.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx) }

// Got returns the bytes that a Get was answered with. The caller of the operation owns them.
func (c *Call) Got() []byte { return c.got }

// Body returns a copy of what a PUT is to store, nil for anything else. It is made once, and
// nobody may change it.
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

// Later returns what performs the operation again: a write also when its caller has left,
// with a copy of its body, anything else only while the caller waits.
func (c *Call) Later() (func(context.Context) error, error) {
	b, err := c.Body()
	if err != nil || b == nil {
		return c.do, err
	}
	copied := storage.Body{Reader: bytes.NewReader(b), Size: c.body.Size, SHA256: c.body.SHA256}
	return func(ctx context.Context) error { return c.send(ctx, copied) }, nil
}

// Unanswered is the error of an operation whose outcome nobody was told.
func (c *Call) Unanswered(err error) error { return c.Answered(0, "", err) }

// Answered is the error of an operation that was answered so, which does not tell its outcome.
func (c *Call) Answered(status int, code string, err error) error {
	kind := storage.ErrUnavailable
	if c.writes() {
		kind = storage.ErrUncertain
	}
	return &storage.Error{Op: c.Verb, Key: c.Key, Kind: kind, Status: status, Code: code, Err: err}
}

// Through returns b with every operation carried by a function, which calls Do or does
// not, and returns what its caller gets to know. What is over before it begins is left to b.
func Through(b storage.Bucket, carry func(context.Context, *Call) error) storage.Bucket {
	return ThroughAlways(b, func(ctx context.Context, c *Call) error {
		if ctx.Err() != nil {
			return c.Do(ctx)
		}
		return carry(ctx, c)
	})
}

// ThroughAlways is Through with a function that carries also what is over before it begins.
func ThroughAlways(b storage.Bucket, carry func(context.Context, *Call) error) storage.Bucket {
	return &through{b, carry}
}

type through struct {
	next  storage.Bucket
	carry func(context.Context, *Call) error
}

// Unwrap returns what the operations are carried to.
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

// read carries an operation that returns something.
func read[T any](ctx context.Context, t *through, c *Call, get func(context.Context) (T, error)) (got T, err error) {
	c.do = func(ctx context.Context) (err error) {
		got, err = get(ctx)
		c.got, _ = any(got).([]byte)
		return err
	}
	if err := t.carry(ctx, c); err != nil {
		if o, ok := any(got).(opened); ok && o.ReadCloser != nil {
			_ = o.Close() // Nobody gets it.
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
