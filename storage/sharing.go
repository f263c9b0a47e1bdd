package storage

import "time"

// What a bucket may tell of itself beside what the seam asks for. A decorator has an
// Unwrap method that returns what it stands before, so that it hides none of it.
type (
	exclusive interface{ Exclusive() bool }
	endpoint  interface{ Endpoint() string }
	clocked   interface{ ClockAhead() time.Duration }
	decorator interface{ Unwrap() Bucket }
)

// IsExclusive reports whether only this process can reach the bucket, such as a folder
// under a lock: it says so by a method Exclusive() bool. One that does not say is shared.
func IsExclusive(b Bucket) bool {
	e, ok := find[exclusive](b)
	return ok && e.Exclusive()
}

// EndpointOf names the store of a bucket, for [EnsureProbed]: what its method
// Endpoint() string returns, "" if it has none.
func EndpointOf(b Bucket) string {
	if e, ok := find[endpoint](b); ok {
		return e.Endpoint()
	}
	return ""
}

// ClockAhead returns how far this machine's clock was ahead of the store's at its last
// answer: what the bucket's method ClockAhead() time.Duration returns, 0 if it has none.
func ClockAhead(b Bucket) time.Duration {
	if c, ok := find[clocked](b); ok {
		return c.ClockAhead()
	}
	return 0
}

// find returns the first T among b and what it stands before.
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
