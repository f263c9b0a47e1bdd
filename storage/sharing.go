package storage

import "time"

// Optional methods of a bucket. A decorator has an Unwrap method that returns the decorated bucket, so
// that it hides none of them.
type (
	exclusive interface{ Exclusive() bool }
	endpoint  interface{ Endpoint() string }
	clocked   interface{ ClockAhead() time.Duration }
	decorator interface{ Unwrap() Bucket }
)

// IsExclusive reports whether only this process can access the bucket, such as a locked folder. It
// calls the method Exclusive() bool; a bucket without it is shared.
func IsExclusive(b Bucket) bool {
	e, ok := find[exclusive](b)
	return ok && e.Exclusive()
}

// EndpointOf returns the name of the store of a bucket, for [EnsureProbed]. It calls the method
// Endpoint() string and returns "" if there is none.
func EndpointOf(b Bucket) string {
	if e, ok := find[endpoint](b); ok {
		return e.Endpoint()
	}
	return ""
}

// ClockAhead returns how far the local clock was ahead of the store's at its last answer. It calls the
// method ClockAhead() time.Duration and returns 0 if there is none.
func ClockAhead(b Bucket) time.Duration {
	if c, ok := find[clocked](b); ok {
		return c.ClockAhead()
	}
	return 0
}

// find returns the first T among b and the buckets that it decorates.
func find[T any](b Bucket) (t T, ok bool) {
	for b != nil {
		if t, ok = b.(T); ok {
			return t, true
		}
		d, _ := b.(decorator)
		if d == nil {
			break
		}
		b = d.Unwrap()
	}
	return t, false
}
