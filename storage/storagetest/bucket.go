package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
)

// RunBucket checks every rule of storage.Bucket. newBucket returns an empty
// bucket for one subtest and cleans up by t.Cleanup.
func RunBucket(t *testing.T, newBucket func(t *testing.T) storage.Bucket) {
	rules := []struct {
		name  string
		check func(*testing.T, storage.Bucket)
	}{
		{"create stores the bytes", createStores},
		{"create of an existing key changes nothing", createExists},
		{"of concurrent creates exactly one wins", createRace},
		{"create after delete is free again", createAfterDelete},
		{"an empty body is refused", emptyBody},
		{"a body with another digest is refused", wrongDigest},
		{"a body is read from its start", bodyFromStart},
		{"a body above the multipart threshold is conditional too", largeBody},
		{"put replaces", putReplaces},
		{"an absent object is not found", absent},
		{"open streams the whole object", openStreams},
		{"a range is those bytes of the object", ranges},
		{"keys are any printable text", oddKeys},
		{"list is ordered and starts after", listOrder},
		{"list pages are complete and end", listPages},
		{"list folds folders", listFolders},
		{"list shows what was created before", listAfterCreate},
		{"delete is idempotent", deleteTwice},
		{"an ended context sends nothing", endedContext},
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.check(t, newBucket(t)) })
	}
}

func createStores(t *testing.T, b storage.Bucket) {
	create(t, b, "a/b", "content")
	wantContent(t, b, "a/b", "content")
}

func createExists(t *testing.T, b storage.Bucket) {
	create(t, b, "k", "first")
	err := b.Create(t.Context(), "k", storage.Bytes([]byte("second")))
	wantKind(t, err, storage.ErrExists)
	var e *storage.Error
	if !errors.As(err, &e) || e.Op != "create" || e.Key != "k" {
		t.Errorf("error is %#v, want an *Error with operation and key", err)
	}
	wantContent(t, b, "k", "first")
}

func createRace(t *testing.T, b storage.Bucket) {
	for round := range 20 {
		key := fmt.Sprintf("race/%d", round)
		const writers = 8
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for i := range writers {
			wg.Go(func() {
				errs[i] = b.Create(t.Context(), key, storage.Bytes([]byte{byte('a' + i)}))
			})
		}
		wg.Wait()
		won := ""
		for i, err := range errs {
			switch {
			case err == nil:
				won += string(rune('a' + i))
			case !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict):
				t.Fatalf("create: %v", err)
			}
		}
		if len(won) != 1 {
			t.Fatalf("round %d: winners %q, want exactly one", round, won)
		}
		wantContent(t, b, key, won)
	}
}

func createAfterDelete(t *testing.T, b storage.Bucket) {
	create(t, b, "k", "first")
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	create(t, b, "k", "second")
	wantContent(t, b, "k", "second")
}

func emptyBody(t *testing.T, b storage.Bucket) {
	wantKind(t, b.Create(t.Context(), "k", storage.Bytes(nil)), storage.ErrRefused)
	wantKind(t, b.Put(t.Context(), "k", storage.Body{}), storage.ErrRefused)
	_, err := b.Get(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
}

func wrongDigest(t *testing.T, b storage.Bucket) {
	body := storage.Bytes([]byte("content"))
	body.SHA256[0] ^= 1
	wantKind(t, b.Create(t.Context(), "k", body), storage.ErrRefused)
	_, err := b.Get(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
}

func bodyFromStart(t *testing.T, b storage.Bucket) {
	body := storage.Bytes([]byte("content"))
	if _, err := body.Reader.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), "k", body); err != nil {
		t.Fatal(err)
	}
	wantContent(t, b, "k", "content")
}

func largeBody(t *testing.T, b storage.Bucket) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 17<<20/16)
	if err := b.Create(t.Context(), "k", storage.Bytes(large)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, b.Create(t.Context(), "k", storage.Bytes(large)), storage.ErrExists)
	got, err := b.Get(t.Context(), "k")
	if err != nil || !bytes.Equal(got, large) {
		t.Fatalf("get: %d bytes, %v; want %d bytes", len(got), err, len(large))
	}
}

func putReplaces(t *testing.T, b storage.Bucket) {
	for _, s := range []string{"first", "second"} {
		if err := b.Put(t.Context(), "k", storage.Bytes([]byte(s))); err != nil {
			t.Fatal(err)
		}
		wantContent(t, b, "k", s)
	}
}

