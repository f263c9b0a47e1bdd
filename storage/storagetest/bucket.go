package storagetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage"
)

// RunBucket checks every rule of storage.Bucket. newBucket returns an empty bucket for one subtest and
// registers its cleanup with t.Cleanup.
func RunBucket(t *testing.T, newBucket func(t *testing.T) storage.Bucket) {
	for _, r := range []struct {
		name  string
		steps string // See perform.
		check func(*testing.T, storage.Bucket)
	}{
		{"create stores the bytes", "create a/b content; get a/b -> content", nil},
		{"create of an existing key changes nothing", "create k first; create k second -> object exists; get k -> first", nil},
		{"of concurrent creates exactly one wins", "", createRace},
		{"create after delete is free again", "create k first; delete k; create k second; get k -> second", nil},
		{"an empty body is refused", "create k -> request refused; put k -> request refused; get k -> object not found", noBody},
		{"a body with another digest is refused", "", wrongDigest},
		{"a body is read from its start", "", bodyFromStart},
		{"a body above the multipart threshold is conditional too", "", largeBody},
		{"put replaces", "put k first; get k -> first; put k second; get k -> second", nil},
		{"an absent object is not found", "get k -> object not found; open k -> object not found; range k 0 1 -> object not found", nil},
		{"open streams the whole object", "", openStreams},
		{"a range is those bytes of the object", `create k 0123456789;
			range k 0 1 -> 0; range k 0 10 -> 0123456789; range k 3 4 -> 3456; range k 9 1 -> 9;
			range k 5 6 -> request refused; range k 10 1 -> request refused; range k 20 5 -> request refused;
			range k 0 0 -> request refused; range k -1 2 -> request refused`, longRanges},
		{"keys are any printable text", "", oddKeys},
		{"list is ordered and starts after", `
			create p/10 22; create p/2 1; create p/1 1; create q/1 1; create o/9 1; create p-x 1;
			list {"prefix":"p/"} -> p/1=1 p/10=2 p/2=1; list {"prefix":"p/","after":"p/1"} -> p/10=2 p/2=1;
			list {"prefix":"p/","after":"p/11"} -> p/2=1; list {"prefix":"p/","after":"p/2"}; list {"prefix":"p/","after":"a"} -> p/1=1 p/10=2 p/2=1;
			list -> o/9=1 p-x=1 p/1=1 p/10=2 p/2=1 q/1=1; list {"prefix":"none/"}; list {"prefix":"p/","limit":2} -> p/1=1 p/10=2 more`, nil},
		{"list pages are complete and end", "", listPages},
		// The page after a folder begins behind all keys of the folder.
		{"list folds folders", `
			create p/a/1 x; create p/a/2 x; create p/b/1 x; create p/c x; create q/1 x;
			list {"prefix":"p/","delimiter":"/"} -> p/c=1 p/a/ p/b/; list {"delimiter":"-"} -> request refused;
			list {"prefix":"p/","delimiter":"/","limit":1} -> p/a/ more; list {"prefix":"p/","delimiter":"/","limit":1,"after":"p/a0"} -> p/b/ more;
			list {"prefix":"p/","delimiter":"/","limit":1,"after":"p/b0"} -> p/c=1; list {"prefix":"p/","delimiter":"/","limit":1,"after":"p/c"}`, nil},
		{"list shows what was created before", "", listAfterCreate},
		{"delete is idempotent", "create k x; create k2 y; delete k; delete k; get k -> object not found; get k2 -> y", nil},
		{"an ended context sends nothing", "", endedContext},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := newBucket(t)
			follow(t, b, r.steps)
			if r.check != nil {
				r.check(t, b)
			}
		})
	}
}

// follow runs the steps with perform. Errors are compared by kind.
func follow(t *testing.T, b storage.Bucket, steps string) {
	t.Helper()
	takeSteps(t, steps, func(call string) string {
		got, err := perform(t.Context(), t, b, call)
		if err == nil {
			return got
		}
		e, ok := errors.AsType[*storage.Error](err)
		op, args, _ := strings.Cut(call, " ")
		key, _, _ := strings.Cut(args, " ")
		if !ok || e.Kind == nil || e.Op != op && op != "range" || e.Key != key && op != storage.OpList {
			t.Fatalf("%.100s: %#v, want an *Error with operation, key and kind", call, err)
		}
		return e.Kind.Error()
	})
}

// perform runs a step and returns its result. A page is its keys with their sizes, its folders, and
// whether there is more.
func perform(ctx context.Context, t *testing.T, b storage.Bucket, call string) (answer string, err error) {
	t.Helper()
	op, args, _ := strings.Cut(call, " ")
	key, arg, _ := strings.Cut(args, " ")
	var data []byte
	switch op {
	case storage.OpCreate:
		err = b.Create(ctx, key, storage.Bytes([]byte(arg)))
	case storage.OpPut:
		err = b.Put(ctx, key, storage.Bytes([]byte(arg)))
	case storage.OpDelete:
		err = b.Delete(ctx, key)
	case storage.OpGet:
		data, err = b.Get(ctx, key)
	case "range":
		var offset, length int64
		if _, err := fmt.Sscan(arg, &offset, &length); err != nil {
			t.Fatal(err)
		}
		data, err = b.GetRange(ctx, key, offset, length)
	case storage.OpOpen:
		r, size, err := b.Open(ctx, key)
		if err != nil {
			return "", err
		}
		defer r.Close()
		if data, err = io.ReadAll(r); err != nil || size != int64(len(data)) {
			t.Fatalf("read: %d bytes of %d, %v", len(data), size, err)
		}
	case storage.OpList:
		var q storage.ListQuery
		if err := json.Unmarshal([]byte(cmp.Or(key, "{}")), &q); err != nil {
			t.Fatal(err)
		}
		page, err := b.List(ctx, q)
		return shown(page), err
	default:
		t.Fatalf("unknown operation %q", op)
	}
	return string(data), err
}

