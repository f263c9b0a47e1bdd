package local

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func FuzzDecodeValue(f *testing.F) {
	for _, o := range []object{
		{modified: time.UnixMilli(1), size: 3, inline: []byte("abc")},
		{modified: time.UnixMilli(-1), size: 0, inline: []byte{}},
		{modified: time.UnixMilli(1 << 41), size: 1 << 20, file: strings.Repeat("0f", 16), md5: [16]byte{1, 2}},
	} {
		b := make([]byte, valueLen(o))
		encodeValue(b, o)
		f.Add(b)
		f.Add(b[:len(b)-1])
		b[1] ^= valueFlagFile
		f.Add(b)
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
		again := make([]byte, valueLen(o))
		encodeValue(again, o)
		if !bytes.Equal(again, value) {
			t.Errorf("encoded again: %x, was %x", again, value)
		}
	})
}

// FuzzList pages through fixed keys by any query and compares the pages with a
// listing made by hand.
func FuzzList(f *testing.F) {
	for _, q := range []string{
		"", "prefix=a/&max-keys=2", "prefix=a&delimiter=/&max-keys=1&encoding-type=url", "start-after=a/2",
		"start-after=a/2&delimiter=%2F", "continuation-token=YQ", "continuation-token=!", "max-keys=0", "max-keys=99999999999",
		"delimiter=b&prefix=", "x=1", "max-keys=-1", "prefix=%ff", "encoding-type=x", "delimiter=//",
	} {
		f.Add(q)
	}
	keys := []string{"a", "a/1", "a/2", "a/3/x", "a/3/y", "a//b", "abba", "b", "b/\U0010FFFF/c", "c\x00d", "z z"}
	slices.Sort(keys)
	s := NewMemory()
	for _, key := range keys {
		if _, err := s.engine.put(f.Context(), key, object{}, true); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, err := parseListQuery(values)
		if err != nil {
			var api *apiError
			if !errors.As(err, &api) {
				t.Errorf("error %v is no answer", err)
			}
			return
		}
		if q.maxKeys < 0 || q.maxKeys > maxListKeys {
			t.Fatalf("page of %d", q.maxKeys)
		}
		want := listByHand(keys, q)
		if q.maxKeys == 0 {
			return
		}
		var got []string
		for {
			page, err := s.collect(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.contents {
				got = append(got, e.Key)
			}
			for _, p := range page.prefixes {
				got = append(got, p.Prefix)
			}
			if !page.truncated {
				break
			}
			if n := len(page.contents) + len(page.prefixes); n != q.maxKeys {
				t.Fatalf("truncated page of %d has %d entries", q.maxKeys, n)
			}
			if q.from, err = decodeToken(encodeToken(page.next)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	})
}

func listByHand(keys []string, q listQuery) []string {
	var names []string
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, q.prefix)
		if !ok || key < q.from {
			continue
		}
		if head, _, found := strings.Cut(rest, q.delimiter); found && q.delimiter != "" {
			key = q.prefix + head + q.delimiter
		}
		names = append(names, q.name(key))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func FuzzParseRange(f *testing.F) {
	for _, h := range []string{"bytes=0-0", "bytes=5-", "bytes=-5", "bytes=1-2,3-4", "bytes=-", "bytes=9-1", "bytes=+1-2", "lines=1-2", "bytes=9223372036854775807-", "bytes=0-9223372036854775807"} {
		f.Add(h, int64(10))
	}
	f.Add("bytes=-1", int64(0))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		first, n, err := parseRange(header, size)
		if err == nil && (first < 0 || n < 1 || first > size-n) {
			t.Errorf("%q of %d bytes: %d bytes from %d", header, size, n, first)
		}
	})
}
