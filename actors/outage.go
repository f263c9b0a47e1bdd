package actors

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/storage"
)

// outageSettle is how long requests must succeed before an outage of the bucket has ended.
const outageSettle = 3 * time.Second

// watchBucket returns a bucket that reports its requests to the outage detector. During an outage the
// node's log suppresses errors that it causes.
func watchBucket(b storage.Bucket, log *slog.Logger) storage.Bucket {
	lines := outage.Lines{Began: "bucket outage began", Continues: "bucket outage continues", Ended: "bucket outage ended"}
	return watchedBucket{b, outage.Watch(log, lines, outageSettle, fromOutage)}
}

// fromOutage reports whether an outage of the bucket may have caused an error: no answer, a passive
// node, or an unavailable owner without another reason.
func fromOutage(err error) bool {
	if unanswered(err) || errors.Is(err, errPassive) {
		return true
	}
	e, ok := errors.AsType[*conversation.Error](err)
	if !ok || e.Err != nil && !errors.Is(e.Err, context.DeadlineExceeded) {
		return false
	}
	return e.Code == conversation.CodeUnavailable || e.Code == conversation.CodeAdmissionUnknown || e.Code == conversation.CodeAbortUnknown
}

func unanswered(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrUncertain)
}

// watchedBucket reports the outcome of each request to the outage detector. A rejected request counts
// as neither failure nor success.
type watchedBucket struct {
	next   storage.Bucket
	outage *outage.Outage
}

// Unwrap returns the bucket whose requests are reported.
func (b watchedBucket) Unwrap() storage.Bucket { return b.next }

// report reports a request's outcome, unless its caller canceled it.
func (b watchedBucket) report(ctx context.Context, began time.Time, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case unanswered(err):
		b.outage.Failed(began)
	case err == nil, errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrConflict):
		b.outage.Succeeded()
	}
	return err
}

// Create implements storage.Bucket.
func (b watchedBucket) Create(ctx context.Context, key string, body storage.Body) error {
	began := time.Now()
	return b.report(ctx, began, b.next.Create(ctx, key, body))
}

// Put implements storage.Bucket.
func (b watchedBucket) Put(ctx context.Context, key string, body storage.Body) error {
	began := time.Now()
	return b.report(ctx, began, b.next.Put(ctx, key, body))
}

// Get implements storage.Bucket.
func (b watchedBucket) Get(ctx context.Context, key string) ([]byte, error) {
	began := time.Now()
	data, err := b.next.Get(ctx, key)
	return data, b.report(ctx, began, err)
}

// GetRange implements storage.Bucket.
func (b watchedBucket) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	began := time.Now()
	data, err := b.next.GetRange(ctx, key, offset, length)
	return data, b.report(ctx, began, err)
}

// Open implements storage.Bucket.
func (b watchedBucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	began := time.Now()
	r, size, err := b.next.Open(ctx, key)
	return r, size, b.report(ctx, began, err)
}

// List implements storage.Bucket.
func (b watchedBucket) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	began := time.Now()
	page, err := b.next.List(ctx, q)
	return page, b.report(ctx, began, err)
}

// Delete implements storage.Bucket.
func (b watchedBucket) Delete(ctx context.Context, key string) error {
	began := time.Now()
	return b.report(ctx, began, b.next.Delete(ctx, key))
}
