package local

import (
	"context"
	"time"
)

// object is one version of an object in an engine.
type object struct {
	modified time.Time // whole milliseconds
	size     int64     // bytes
	// inline holds the bytes if file is empty. It is immutable.
	inline []byte
	// file names the file of a large object.
	file string
}

// engine is an ordered map from keys to objects. Its methods are safe for concurrent use.
//
//  1. put and remove return nil only when the change is durable.
//  2. get and scan never show a change that is not durable yet.
//  3. An error of put or remove other than *FatalError means that nothing was changed.
type engine interface {
	// get returns the object under key or errNoKey.
	get(ctx context.Context, key string) (object, error)
	// put stores o under key. With create it returns errExists if an object exists. It returns the
	// file of the replaced object, if any.
	put(ctx context.Context, key string, o object, create bool) (replaced string, err error)
	// remove deletes key and returns the file of its object, if any. A missing key is not an error.
	remove(ctx context.Context, key string) (removed string, err error)
	// scan visits the keys from <= key < end in order; an empty end is no bound. Objects have no
	// inline bytes. The visitor may skip to a later key or stop.
	scan(ctx context.Context, from, end string, visit visitor) error
	// close ends the engine. No other method may run concurrently or afterwards.
	close() error
}

// visitor is called for each key of a scan. If more is false the scan stops. If next is not empty, the
// scan continues at the first key >= next.
type visitor func(key string, o object) (next string, more bool)
