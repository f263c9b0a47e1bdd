package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// dump returns the lines of a dump and checks that each is JSON.
func (w *world) dump(key string) ([]string, error) {
	w.t.Helper()
	var out bytes.Buffer
	err := inspect.Dump(context.Background(), w.bucket, key, &out)
	lines := strings.Split(out.String(), "\n")
	for _, line := range lines[:len(lines)-1] {
		if !json.Valid([]byte(line)) {
			w.t.Errorf("dump of %s has the line %q", key, line)
		}
	}
	return lines[:len(lines)-1], err
}

func TestDumpOfEveryObject(t *testing.T) {
	w := newWorld(t)
	w.put("probe/result/x", []byte("{\"v\":1}\n"))
	keys := w.objects("")
	kinds := map[string]bool{}
	for key := range keys {
		lines, err := w.dump(key)
		if err != nil {
			t.Fatal(err)
		}
		var first struct{ Object, Key string }
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Key != key {
			t.Errorf("dump of %s begins with %s", key, lines[0])
		}
		kinds[first.Object] = true
	}
	if len(kinds) != 13 {
		t.Errorf("dumped %v, want every kind", kinds)
	}
	for key, want := range map[string][]string{
		w.log(12):                       {`"object":"batch"`, `"seq":12,"nonce":"n2","first":true`, `"records":2`, `{"type":"submission_admitted","submission":"sub_4"`},
		w.seg(11, 22):                   {`"index":{"v":8,"first":11,"last":22`, `"object":"batch","decoded":`, `"seq":22`, `"text":"`},
		w.under("ckpt/")[1]:             {`"object":"checkpoint"`, `"claims":[{"seq":0,"nonce":"n1"}`, `{"reducer":`, `"role":"assistant"`},
		w.under("page/")[0]:             {`"object":"page"`, `{"messages":`, `question 0`},
		storage.HeadKey(w.conv):         {`"value":{"v":8,"seq":35`},
		"pending/m1/0/" + number(3):     {`"object":"journal"`, `"count":2`, `"nonce":"n3","seq":30`},
		"export/m1/0/" + number(5):      {`"object":"export"`, `"count":1`, `"seq":30`},
		storage.BlobKey(w.conv, w.blob): {`"bytes":16,"sha256":"` + w.blob.String()},
		storage.EpochKey(1):             {`"id":"m1"`},
		"heartbeat/m1":                  {`"count":7`},
		"format.json":                   {`"schemaVersion":8`},
	} {
		lines, _ := w.dump(key)
		for _, want := range want {
			if !strings.Contains(strings.Join(lines, "\n"), want) {
				t.Errorf("dump of %s lacks %s:\n%s", key, want, strings.Join(lines, "\n"))
			}
		}
	}
	if lines, _ := w.dump(storage.BlobKey(w.conv, w.blob)); len(lines) != 1 || strings.Contains(lines[0], "attached") {
		t.Errorf("attachment was printed: %q", lines)
	}
}

