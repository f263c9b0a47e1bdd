package local_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage/local"
)

// listAll follows a listing to its end in pages of the given size.
func listAll(t *testing.T, b *bucket, prefix, startAfter, delimiter string, page int) (keys, prefixes []string, pages int) {
	t.Helper()
	for token := ""; ; {
		r, err := b.core.ListObjectsV2(local.Bucket, prefix, startAfter, token, delimiter, page)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if n := len(r.Contents) + len(r.CommonPrefixes); n > page || r.IsTruncated && n != page {
			t.Fatalf("page of %d has %d entries, truncated %v", page, n, r.IsTruncated)
		}
		for _, o := range r.Contents {
			keys = append(keys, o.Key)
		}
		for _, p := range r.CommonPrefixes {
			prefixes = append(prefixes, p.Prefix)
		}
		if !r.IsTruncated {
			return keys, prefixes, pages
		}
		token = r.NextContinuationToken
	}
}

func TestList(t *testing.T) {
	all := []string{"a/1", "a/2", "a/3/x", "a/3/y", "a b/1", "a+b/1", "b", "b/<&>\"'/1", "c/\u00e4\n/1", "c/\U0001F600", "d//x", "d/./y"}
	slices.Sort(all)
	tests := []struct {
		prefix, startAfter, delimiter string
		keys, prefixes                []string
	}{
		{"", "", "", all, nil},
		{"a/", "", "", []string{"a/1", "a/2", "a/3/x", "a/3/y"}, nil},
		{"a/", "a/1", "", []string{"a/2", "a/3/x", "a/3/y"}, nil},
		{"a/", "a/10", "", []string{"a/2", "a/3/x", "a/3/y"}, nil},
		{"a/", "a/3/y", "", nil, nil},
		{"a/", "z", "", nil, nil},
		{"a/", "", "/", []string{"a/1", "a/2"}, []string{"a/3/"}},
		{"a/3", "", "/", nil, []string{"a/3/"}},
		{"a/", "a/2", "/", nil, []string{"a/3/"}},
		{"", "", "/", []string{"b"}, []string{"a b/", "a+b/", "a/", "b/", "c/", "d/"}},
		{"", "b", "/", nil, []string{"b/", "c/", "d/"}},
		{"c/", "", "/", []string{"c/\U0001F600"}, []string{"c/\u00e4\n/"}},
		{"d/", "", "/", nil, []string{"d/./", "d//"}},
		{"none", "", "/", nil, nil},
	}
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		for i, key := range all {
			b.mustPut(key, pattern(i+1, 1))
		}
		b.mustPut("a/0", nil)
		b.remove("a/0")
		for _, tt := range tests {
			for _, page := range []int{1, 2, 3, 1000} {
				keys, prefixes, _ := listAll(t, b, tt.prefix, tt.startAfter, tt.delimiter, page)
				if diff := cmp.Diff(tt.keys, keys); diff != "" {
					t.Errorf("%q after %q by %q in pages of %d: keys %s", tt.prefix, tt.startAfter, tt.delimiter, page, diff)
				}
				if diff := cmp.Diff(tt.prefixes, prefixes); diff != "" {
					t.Errorf("%q after %q by %q in pages of %d: prefixes %s", tt.prefix, tt.startAfter, tt.delimiter, page, diff)
				}
			}
		}
		checkEntry(t, b)
	})
}

func checkEntry(t *testing.T, b *bucket) {
	t.Helper()
	b.mustPut("entry", []byte("x"))
	r, err := b.core.ListObjectsV2(local.Bucket, "entry", "", "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Contents) != 1 || r.MaxKeys != 1000 || r.Name != local.Bucket {
		t.Fatalf("list: %+v", r)
	}
	o := r.Contents[0]
	if o.Size != 1 || o.ETag != "9dd4e461268c8034f5c8564e155c67a6" && o.ETag != `"9dd4e461268c8034f5c8564e155c67a6"` || o.LastModified.IsZero() {
		t.Errorf("entry: %+v", o)
	}
}

func TestListManyPages(t *testing.T) {
	const n = 2345
	onBoth(t, func(t *testing.T, s *local.Store) {
		b := client(t, s)
		var want []string
		for i := range n {
			// Written out of order.
			b.mustPut(fmt.Sprintf("log/%016d", i*1009%n), []byte("x"))
			want = append(want, fmt.Sprintf("log/%016d", i))
		}
		keys, _, pages := listAll(t, b, "log/", "", "", 1000)
		if diff := cmp.Diff(want, keys); diff != "" || pages != 3 {
			t.Errorf("%d pages: %s", pages, diff)
		}
		for i := range n {
			if i%2 == 0 {
				b.remove(want[i])
			}
		}
		keys, _, _ = listAll(t, b, "log/", want[n-6], "", 1000)
		if diff := cmp.Diff([]string{want[n-4], want[n-2]}, keys); n%2 == 1 && diff != "" {
			t.Error(diff)
		}
		keys, _, _ = listAll(t, b, "", "", "", 1000)
		if len(keys) != n/2 {
			t.Errorf("%d keys after deleting, want %d", len(keys), n/2)
		}
		r, err := b.core.ListObjectsV2(local.Bucket, "log/", "", "", "", 5000)
		if err != nil || len(r.Contents) != 1000 || !r.IsTruncated {
			t.Errorf("a page above the limit: %d keys, %v", len(r.Contents), err)
		}
	})
}
