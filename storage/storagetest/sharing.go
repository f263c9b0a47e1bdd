package storagetest

import "github.com/parleyrun/parley/storage"

// Shared returns b marked as shared with other processes, for nodes of one process that are members of
// one bucket.
func Shared(b storage.Bucket) storage.Bucket { return marked{b, false} }

// Exclusive returns b marked as exclusive, for a node that serves an endpoint without membership and
// probe.
func Exclusive(b storage.Bucket) storage.Bucket { return marked{b, true} }

type marked struct {
	storage.Bucket
	exclusive bool
}

// Unwrap returns the marked bucket.
func (s marked) Unwrap() storage.Bucket { return s.Bucket }

// Exclusive returns the mark.
func (s marked) Exclusive() bool { return s.exclusive }
