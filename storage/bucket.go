package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
)

// Bucket is the one seam between Parley and an object store. Implementations
// are safe for concurrent use, send exactly one request per call and never
// retry: what an unknown outcome means is decided by the caller, who knows which
// bytes may be sent again.
//
// No key is another key followed by a slash and more, because stores over a file
// system cannot hold both. Every error is an [*Error]. LIST must show every create that was answered
// before it was sent.
type Bucket interface {
	// Create stores body under key if there is no object: ErrExists, ErrConflict,
	// ErrUncertain or ErrRefused otherwise. After it returns, body is not read.
	Create(ctx context.Context, key string, body Body) error
	// Put stores body under key, replacing what is there. It is for hints only:
	// nothing that must not be lost may rest on it. Errors are those of Create
	// but ErrExists.
	Put(ctx context.Context, key string, body Body) error
	// Get returns the whole object: ErrNotFound, ErrUnavailable or ErrRefused
	// otherwise. The caller owns the slice.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange returns length bytes of the object from an offset on, more than 0 and
	// all of them within it. Errors are those of Get.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// Open streams the object and returns its size in bytes. Errors are those of
	// Get; a Read that ends early fails, it never returns io.EOF. The caller closes.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// List returns one page of keys in lexicographic order: ErrUnavailable or
	// ErrRefused otherwise.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Delete removes the object. An absent one is a success. ErrUncertain,
	// ErrConflict or ErrRefused otherwise.
	Delete(ctx context.Context, key string) error
}

// Body is what a write stores.
type Body struct {
	Reader io.ReadSeeker // Read from its start, whatever its position is.
	Size   int64         // Bytes, more than 0: an empty object is refused.
	SHA256 [32]byte      // Digest of those bytes; the store verifies it.
}

// Bytes returns a body that stores b. The caller must not change b as long as the
// body is in use. A body serves one call; b may serve many.
func Bytes(b []byte) Body {
	return Body{Reader: bytes.NewReader(b), Size: int64(len(b)), SHA256: sha256.Sum256(b)}
}

// ListQuery selects one page of a listing.
type ListQuery struct {
	Prefix    string // Only keys with this prefix.
	After     string // Only keys above this one; "" is from the start.
	Limit     int    // Keys and prefixes at most, 1 to 1000; 0 is 1000.
	Delimiter string // "/" folds keys below a folder of Prefix into one entry of Prefixes; "" lists all.
}

// ListPage is one page of a listing.
type ListPage struct {
	Keys     []ListedKey // In lexicographic order.
	Prefixes []string    // Folders, each ending in the delimiter, in lexicographic order.
	More     bool        // There is more above the last entry of this page.
}

// ListedKey is one object of a listing.
type ListedKey struct {
	Key  string
	Size int64 // Bytes.
}

// listAll calls visit for every key under prefix above after, in order, page by
// page, until it returns an error. Limit is the page size, 0 is 1000.
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