func absent(t *testing.T, b storage.Bucket) {
	_, err := b.Get(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
	_, _, err = b.Open(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
}

func openStreams(t *testing.T, b storage.Bucket) {
	content := strings.Repeat("line of text\n", 50_000)
	create(t, b, "k", content)
	r, size, err := b.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if size != int64(len(content)) {
		t.Errorf("size is %d, want %d", size, len(content))
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != content {
		t.Errorf("read: %d bytes, %v; want %d bytes", len(got), err, len(content))
	}
}

func ranges(t *testing.T, b storage.Bucket) {
	create(t, b, "k", "0123456789")
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{
		{0, 1, "0"}, {0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"},
	} {
		if got, err := b.GetRange(t.Context(), "k", tt.offset, tt.length); err != nil || string(got) != tt.want {
			t.Errorf("%d bytes from %d on: %q, %v; want %q", tt.length, tt.offset, got, err, tt.want)
		}
	}
	for _, outside := range [][2]int64{{5, 6}, {10, 1}, {20, 5}, {0, 0}, {-1, 2}} {
		_, err := b.GetRange(t.Context(), "k", outside[0], outside[1])
		wantKind(t, err, storage.ErrRefused)
	}
	long := strings.Repeat("0123456789", 30_000) // A file of its own in the embedded bucket.
	create(t, b, "long", long)
	for _, at := range []int64{0, 123_456, int64(len(long)) - 7} {
		if got, err := b.GetRange(t.Context(), "long", at, 7); err != nil || string(got) != long[at:at+7] {
			t.Errorf("7 bytes from %d on of a long object: %q, %v; want %q", at, got, err, long[at:at+7])
		}
	}
	_, err := b.GetRange(t.Context(), "long", int64(len(long))-6, 7)
	wantKind(t, err, storage.ErrRefused)
	_, err = b.GetRange(t.Context(), "none", 0, 1)
	wantKind(t, err, storage.ErrNotFound)
}

func oddKeys(t *testing.T, b storage.Bucket) {
	keys := []string{"a b+c%d", "ä/&<>\"'", "x=1?y=2#z", "~!$()*,;:@"}
	for _, k := range keys {
		create(t, b, k, k)
		wantContent(t, b, k, k)
	}
	if diff := cmp.Diff([]string{"a b+c%d", "x=1?y=2#z", "~!$()*,;:@", "ä/&<>\"'"}, listKeys(t, b, storage.ListQuery{})); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func listOrder(t *testing.T, b storage.Bucket) {
	for _, k := range []string{"p/10", "p/2", "p/1", "q/1", "o/9", "p-x"} {
		create(t, b, k, k)
	}
	for _, tt := range []struct {
		q    storage.ListQuery
		want []string
	}{
		{storage.ListQuery{Prefix: "p/"}, []string{"p/1", "p/10", "p/2"}},
		{storage.ListQuery{Prefix: "p/", After: "p/1"}, []string{"p/10", "p/2"}},
		{storage.ListQuery{Prefix: "p/", After: "p/11"}, []string{"p/2"}},
		{storage.ListQuery{Prefix: "p/", After: "p/2"}, nil},
		{storage.ListQuery{Prefix: "p/", After: "a"}, []string{"p/1", "p/10", "p/2"}},
		{storage.ListQuery{}, []string{"o/9", "p-x", "p/1", "p/10", "p/2", "q/1"}},
		{storage.ListQuery{Prefix: "none/"}, nil},
	} {
		if diff := cmp.Diff(tt.want, listKeys(t, b, tt.q)); diff != "" {
			t.Errorf("list %+v (-want +got):\n%s", tt.q, diff)
		}
	}
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: "p/", Limit: 2})
	want := storage.ListPage{Keys: []storage.ListedKey{{Key: "p/1", Size: 3}, {Key: "p/10", Size: 4}}, More: true}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("list of 2: %v (-want +got):\n%s", err, diff)
	}
}

func listPages(t *testing.T, b storage.Bucket) {
	var want []string
	for i := range 23 {
		k := fmt.Sprintf("p/%016d", i)
		want = append(want, k)
		create(t, b, k, "x")
	}
	for _, limit := range []int{1, 5, 22, 23, 24, 1000} {
		if diff := cmp.Diff(want, listKeys(t, b, storage.ListQuery{Prefix: "p/", Limit: limit})); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: "p/", Limit: 23})
	if err != nil || page.More || len(page.Keys) != 23 {
		t.Errorf("page of exactly all: %d keys, more %v, %v", len(page.Keys), page.More, err)
	}
}

func listFolders(t *testing.T, b storage.Bucket) {
	for _, k := range []string{"p/a/1", "p/a/2", "p/b/1", "p/c", "q/1"} {
		create(t, b, k, "x")
	}
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: "p/", Delimiter: "/"})
	want := storage.ListPage{Keys: []storage.ListedKey{{Key: "p/c", Size: 1}}, Prefixes: []string{"p/a/", "p/b/"}}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	// Behind a folder, the next page begins after what follows its name.
	for _, tt := range []struct {
		after string
		want  storage.ListPage
	}{
		{"", storage.ListPage{Prefixes: []string{"p/a/"}, More: true}},
		{"p/a0", storage.ListPage{Prefixes: []string{"p/b/"}, More: true}},
		{"p/b0", storage.ListPage{Keys: []storage.ListedKey{{Key: "p/c", Size: 1}}}},
		{"p/c", storage.ListPage{}},
	} {
		page, err := b.List(t.Context(), storage.ListQuery{Prefix: "p/", Delimiter: "/", After: tt.after, Limit: 1})
		if diff := cmp.Diff(tt.want, page); err != nil || diff != "" {
			t.Errorf("a page of 1 after %q: %v (-want +got):\n%s", tt.after, err, diff)
		}
	}
	_, err = b.List(t.Context(), storage.ListQuery{Delimiter: "-"})
	wantKind(t, err, storage.ErrRefused)
}