func TestDumpOfCorruption(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{"", "x", "log/1", "pending/m1/0", "members/0", w.log(1) + "0", strings.ToUpper(w.log(1)), storage.FolderOf(w.conv)} {
		var refused *inspect.KeyError
		if _, err := w.dump(key); !errors.As(err, &refused) || !strings.Contains(err.Error(), "keys are") {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := w.dump(w.log(999)); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a missing object: %v", err)
	}
	var batches []storage.Batch
	big := w.big(40)
	for b, err := range w.logs.Batches(t.Context(), big, storage.Start()) {
		check(t, err)
		batches = append(batches, b)
	}
	key := storage.SegmentKey(big, 0, 39)
	w.segment(key, batches)
	if lines, err := w.dump(key); err != nil || len(lines) != 81 {
		t.Errorf("a large segment: %d lines, %v", len(lines), err)
	}
	w.flip(key)
	lines, err := w.dump(key)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Key != key || len(lines) < 21 || len(lines) > 61 {
		t.Errorf("corrupt segment: got %d lines, %v", len(lines), err)
	}
	moved := map[string]string{
		w.log(31): w.log(30), w.seg(0, 9): w.seg(0, 10), "pending/m1/0/" + number(9): "pending/m1/0/" + number(3), "export/m1/0/" + number(9): "export/m1/0/" + number(5), storage.EpochKey(9): storage.EpochKey(1),
		"heartbeat/m9": "heartbeat/m1", storage.BlobKey(w.conv, storage.Digest{}): w.log(30),
		storage.CheckpointKey(w.conv, 3, storage.Digest{}): w.under("ckpt/")[0], storage.PageKey(w.conv, storage.PageRef{N: 7}): w.under("page/")[0],
		"index/a/2026-01-02/" + string(w.conv): storage.IndexKey(storage.IndexEntry{Address: w.at, Day: "2026-01-02"}),
	}
	for to, from := range moved {
		w.put(to, w.get(from))
		if lines, err := w.dump(to); !errors.As(err, &corrupt) || corrupt.Key != to || len(lines) == 0 {
			t.Errorf("%s with the content of %s: got %q, %v", to, from, lines, err)
		}
	}
}

// big stores a conversation whose batches do not compress.
func (w *world) big(batches int64) conversation.Key {
	w.t.Helper()
	conv := conversation.Address{Agent: "assistant", ID: "big"}.Key()
	writer := w.logs.Writer(conv, "b1", storage.Start(), 1)
	for n := range batches {
		text := make([]byte, 0, 64<<10)
		for i := range 1 << 10 {
			text = append(text, storage.Header{Seq: n, Epoch: int64(i)}.Chain(fmt.Append(nil, i)).String()...)
		}
		must(writer.Append(context.Background(), fmt.Appendf(nil, "{\"type\":\"x\",\"text\":%q}\n", text), at))(w.t)
	}
	return conv
}

func TestDumpOfALog(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ from, to, want int64 }{{0, -1, 36}, {0, 0, 1}, {9, 24, 16}, {30, 99, 6}, {35, 35, 1}} {
		var out bytes.Buffer
		if err := inspect.DumpLog(t.Context(), w.bucket, w.conv, tt.from, tt.to, &out); err != nil {
			t.Fatal(err)
		}
		if got := int64(strings.Count(out.String(), `"object":"batch"`)); got != tt.want {
			t.Errorf("from %d to %d: %d batches, want %d", tt.from, tt.to, got, tt.want)
		}
	}
	for _, tt := range []struct{ from, to int64 }{{-1, 3}, {4, 3}, {36, -1}} {
		if err := inspect.DumpLog(t.Context(), w.bucket, w.conv, tt.from, tt.to, &bytes.Buffer{}); err == nil {
			t.Errorf("range from %d to %d was accepted", tt.from, tt.to)
		}
	}
	err := inspect.DumpLog(t.Context(), w.bucket, conversation.Address{ID: "never"}.Key(), 0, -1, &bytes.Buffer{})
	if !errors.Is(err, inspect.ErrNoConversation) {
		t.Errorf("missing log: got %v", err)
	}
	if err := inspect.DumpLog(t.Context(), w.bucket, "x", 0, -1, &bytes.Buffer{}); err == nil {
		t.Error("invalid key was accepted")
	}
	w.delete(w.log(33))
	var out bytes.Buffer
	var gap *storage.GapError
	if err := inspect.DumpLog(t.Context(), w.bucket, w.conv, 0, -1, &out); !errors.As(err, &gap) || gap.Seq != 33 {
		t.Errorf("a log with a gap: %v", err)
	}
	around(t, out.String(), 35, `{"object":"damage","first":33,"last":33,"error":"`)
}

// around checks for batches with the line of the corruption between them.
func around(t *testing.T, out string, batches int, corruption string) {
	t.Helper()
	if got := strings.Count(out, `"object":"batch"`); got != batches || !strings.Contains(out, corruption) {
		t.Errorf("%d batches, want %d and %s\n%s", got, batches, corruption, out)
	}
}

// TestDumpAroundCorruption prints the readable parts of a log before and after the corruption.
func TestDumpAroundCorruption(t *testing.T) {
	for name, tt := range map[string]struct {
		do         func(w *world)
		from       int64
		batches    int
		corruption string
	}{
		"the first batch":        {func(w *world) { w.delete(w.seg(0, 10)); w.flip(w.log(0)) }, 0, 25, `{"object":"damage","first":0,"last":10,"error":"`},
		"a segment":              {func(w *world) { w.delete(w.seg(11, 22)) }, 0, 30, `{"object":"damage","first":11,"last":11,"error":"`},
		"the last batch":         {func(w *world) { w.flip(w.log(35)) }, 0, 35, `{"object":"damage","first":35,"last":35,"error":"`},
		"the one before a range": {func(w *world) { w.flip(w.log(31)) }, 32, 4, ""},
		"another history": {func(w *world) {
			w.batch(storage.Header{Seq: 33, Nonce: "n3", Prev: storage.Hash{9}}, "{\"type\":\"x\"}\n")
		}, 0, 36, `{"object":"damage","first":33,"last":32,"error":"`},
	} {
		w := newWorld(t)
		tt.do(w)
		var out bytes.Buffer
		err := inspect.DumpLog(t.Context(), w.bucket, w.conv, tt.from, -1, &out)
		if !storage.IsCorrupt(err) && tt.corruption != "" {
			t.Errorf("%s: %v", name, err)
		}
		t.Run(name, func(t *testing.T) { around(t, out.String(), tt.batches, tt.corruption) })
	}
}

// FuzzDump dumps any bytes under any kind of key.
func FuzzDump(f *testing.F) {
	w := newWorld(f)
	var keys []string
	for key := range w.objects("") {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		f.Add(uint8(i), w.get(key))
	}
	f.Add(uint8(0), []byte("{\"v\":8}\n"))
	f.Add(uint8(1), []byte("\x00\xff\n[[["))
	f.Add(uint8(2), bytes.Repeat([]byte("["), 20_000))
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		if len(data) == 0 {
			return // Stores reject empty objects.
		}
		w := &world{t: t, bucket: one{key: keys[int(n)%len(keys)], data: data}}
		if lines, err := w.dump(w.bucket.(one).key); err == nil && len(lines) == 0 {
			t.Error("got an empty dump without an error")
		}
	})
}
