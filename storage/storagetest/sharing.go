package storagetest

import "github.com/parleyrun/parley/storage"

// Shared returns b as a bucket that other processes can reach, whatever b says: for nodes
// of one process that are to be members of it.
func Shared(b storage.Bucket) storage.Bucket { return said{b, false} }

// Exclusive returns b as a bucket that nobody else reaches: for a node that is to serve an
// endpoint without membership and probe.
func Exclusive(b storage.Bucket) storage.Bucket { return said{b, true} }

type said struct {
	storage.Bucket
	exclusive bool
}

// Unwrap returns the bucket of which something else is said.
func (s said) Unwrap() storage.Bucket { return s.Bucket }

// Exclusive is what is said.
func (s said) Exclusive() bool { return s.exclusive }
