package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/parleyrun/parley/storage"
)

// Bucket is a storage.Bucket in an S3-compatible store.
type Bucket struct {
	core     *minio.Core
	endpoint string
	bucket   string
	prefix   string
	signed   bool // Requests are signed and therefore carry the digest of their body.
	create   minio.PutObjectOptions
	ahead    *atomic.Int64 // See ClockAhead.
	etags    etags
}

var _ storage.Bucket = (*Bucket)(nil)

// ClockAhead returns how far the local clock is ahead of the store's, as of the newest response, to
// about a second. It is 0 if unknown or if requests are not signed. Stores reject every request from
// 15 minutes on.
func (b *Bucket) ClockAhead() time.Duration { return time.Duration(b.ahead.Load()) }

// Endpoint returns the endpoint of the options.
func (b *Bucket) Endpoint() string { return b.endpoint }

// Create implements storage.Bucket. The response determines the result:
//
//	200 with an ETag and without a body  nil
//	412                                  ErrExists
//	409                                  ErrConflict
//	408, 425, 429, 499, 5xx, no answer   ErrUncertain
//	RequestTimeout, SlowDown, Throttling ErrUncertain, whatever the status
//	any other 2xx                        ErrUncertain, see storage.AnswerError
//	3xx, 4xx without an Error document   ErrUncertain, see storage.AnswerError
//	anything else                        ErrRefused
//
// An error status without a body counts as the store's own, but not a redirect. If the context ends
// before the request is sent, the error has no kind.
func (b *Bucket) Create(ctx context.Context, key string, body storage.Body) error {
	return b.write(ctx, storage.OpCreate, key, body, b.create)
}

// Put implements storage.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body storage.Body) error {
	return b.write(ctx, storage.OpPut, key, body, minio.PutObjectOptions{DisableContentSha256: true})
}

func (b *Bucket) write(ctx context.Context, op, key string, body storage.Body, opts minio.PutObjectOptions) error {
	if body.Size <= 0 || body.Reader == nil {
		return &storage.Error{Op: op, Key: key, Kind: storage.ErrRefused, Err: errors.New("body is empty")}
	}
	reader := body.Lend()
	defer reader.Release()
	var digest string
	if b.signed {
		digest = hex.EncodeToString(body.SHA256[:])
	}
	return b.one(ctx, op, key, func(c *call) error {
		_, err := b.core.PutObject(c, b.bucket, b.prefix+key, reader, body.Size, "", digest, opts)
		return c.unlessDone(err)
	})
}

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	return b.get(ctx, key, minio.GetObjectOptions{})
}

// GetRange implements storage.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	var opts minio.GetObjectOptions
	if offset < 0 || length <= 0 {
		return nil, &storage.Error{Op: storage.OpGet, Key: key, Kind: storage.ErrRefused, Err: fmt.Errorf("invalid range: %d bytes from offset %d", length, offset)}
	}
	if err := opts.SetRange(offset, offset+length-1); err != nil {
		return nil, &storage.Error{Op: storage.OpGet, Key: key, Kind: storage.ErrRefused, Err: err}
	}
	data, err := b.get(ctx, key, opts)
	if err == nil && int64(len(data)) != length {
		err = &storage.Error{Op: storage.OpGet, Key: key, Kind: storage.ErrRefused, Err: fmt.Errorf("object has %d of the %d bytes from %d on", len(data), length, offset)}
	}
	return data, err
}

func (b *Bucket) get(ctx context.Context, key string, opts minio.GetObjectOptions) ([]byte, error) {
	var data []byte
	err := b.one(ctx, storage.OpGet, key, func(c *call) error {
		r, info, _, err := b.core.GetObject(c, b.bucket, b.prefix+key, opts)
		if err != nil {
			return err
		}
		defer r.Close()
		if data, err = io.ReadAll(r); err == nil && info.Size >= 0 && int64(len(data)) != info.Size {
			err = fmt.Errorf("read %d of %d bytes: %w", len(data), info.Size, io.ErrUnexpectedEOF)
		}
		if sum := md5.Sum(data); err == nil && c.status == http.StatusOK && !b.etags.fit(c.header, sum[:]) {
			err = errETag(key, c.header)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Open implements storage.Bucket. ctx must stay valid until the reader is closed.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	call := b.newCall(ctx, storage.OpOpen)
	r, info, _, err := b.core.GetObject(call, b.bucket, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		call.end()
		return nil, 0, call.classify(storage.OpOpen, key, err)
	}
	return &objectReader{src: r, key: key, left: info.Size, md5: md5.New(), call: call}, info.Size, nil
}

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if q.Delimiter != "" && q.Delimiter != "/" || q.Limit < 0 || q.Limit > 1000 {
		return storage.ListPage{}, &storage.Error{Op: storage.OpList, Key: q.Prefix, Kind: storage.ErrRefused,
			Err: fmt.Errorf("unsupported delimiter %q or limit %d", q.Delimiter, q.Limit)}
	}
	after := q.After
	if after != "" {
		after = b.prefix + after
	}
	owner := false
	opts := minio.ListObjectsOptions{
		Prefix: b.prefix + q.Prefix, StartAfter: after, MaxKeys: q.Limit, Recursive: q.Delimiter == "", FetchOwner: &owner,
	}
	var page storage.ListPage
	err := b.one(ctx, storage.OpList, q.Prefix, func(c *call) error {
		for o := range b.core.ListObjectsIter(c, b.bucket, opts) {
			return o.Err // The page of the call is the only one.
		}
		page = c.page
		return c.Err()
	})
	if err != nil {
		return storage.ListPage{}, err
	}
	for i := range page.Keys {
		page.Keys[i].Key = page.Keys[i].Key[len(b.prefix):]
	}
	for i := range page.Prefixes {
		page.Prefixes[i] = page.Prefixes[i][len(b.prefix):]
	}
	return page, nil
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.one(ctx, storage.OpDelete, key, func(c *call) error {
		return c.unlessDone(b.core.RemoveObject(c, b.bucket, b.prefix+key, minio.RemoveObjectOptions{}))
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// unlessDone drops minio-go's error about an accepted write: minio-go expects one particular success
// status.
func (c *call) unlessDone(err error) error {
	if c.done {
		return nil
	}
	return err
}

// one performs do as one call and classifies its outcome.
func (b *Bucket) one(ctx context.Context, op, key string, do func(*call) error) error {
	call := b.newCall(ctx, op)
	defer call.end()
	if err := do(call); err != nil {
		return call.classify(op, key, err)
	}
	return nil
}
