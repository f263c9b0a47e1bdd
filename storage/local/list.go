package local

import (
	"cmp"
	"context"
	"strings"

	"github.com/parleyrun/parley/storage"
)

// maxListKeys is the maximum and default size of a page.
const maxListKeys = 1000

// List implements storage.Bucket. The scan skips the keys below a folder instead of visiting each.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if q.Delimiter != "" && q.Delimiter != "/" || q.Limit < 0 || q.Limit > maxListKeys {
		return storage.ListPage{}, errorOf(storage.OpList, q.Prefix, refused("unsupported delimiter %q or limit %d", q.Delimiter, q.Limit))
	}
	return perform(ctx, s, storage.OpList, q.Prefix, func() (storage.ListPage, error) { return s.list(ctx, q) }, nil)
}

func (s *Store) list(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	limit := cmp.Or(q.Limit, maxListKeys)
	from := q.Prefix
	if q.After >= q.Prefix && q.After != "" {
		from = q.After + "\x00"
	}
	err = s.engine.scan(ctx, from, afterPrefix(q.Prefix), func(key string, o object) (next string, more bool) {
		if len(page.Keys)+len(page.Prefixes) == limit {
			page.More = true
			return "", false
		}
		if folder := folderOf(key, q); folder != "" {
			page.Prefixes = append(page.Prefixes, folder)
			return afterPrefix(folder), true
		}
		page.Keys = append(page.Keys, storage.ListedKey{Key: key, Size: o.size})
		return "", true
	})
	return page, err
}

// folderOf returns the folder that a listing shows in place of key, "" if it shows the key.
func folderOf(key string, q storage.ListQuery) string {
	if q.Delimiter == "" {
		return ""
	}
	i := strings.IndexByte(key[len(q.Prefix):], '/')
	if i < 0 {
		return ""
	}
	return key[:len(q.Prefix)+i+1]
}

// afterPrefix returns the smallest string greater than all that start with prefix, or "" if there is
// none.
func afterPrefix(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
