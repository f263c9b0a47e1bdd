package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleyrun/parley/storage"
)

// Meter measures the requests to a bucket.
type Meter struct {
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// NewMeter returns an empty meter.
func NewMeter() *Meter {
	return &Meter{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_bucket_request_seconds",
			Help: "Time of requests to the bucket, by operation, class of object and outcome.",
			// From a folder on a fast disk to an endpoint that hangs.
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"op", "class", "outcome"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_bucket_requests_in_flight", Help: "Requests to the bucket in flight.",
		}),
	}
}

// Bucket returns b with measured requests.
func (m *Meter) Bucket(b storage.Bucket) storage.Bucket { return &metered{next: b, meter: m} }

// metered implements storage.Bucket.
type metered struct {
	next  storage.Bucket
	meter *Meter
}

// Unwrap returns the wrapped bucket.
func (b *metered) Unwrap() storage.Bucket { return b.next }

// measure runs one request.
func (m *Meter) measure(op, key string, send func() error) error {
	m.inFlight.Inc()
	begun := time.Now()
	err := send()
	took := time.Since(begun)
	m.inFlight.Dec()
	m.seconds.WithLabelValues(op, classOf(key), outcomeOf(err)).Observe(took.Seconds())
	return err
}

// Create implements storage.Bucket.
func (b *metered) Create(ctx context.Context, key string, body storage.Body) error {
	return b.meter.measure("create", key, func() error { return b.next.Create(ctx, key, body) })
}

// Put implements storage.Bucket.
func (b *metered) Put(ctx context.Context, key string, body storage.Body) error {
	return b.meter.measure("put", key, func() error { return b.next.Put(ctx, key, body) })
}

// Get implements storage.Bucket.
func (b *metered) Get(ctx context.Context, key string) (data []byte, err error) {
	err = b.meter.measure("get", key, func() error { data, err = b.next.Get(ctx, key); return err })
	return data, err
}

// GetRange implements storage.Bucket.
func (b *metered) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = b.meter.measure("get_range", key, func() error { data, err = b.next.GetRange(ctx, key, offset, length); return err })
	return data, err
}

// Open implements storage.Bucket.
func (b *metered) Open(ctx context.Context, key string) (r io.ReadCloser, size int64, err error) {
	err = b.meter.measure("open", key, func() error { r, size, err = b.next.Open(ctx, key); return err })
	return r, size, err
}

// List implements storage.Bucket.
func (b *metered) List(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	err = b.meter.measure("list", q.Prefix, func() error { page, err = b.next.List(ctx, q); return err })
	return page, err
}

// Delete implements storage.Bucket.
func (b *metered) Delete(ctx context.Context, key string) error {
	return b.meter.measure("delete", key, func() error { return b.next.Delete(ctx, key) })
}

// classOf returns the object kind of a key or prefix.
func classOf(key string) string {
	if kind := storage.KindOf(key); kind != "" {
		return string(kind)
	}
	return "other"
}

// outcomeOf returns the outcome label of a request.
func outcomeOf(err error) string {
	for _, o := range []struct {
		kind error
		name string
	}{
		{nil, "ok"},
		{storage.ErrExists, "exists"}, {storage.ErrNotFound, "not_found"}, {storage.ErrConflict, "conflict"},
		{storage.ErrUncertain, "uncertain"}, {storage.ErrRefused, "refused"}, {storage.ErrUnavailable, "unavailable"},
		{context.Canceled, "canceled"}, {context.DeadlineExceeded, "canceled"},
	} {
		if errors.Is(err, o.kind) {
			return o.name
		}
	}
	return "other"
}