func listAfterCreate(t *testing.T, b storage.Bucket) {
	for i := range 50 {
		k := fmt.Sprintf("p/%016d", i)
		create(t, b, k, "x")
		got := listKeys(t, b, storage.ListQuery{Prefix: "p/", After: fmt.Sprintf("p/%016d", i-1)})
		if i > 0 && (len(got) != 1 || got[0] != k) {
			t.Fatalf("list after create of %s: %q", k, got)
		}
	}
}

func deleteTwice(t *testing.T, b storage.Bucket) {
	create(t, b, "k", "x")
	create(t, b, "k2", "y")
	for range 2 {
		if err := b.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Get(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
	wantContent(t, b, "k2", "y")
}

func endedContext(t *testing.T, b storage.Bucket) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, send := range map[string]func() error{
		"create": func() error { return b.Create(ctx, "k", storage.Bytes([]byte("x"))) },
		"put":    func() error { return b.Put(ctx, "k", storage.Bytes([]byte("x"))) },
		"get":    func() error { _, err := b.Get(ctx, "k"); return err },
		"range":  func() error { _, err := b.GetRange(ctx, "k", 0, 1); return err },
		"open":   func() error { _, _, err := b.Open(ctx, "k"); return err },
		"list":   func() error { _, err := b.List(ctx, storage.ListQuery{}); return err },
		"delete": func() error { return b.Delete(ctx, "k") },
	} {
		var e *storage.Error
		if err := send(); !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Kind != nil {
			t.Errorf("%s: %#v, want context.Canceled without a kind", name, err)
		}
	}
	_, err := b.Get(t.Context(), "k")
	wantKind(t, err, storage.ErrNotFound)
}

func create(t *testing.T, b storage.Bucket, key, content string) {
	t.Helper()
	if err := b.Create(t.Context(), key, storage.Bytes([]byte(content))); err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, b storage.Bucket, key, want string) {
	t.Helper()
	if got, err := b.Get(t.Context(), key); err != nil || string(got) != want {
		t.Fatalf("get %s: %q, %v; want %q", key, got, err, want)
	}
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	var e *storage.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Errorf("got %v, want an *Error of kind %v", err, kind)
	}
}

// listKeys follows the pages of a listing.
func listKeys(t *testing.T, b storage.Bucket, q storage.ListQuery) []string {
	t.Helper()
	var keys []string
	for {
		page, err := b.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page.Keys {
			keys = append(keys, k.Key)
		}
		if !page.More || len(page.Keys) == 0 {
			return keys
		}
		q.After = page.Keys[len(page.Keys)-1].Key
	}
}
