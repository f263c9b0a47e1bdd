package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fuzzLimit = 1 << 20

// fuzzSeeds returns the logs whose segments seed the corpora.
func fuzzSeeds(f *testing.F) [][]Batch {
	f.Helper()
	next := func(h Header, lines string) Batch { return Batch{h, []byte(lines), h.Chain([]byte(lines))} }
	one := next(Header{Version: 8, Nonce: "w1", First: true, Epoch: 1, At: 1_732_190_000_000}, "")
	two := next(Header{Version: 8, Seq: 1, Nonce: "w1", Prev: one.Hash, Epoch: 1}, "{\"a\":1}\n{\"b\":2}\n")
	three := next(Header{Version: 8, Seq: 2, Nonce: "w2", First: true, Prev: two.Hash, Epoch: 2}, strings.Repeat("{}\n", 20_000))
	four := next(Header{Version: 8, Seq: 3, Nonce: "w2", Prev: three.Hash, Epoch: 2}, strings.Repeat("[]\n", 20_000))
	return [][]Batch{{one}, {one, two}, {two, three}, {one, two, three, four}}
}

func fuzzBuild(t testing.TB, c *Codec, batches []Batch) ([]byte, *Index) {
	t.Helper()
	b := c.Build()
	for _, batch := range batches {
		if err := b.Add(batch); err != nil {
			t.Fatalf("build: %v", err)
		}
	}
	object, x, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return object, x
}

// FuzzFrame decodes any lines as the content of a frame, and any bytes as a frame. Accepted batches
// must build a segment that reads the same.
func FuzzFrame(f *testing.F) {
	c := NewCodec(fuzzLimit, 1)
	for _, batches := range fuzzSeeds(f) {
		object, x := fuzzBuild(f, c, batches)
		frame := object[:x.Frames[0].Size]
		content, err := c.frames.Decode(frame)
		if err != nil {
			f.Fatal(err)
		}
		if len(content) > 1<<10 {
			continue // The fuzzer takes minutes to minimize such an input.
		}
		f.Add(content, frame)
		f.Add(content[:len(content)/2], frame[:len(frame)/2])
	}
	f.Add([]byte(`{"v":8,"seq":7,"prev":"06020300000000000000000000000000","nonce":"a","records":0}`+"\n"+`{"first":true,"records":-1}`+"\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, content, frame []byte) {
		if len(content) > fuzzLimit/2 {
			return
		}
		for _, data := range [][]byte{c.frames.Encode(content), frame} {
			batches, err := c.decodeFrame(data)
			if err != nil || batches[0].Seq+int64(len(batches)) > MaxSeq {
				continue
			}
			checkTaken(t, c, batches)
		}
	})
}

// checkTaken compares decoded batches with a segment built of them.
func checkTaken(t *testing.T, c *Codec, batches []Batch) {
	b := c.Build()
	for i, batch := range batches {
		if err := b.Add(batch); err != nil {
			if i > 0 && batch.First && batch.Nonce == batches[i-1].Nonce {
				return // No index allows that, and every frame is checked against one.
			}
			t.Fatalf("batch %d was decoded and cannot be encoded: %v", batch.Seq, err)
		}
	}
	object, _, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.Index(object, int64(len(object)))
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
	var got []Batch
	for i := range x.Frames {
		_, offset := x.Find(x.Frames[i].Seq)
		part, err := c.Frame(x, i, object[offset:offset+x.Frames[i].Size])
		if err != nil {
			t.Fatalf("read back: %v", err)
		}
		got = append(got, part...)
	}
	if diff := cmp.Diff(batches, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("read back (-decoded +read):\n%s", diff)
	}
}

// FuzzIndex reads any bytes as the end of an object, and any line as its index. An accepted index
// locates every batch within the object.
func FuzzIndex(f *testing.F) {
	c := NewCodec(fuzzLimit, 1)
	for _, batches := range fuzzSeeds(f) {
		object, x := fuzzBuild(f, c, batches)
		line, err := json.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object, int64(len(object)), line)
		f.Add(object[len(object)/2:], int64(len(object)), line[:len(line)/2])
	}
	f.Add([]byte{}, int64(0), []byte(`{"v":8,"last":9,"writers":[{"nonce":"w"}],"frames":[{"size":1},{"seq":9,"size":2}]}`))
	f.Add([]byte{}, int64(0), []byte(`{"v":8,"last":9,"writers":[{"nonce":"w","first":true},{"seq":4,"nonce":"w","first":true}],"frames":[{"size":9999999999999999}]}`))
	f.Fuzz(func(t *testing.T, tail []byte, size int64, line []byte) {
		if size >= int64(len(tail)) {
			x, err := c.Index(tail, size)
			checkIndexTaken(t, x, err, tail, size)
		}
		var x Index
		if len(line) > fuzzLimit || json.Unmarshal(line, &x) != nil {
			return
		}
		sealed := sealIndex(c.index.Encode(line))
		size = int64(len(sealed))
		for _, f := range x.Frames {
			if f.Size > 0 && f.Size < 1<<50 {
				size += f.Size
			}
		}
		got, err := c.Index(sealed, size)
		checkIndexTaken(t, got, err, sealed, size)
	})
}

// sealIndex adds the framing of an index to a frame.
func sealIndex(frame []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, skippableMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(frame)+footerBytes))
	out = binary.LittleEndian.AppendUint32(append(out, frame...), uint32(len(frame)))
	return append(out, footerMagic...)
}

func checkIndexTaken(t *testing.T, x *Index, err error, tail []byte, size int64) {
	t.Helper()
	if short, ok := err.(*ShortError); ok {
		if short.Need <= int64(len(tail)) || short.Need > size {
			t.Fatalf("of %d bytes of %d it needs %d", len(tail), size, short.Need)
		}
		return
	}
	if err != nil {
		return
	}
	end, next := int64(0), x.First
	for i, f := range x.Frames {
		if frame, offset := x.Find(next); frame != i || offset != end || f.Seq != next {
			t.Fatalf("batch %d is in frame %d at %d, want frame %d at %d", next, frame, offset, i, end)
		}
		if frame, _ := x.Find(x.End(i)); frame != i {
			t.Fatalf("batch %d is in frame %d, want %d", x.End(i), frame, i)
		}
		end, next = end+f.Size, x.End(i)+1
	}
	if next != x.Last+1 || end >= size {
		t.Fatalf("frames go to batch %d of %d and byte %d of %d", next-1, x.Last, end, size)
	}
	for _, seq := range append(x.Claims(), x.First, x.Last) {
		if w, _ := x.writer(seq); w.Seq > seq || w.Nonce.Validate() != nil {
			t.Fatalf("batch %d is by %+v", seq, w)
		}
	}
}
