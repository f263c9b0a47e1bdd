package local

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/storage"
)

func FuzzDecodeValue(f *testing.F) {
	for _, o := range []object{
		{modified: time.UnixMilli(1), size: 3, inline: []byte("abc")},
		{modified: time.UnixMilli(-1), size: 0, inline: []byte{}},
		{modified: time.UnixMilli(1 << 41), size: 1 << 20, file: strings.Repeat("0f", 16)},
	} {
		b := make([]byte, valueLen(o))
		encodeValue(b, o)
		other, old := bytes.Clone(b), bytes.Clone(b)
		other[1] ^= valueFlagFile
		copy(old[2:18], "an earlier MD5 .")
		for _, value := range [][]byte{b, b[:len(b)-1], other, old} {
			f.Add(value)
		}
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := decodeValue(value)
		if err != nil {
			return
		}
		if o.size < 0 || o.file == "" && int64(len(o.inline)) != o.size || o.file != "" && !validFileName(o.file) {
			t.Errorf("accepted %+v", o)
		}
		again := bytes.Repeat([]byte{0xff}, valueLen(o)) // Buffers of the engine are reused.
		encodeValue(again, o)
		if !bytes.Equal(again[:2], value[:2]) || !bytes.Equal(again[18:], value[18:]) || !bytes.Equal(again[2:18], make([]byte, 16)) {
			t.Errorf("encoded again: %x, was %x", again, value)
		}
	})
}

// FuzzList pages through fixed keys by any query and compares the pages with a reference listing.
func FuzzList(f *testing.F) {
	for _, q := range []struct {
		prefix, after string
		folders       bool
		limit         int
	}{
		{"", "", false, 0}, {"a/", "", false, 2}, {"a", "", true, 1}, {"", "a/2", false, 1000}, {"", "a/2", true, 3}, {"a/", "b", false, 1},
		{"b", "a", true, 1}, {"a/3", "a/3/x", true, 1}, {"\xff", "", false, 5}, {"", "\xf4000", true, 2}, {"\U0010ca80", "ac", false, 7},
	} {
		f.Add(q.prefix, q.after, q.folders, q.limit)
	}
	keys := []string{"a", "a/1", "a/2", "a/3/x", "a/3/y", "a//b", "abba", "b", "b/\U0010FFFF/c", "c\x00d", "z z"}
	slices.Sort(keys)
	s := NewMemory()
	for _, key := range keys {
		if _, err := s.engine.put(f.Context(), key, object{}, true); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, prefix, after string, folders bool, limit int) {
		q := storage.ListQuery{Prefix: prefix, After: after, Limit: limit}
		if folders {
			q.Delimiter = "/"
		}
		want := referenceList(keys, q)
		var got []string
		for {
			page, err := s.List(t.Context(), q)
			if good := limit >= 0 && limit <= maxListKeys && len(prefix) <= maxKeyBytes && utf8.ValidString(prefix); errors.Is(err, storage.ErrRefused) == good {
				t.Fatalf("list: %v", err)
			}
			if err != nil {
				return
			}
			n := len(page.Keys) + len(page.Prefixes)
			if page.More && n != cmp.Or(limit, maxListKeys) {
				t.Fatalf("page of %d with more to come has %d entries", limit, n)
			}
			for _, k := range page.Keys {
				got = append(got, k.Key)
				q.After = k.Key
			}
			for _, p := range page.Prefixes {
				got = append(got, p)
				q.After = max(q.After, p+"\xff") // Skip the keys of the folder.
			}
			if !page.More {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	})
}

func referenceList(keys []string, q storage.ListQuery) []string {
	var names []string
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, q.Prefix)
		if !ok || key <= q.After {
			continue
		}
		if head, _, found := strings.Cut(rest, "/"); found && q.Delimiter != "" {
			key = q.Prefix + head + "/"
		}
		names = append(names, key)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