func shown(page storage.ListPage) string {
	var list []string
	for _, k := range page.Keys {
		list = append(list, fmt.Sprintf("%s=%d", k.Key, k.Size))
	}
	list = append(list, page.Prefixes...)
	if page.More {
		list = append(list, "more")
	}
	return strings.Join(list, " ")
}

func createRace(t *testing.T, b storage.Bucket) {
	for round := range 20 {
		key := fmt.Sprintf("race/%d", round)
		won := race(t, func(i int) error {
			return b.Create(t.Context(), key, storage.Bytes(fmt.Append(nil, i)))
		}, storage.ErrExists, storage.ErrConflict)
		follow(t, b, fmt.Sprintf("get %s -> %d", key, won))
	}
}

func noBody(t *testing.T, b storage.Bucket) {
	wantKind(t, b.Put(t.Context(), "k", storage.Body{}), storage.ErrRefused)
	follow(t, b, "get k -> object not found")
}

func wrongDigest(t *testing.T, b storage.Bucket) {
	body := storage.Bytes([]byte("content"))
	body.SHA256[0] ^= 1
	wantKind(t, b.Create(t.Context(), "k", body), storage.ErrRefused)
	follow(t, b, "get k -> object not found")
}

func bodyFromStart(t *testing.T, b storage.Bucket) {
	body := storage.Bytes([]byte("content"))
	if _, err := body.Reader.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), "k", body); err != nil {
		t.Fatal(err)
	}
	follow(t, b, "get k -> content")
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

func openStreams(t *testing.T, b storage.Bucket) {
	content := strings.Repeat("line of text\n", 50_000) + "."
	follow(t, b, "create k "+content+"; open k -> "+content)
}

// longRanges reads ranges of an object that the embedded bucket stores as a file.
func longRanges(t *testing.T, b storage.Bucket) {
	long := strings.Repeat("0123456789", 30_000)
	follow(t, b, fmt.Sprintf("create long %s; range long %d 7 -> request refused", long, len(long)-6))
	for _, at := range []int{0, 123_456, len(long) - 7} {
		follow(t, b, fmt.Sprintf("range long %d 7 -> %s", at, long[at:at+7]))
	}
}

func oddKeys(t *testing.T, b storage.Bucket) {
	keys := []string{"a b+c%d", "x=1?y=2#z", "~!$()*,;:@", "ä/&<>\"'"}
	for _, k := range keys {
		if err := b.Create(t.Context(), k, storage.Bytes([]byte(k))); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(t.Context(), k); err != nil || string(got) != k {
			t.Errorf("get %s: %q, %v", k, got, err)
		}
	}
	wantKeys(t, b, storage.ListQuery{}, keys)
}

func listPages(t *testing.T, b storage.Bucket) {
	var want []string
	for i := range 23 {
		k := fmt.Sprintf("p/%016d", i)
		want = append(want, k)
		follow(t, b, "create "+k+" x")
	}
	for _, limit := range []int{1, 5, 22, 23, 24, 1000} {
		wantKeys(t, b, storage.ListQuery{Prefix: "p/", Limit: limit}, want)
	}
	page, err := b.List(t.Context(), storage.ListQuery{Prefix: "p/", Limit: 23})
	if err != nil || page.More || len(page.Keys) != 23 {
		t.Errorf("page of exactly all: %d keys, more %v, %v", len(page.Keys), page.More, err)
	}
}

func listAfterCreate(t *testing.T, b storage.Bucket) {
	last := "p/"
	for i := range 50 {
		k := fmt.Sprintf("p/%016d", i)
		follow(t, b, "create "+k+" x")
		wantKeys(t, b, storage.ListQuery{Prefix: "p/", After: last}, []string{k})
		last = k
	}
}

func endedContext(t *testing.T, b storage.Bucket) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, call := range []string{"create k x", "put k x", "get k", "range k 0 1", "open k", "list", "delete k"} {
		_, err := perform(ctx, t, b, call)
		if e, ok := errors.AsType[*storage.Error](err); !ok || !errors.Is(err, context.Canceled) || e.Kind != nil {
			t.Errorf("%s: %#v, want context.Canceled without a kind", call, err)
		}
	}
	follow(t, b, "get k -> object not found")
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if _, ok := errors.AsType[*storage.Error](err); !ok || !errors.Is(err, kind) {
		t.Errorf("got %v, want an *Error of kind %v", err, kind)
	}
}

// wantKeys reads all pages of a listing and compares the keys.
func wantKeys(t *testing.T, b storage.Bucket, q storage.ListQuery, want []string) {
	t.Helper()
	first, keys := q, []string(nil)
	for {
		page, err := b.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page.Keys {
			keys = append(keys, k.Key)
		}
		if !page.More || len(page.Keys) == 0 {
			break
		}
		q.After = keys[len(keys)-1]
	}
	if !slices.Equal(want, keys) {
		t.Fatalf("list %+v: %q, want %q", first, keys, want)
	}
}
