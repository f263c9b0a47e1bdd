package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
)

// Bucket is the one interface between Parley and an object store. Implementations are safe for
// concurrent use, send exactly one request per call and never retry. The caller handles unknown
// outcomes, because it knows which bytes may be sent again.
//
// No key may be another key followed by a slash and more, because stores over a file system cannot
// hold both. Every error is an [*Error]. LIST must return every object whose create was acknowledged
// before the LIST was sent.
type Bucket interface {
	// Create stores body under key if no object exists there. It returns ErrExists, ErrConflict,
	// ErrUncertain or ErrRefused otherwise. It does not read body after it returns.
	Create(ctx context.Context, key string, body Body) error
	// Put stores body under key and replaces an existing object. It is for hints only: no data that
	// must survive may depend on it. Its errors are those of Create without ErrExists.
	Put(ctx context.Context, key string, body Body) error
	// Get returns the whole object, or ErrNotFound, ErrUnavailable or ErrRefused. The caller owns the
	// slice.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange returns length bytes from offset on. length is positive, and the range lies within the
	// object. Its errors are those of Get.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// Open streams the object and returns its size in bytes. Its errors are those of Get. A Read of a
	// truncated download fails; it never returns io.EOF. The caller closes the reader.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// List returns one page of keys in lexicographic order, or ErrUnavailable or ErrRefused.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Delete removes the object. An absent object is a success. It returns ErrUncertain, ErrConflict
	// or ErrRefused otherwise.
	Delete(ctx context.Context, key string) error
}

// Body is the content of a write.
type Body struct {
	Reader io.ReadSeeker // Read from its start, whatever its position.
	Size   int64         // Bytes, more than 0: empty objects are rejected.
	SHA256 [32]byte      // Digest of the content; the store verifies it.
}

// Bytes returns a body that stores b. The caller must not change b while the body is in use. A body
// serves one call; b may serve many.
func Bytes(b []byte) Body {
	return Body{Reader: bytes.NewReader(b), Size: int64(len(b)), SHA256: sha256.Sum256(b)}
}

// ListQuery selects one page of a listing.
type ListQuery struct {
	Prefix    string // Only keys with this prefix.
	After     string // Only keys above this one; "" is from the start.
	Limit     int    // Maximum number of keys and prefixes, 1 to 1000; 0 is 1000.
	Delimiter string // "/" folds keys below a folder of Prefix into one entry of Prefixes; "" lists all.
}

// ListPage is one page of a listing.
type ListPage struct {
	Keys     []ListedKey // In lexicographic order.
	Prefixes []string    // Folders, each ending in the delimiter, in lexicographic order.
	More     bool        // More entries follow this page.
}

// ListedKey is one object in a listing.
type ListedKey struct {
	Key  string
	Size int64 // Bytes.
}

// listAll calls visit with each page of the keys under q.Prefix above q.After, in order, until visit
// returns an error. q.Limit is the page size; 0 is 1000.
func listAll(ctx context.Context, b Bucket, r *retry, q ListQuery, visit func(page []ListedKey) error) error {
	for {
		page, err := readRetried(ctx, r, func(ctx context.Context) (ListPage, error) { return b.List(ctx, q) })
		if err != nil {
			return err
		}
		if len(page.Keys) > 0 {
			if err := visit(page.Keys); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		if len(page.Keys) == 0 {
			return &Error{Op: "list", Key: q.Prefix, Kind: ErrUnavailable, Err: errors.New("empty page with more to come")}
		}
		q.After = page.Keys[len(page.Keys)-1].Key
	}
}
