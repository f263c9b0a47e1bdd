package local_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// listAll reads all pages of a listing.
func listAll(t *testing.T, s *local.Store, q storage.ListQuery) (keys, prefixes []string) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Keys) + len(page.Prefixes); q.Limit > 0 && (n > q.Limit || page.More && n != q.Limit) {
			t.Fatalf("page of %d has %d entries, more %v", q.Limit, n, page.More)
		}
		for _, k := range page.Keys {
			keys = append(keys, k.Key)
			q.After = k.Key
		}
		for _, p := range page.Prefixes {
			prefixes = append(prefixes, p)
			q.After = max(q.After, p+"\U0010FFFF") // Skip the keys of the folder.
		}
		if !page.More {
			return keys, prefixes
		}
	}
}

func TestList(t *testing.T) {
	all := []string{"a/1", "a/2", "a/3/x", "a/3/y", "a b/1", "a+b/1", "b", "b/<&>\"'/1", "c/\u00e4\n/1", "c/\U0001F600", "d//x", "d/./y"}
	slices.Sort(all)
	tests := []struct {
		prefix, after, delimiter string
		keys, prefixes           []string
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
		for i, key := range all {
			mustPut(t, s, key, pattern(i+1, 1))
		}
		mustPut(t, s, "a/0", []byte("x"))
		mustDelete(t, s, "a/0")
		for _, tt := range tests {
			for _, page := range []int{1, 2, 3, 1000} {
				q := storage.ListQuery{Prefix: tt.prefix, After: tt.after, Delimiter: tt.delimiter, Limit: page}
				keys, prefixes := listAll(t, s, q)
				if diff := cmp.Diff(tt.keys, keys); diff != "" {
					t.Errorf("%+v: keys %s", q, diff)
				}
				if diff := cmp.Diff(tt.prefixes, prefixes); diff != "" {
					t.Errorf("%+v: prefixes %s", q, diff)
				}
			}
		}
		page, err := s.List(t.Context(), storage.ListQuery{Prefix: "a/2"})
		if err != nil || len(page.Keys) != 1 || page.Keys[0].Size != int64(slices.Index(all, "a/2")+1) {
			t.Errorf("list: %+v, %v", page, err)
		}
	})
}

func TestListManyPages(t *testing.T) {
	const n = 2345
	onBoth(t, func(t *testing.T, s *local.Store) {
		var want []string
		for i := range n {
			// Not in key order.
			mustPut(t, s, fmt.Sprintf("log/%016d", i*1009%n), []byte("x"))
			want = append(want, fmt.Sprintf("log/%016d", i))
		}
		page, err := s.List(t.Context(), storage.ListQuery{})
		if err != nil || len(page.Keys) != 1000 || !page.More {
			t.Errorf("a page without a limit: %d keys, %v", len(page.Keys), err)
		}
		keys, _ := listAll(t, s, storage.ListQuery{Prefix: "log/"})
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Error(diff)
		}
		for i := range n {
			if i%2 == 0 {
				mustDelete(t, s, want[i])
			}
		}
		keys, _ = listAll(t, s, storage.ListQuery{Prefix: "log/", After: want[n-6]})
		if diff := cmp.Diff([]string{want[n-4], want[n-2]}, keys); diff != "" {
			t.Error(diff)
		}
		if keys, _ = listAll(t, s, storage.ListQuery{}); len(keys) != n/2 {
			t.Errorf("%d keys after deleting, want %d", len(keys), n/2)
		}
	})
}
