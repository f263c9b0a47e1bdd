package storage_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func header(seq int64) storage.Header {
	h := storage.Header{Version: 8, Seq: seq, Nonce: "01JD0000000000000000000000", First: true, Epoch: 3, At: conversation.Time(1_732_190_000_123)}
	if seq > 0 {
		h.Prev = storage.Hash{1, 2, 3}
	}
	return h
}

func encode(t *testing.T, h storage.Header, lines string) []byte {
	t.Helper()
	data, _, err := storage.EncodeBatch(h, []byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBatchRoundTrip(t *testing.T) {
	for _, lines := range []string{"", "{\"a\":1}\n", strings.Repeat("{\"text\":\"some longer record\"}\n", 20_000)} {
		h := header(7)
		data, hash, err := storage.EncodeBatch(h, []byte(lines))
		if err != nil {
			t.Fatal(err)
		}
		got, err := storage.DecodeBatch(data, 0)
		want := storage.Batch{Header: h, Lines: []byte(lines), Hash: hash}
		if err != nil || !reflect.DeepEqual(want, got) { // A diff of large batches takes long, so compare first.
			t.Errorf("%d bytes of lines: %v (-want +got):\n%s", len(lines), err, cmp.Diff(want, got))
		}
	}
}

// TestBatchBytes pins the bytes of an object and its hash, because other versions and tools depend on
// them.
func TestBatchBytes(t *testing.T) {
	content := decompress(t, encode(t, header(7), "{\"a\":1}\n"))
	// The hash covers: hash of batch 6, 7, length of the nonce, nonce, first, lines.
	const want = `{"v":8,"seq":7,"nonce":"01JD0000000000000000000000","first":true,"prev":"01020300000000000000000000000000",` +
		`"epoch":3,"at":"2024-11-21T11:53:20.123Z","hash":"HASH"}` + "\n" + `{"a":1}` + "\n"
	preimage := "01020300000000000000000000000000" + "0000000000000007" + "1a" + hex.EncodeToString([]byte("01JD0000000000000000000000")) + "01" +
		hex.EncodeToString([]byte("{\"a\":1}\n"))
	if got := string(content); got != strings.Replace(want, "HASH", sha256Prefix(t, preimage), 1) {
		t.Errorf("object holds\n%s", got)
	}
}

func TestBatchOverhead(t *testing.T) {
	const limit = 350
	h := header(123_456)
	// A real nonce does not compress.
	h.Nonce = "01JD8XQ4ZK7M3N5P9R2S6T8VWY"
	h.Prev = storage.Hash{0x9f, 0x1c, 0xe3, 0x77, 0x40, 0xb2, 0x6d, 0x58, 0xaa, 0x03, 0xf4, 0x81, 0x2e, 0xd5, 0x96, 0xcb}
	if size := len(encode(t, h, "1\n")); size > limit {
		t.Errorf("a batch of one short record takes %d bytes, limit %d", size, limit)
	} else {
		t.Logf("a batch of one short record takes %d bytes", size)
	}
}

func TestEncodeBatchRefuses(t *testing.T) {
	with := func(change func(*storage.Header)) storage.Header {
		h := header(7)
		change(&h)
		return h
	}
	for name, tt := range map[string]struct {
		h     storage.Header
		lines string
	}{
		"no newline":       {header(7), "{}"},
		"empty line":       {header(7), "{}\n\n{}\n"},
		"leading newline":  {header(7), "\n{}\n"},
		"version":          {with(func(h *storage.Header) { h.Version = 7 }), ""},
		"negative":         {with(func(h *storage.Header) { h.Seq = -1 }), ""},
		"17 digits":        {with(func(h *storage.Header) { h.Seq = 1e16 }), ""},
		"no nonce":         {with(func(h *storage.Header) { h.Nonce = "" }), ""},
		"long nonce":       {with(func(h *storage.Header) { h.Nonce = storage.Nonce(strings.Repeat("n", 65)) }), ""},
		"nonce with quote": {with(func(h *storage.Header) { h.Nonce = `a"b` }), ""},
		"chained batch 0":  {with(func(h *storage.Header) { h.Seq = 0 }), ""},
	} {
		if _, _, err := storage.EncodeBatch(tt.h, []byte(tt.lines)); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestDecodeBatchIsStrict(t *testing.T) {
	good := string(decompress(t, encode(t, header(7), "{\"a\":1}\n")))
	for name, content := range map[string]string{
		"other version":   strings.Replace(good, `"v":8`, `"v":9`, 1),
		"no version":      strings.Replace(good, `"v":8,`, ``, 1),
		"other seq":       strings.Replace(good, `"seq":7`, `"seq":8`, 1),
		"not first":       strings.Replace(good, `"first":true,`, ``, 1),
		"other nonce":     strings.Replace(good, `01JD`, `01JE`, 1),
		"other prev":      strings.Replace(good, `"prev":"01`, `"prev":"02`, 1),
		"changed record":  strings.Replace(good, `"a":1`, `"a":2`, 1),
		"added record":    good + "{}\n",
		"no newline":      strings.TrimSuffix(good, "\n"),
		"no header":       "",
		"header no JSON":  "x\n",
		"hash upper case": strings.Replace(good, `"prev":"01020300`, `"prev":"0102030A`, 1),
	} {
		if b, err := storage.DecodeBatch(compress(t, content), 0); err == nil {
			t.Errorf("%s: decoded to %+v", name, b)
		}
	}
	known := strings.Replace(good, `"epoch":3`, `"epoch":3,"future":{"x":[1]}`, 1)
	if _, err := storage.DecodeBatch(compress(t, known), 0); err != nil {
		t.Errorf("unknown header field: got error %v", err)
	}
}

func TestDecodeBatchFrames(t *testing.T) {
	good := encode(t, header(7), "{\"a\":1}\n")
	for name, data := range map[string][]byte{
		"empty":      nil,
		"cut":        good[:len(good)-1],
		"two frames": append(good[:len(good):len(good)], good...),
		"trailing":   append(good[:len(good):len(good)], 0),
		"no checksum": compressWith(t, string(decompress(t, good)),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)),
		"skippable": {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'},
	} {
		if _, err := storage.DecodeBatch(data, 0); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	bomb := encode(t, header(7), strings.Repeat("{\"a\":1}\n", 200_000))
	if len(bomb) > 4096 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	if _, err := storage.DecodeBatch(bomb, 1<<20); err == nil || !strings.Contains(err.Error(), "limit 1048576") {
		t.Errorf("1.6 MB under a limit of 1 MiB: %v", err)
	}
	if _, err := storage.DecodeBatch(bomb, 0); err != nil {
		t.Errorf("under the default limit: %v", err)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, lines := range []string{"", "{}\n", "{\"a\":1}\n{\"b\":2}\n"} {
		data, _, err := storage.EncodeBatch(header(7), []byte(lines))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte{})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x24, 0, 1, 0, 0, 0x99, 0xe9, 0xd8, 0x51})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := storage.DecodeBatch(data, 1<<20)
		if err != nil {
			return
		}
		again, hash, err := storage.EncodeBatch(b.Header, b.Lines)
		if err != nil || hash != b.Hash {
			t.Fatalf("encode decoded batch: got hash %s, %v; want %s", hash, err, b.Hash)
		}
		c, err := storage.DecodeBatch(again, 2<<20)
		if diff := cmp.Diff(b, c); err != nil || diff != "" {
			t.Fatalf("second decode: %v (-first +second):\n%s", err, diff)
		}
	})
}

// FuzzBatchContent fuzzes the content inside a valid frame.
func FuzzBatchContent(f *testing.F) {
	f.Add([]byte("{\"v\":8}\n"))
	f.Add([]byte("{\"v\":8,\"seq\":7,\"nonce\":\"n\",\"prev\":\"01020300000000000000000000000000\",\"hash\":\"\"}\n{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := storage.DecodeBatch(compress(t, string(content)), 1<<20); err == nil {
			line, _, _ := bytes.Cut(content, []byte("\n"))
			if !json.Valid(line) {
				t.Fatalf("decoded a header that is not JSON: %q", line)
			}
		}
	})
}

// oneKey is a bucket that lists one key.
type oneKey struct {
	storage.Bucket
	key string
}

// List implements storage.Bucket.
func (o *oneKey) List(context.Context, storage.ListQuery) (storage.ListPage, error) {
	return storage.ListPage{Keys: []storage.ListedKey{{Key: o.key, Size: 3}}}, nil
}

// FuzzSegmentKey checks that every accepted segment key is exactly what SegmentKey returns.
func FuzzSegmentKey(f *testing.F) {
	conv := keyOf("x")
	prefix := strings.TrimSuffix(storage.SegmentKey(conv, 0, 0), "0000000000000000-0000000000000000")
	for _, name := range []string{
		"0000000000000009-0000000000000000", "9999999999999999-0000000000000001", "0000000000000000-0000000000000009", "", "-",
		"+000000000000009-0000000000000000", "0000000000000009-0000000000000000-0000000000000000", "0000000000000009", "000000000000000x-0000000000000000",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		refs, err := storage.NewLogs(&oneKey{key: prefix + name}, nil).Segments(t.Context(), conv, 0)
		var corrupt *storage.CorruptError
		switch {
		case err != nil && !errors.As(err, &corrupt):
			t.Errorf("got error of another kind: %v", err)
		case err == nil && (len(refs) != 1 || refs[0].First < 0 || refs[0].First > refs[0].Last || storage.SegmentKey(conv, refs[0].First, refs[0].Last) != prefix+name):
			t.Errorf("parsed %q as %+v", name, refs)
		}
	})
}

func compress(t *testing.T, content string) []byte {
	return compressWith(t, content, zstd.WithSingleSegment(true))
}

func compressWith(t *testing.T, content string, opts ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll([]byte(content), nil)
}

func decompress(t *testing.T, data []byte) []byte {
	t.Helper()
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	content, err := dec.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func ExampleEncodeBatch() {
	h := storage.Header{Version: storage.SchemaVersion, Seq: 0, Nonce: "w1", First: true}
	data, _, err := storage.EncodeBatch(h, []byte("{\"type\":\"a\"}\n{\"type\":\"b\"}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := storage.DecodeBatch(data, 0)
	fmt.Printf("batch %d by %s: %q %v\n", b.Seq, b.Nonce, b.Lines, err)
	// Output: batch 0 by w1: "{\"type\":\"a\"}\n{\"type\":\"b\"}\n" <nil>
}
