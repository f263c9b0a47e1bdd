package segment_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/storage/segment"
)

func TestRoundTrip(t *testing.T) {
	log := func(from int64, nonce segment.Nonce, make func(*history) []segment.Batch) []segment.Batch {
		return make(after(from, nonce))
	}
	logs := map[string][]segment.Batch{
		"one":       log(-1, "", func(h *history) []segment.Batch { return []segment.Batch{h.batch("w", "{}\n")} }),
		"one claim": log(-1, "", func(h *history) []segment.Batch { return []segment.Batch{h.claim("w")} }),
		"claims": log(-1, "", func(h *history) []segment.Batch {
			return []segment.Batch{h.claim("a"), h.claim("b"), h.next(""), h.claim("c"), h.next("")}
		}),
		"larger than a frame": log(4, "w", func(h *history) []segment.Batch {
			return []segment.Batch{h.next("{}\n"), h.next(strings.Repeat("{\"n\":1}\n", 100_000)), h.next("{}\n")}
		}),
		"as large as may be": log(4, "w", func(h *history) []segment.Batch {
			return []segment.Batch{h.next("\"" + strings.Repeat("x", limit-3) + "\"\n")}
		}),
		"the last there can be": log(segment.MaxSeq-2, "w", func(h *history) []segment.Batch {
			return []segment.Batch{h.next("{}\n"), h.next("{}\n")}
		}),
		"a writer whose epoch changes": log(4, "w", func(h *history) []segment.Batch {
			one := h.next("{}\n")
			h.head.Epoch = -9
			return []segment.Batch{one, h.next("{}\n"), h.next("{}\n")}
		}),
		"a writer who comes back": log(4, "a", func(h *history) []segment.Batch {
			batches := []segment.Batch{h.next("{}\n"), h.claim("b")}
			return append(batches, rehashed(h.batch("a", "{}\n"), func(b *segment.Batch) { b.First = false }))
		}),
		"three frames": three(),
	}
	for seed := range uint64(20) {
		logs[fmt.Sprint("seed ", seed)] = seeded(seed)
	}
	c := segment.NewCodec(limit, 1)
	for name, want := range logs {
		t.Run(name, func(t *testing.T) {
			object, index := build(t, c, want)
			got, err := read(c, object)
			if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%.2000s", err, diff)
			}
			stored, err := c.Index(object, int64(len(object)))
			if diff := cmp.Diff(index, stored); err != nil || diff != "" {
				t.Errorf("index: %v (-finished +stored):\n%s", err, diff)
			}
			checkIndex(t, index, want)
			again, _ := build(t, c, got)
			if !bytes.Equal(object, again) {
				t.Error("the same batches make another object")
			}
		})
	}
}

// checkIndex compares an index with its batches.
func checkIndex(t *testing.T, x *segment.Index, batches []segment.Batch) {
	t.Helper()
	first, last := batches[0], batches[len(batches)-1]
	if x.Version != 8 || x.First != first.Seq || x.Prev != first.Prev || x.Last != last.Seq || x.Hash != last.Hash {
		t.Errorf("index of %d to %d: got %+v", first.Seq, last.Seq, x)
	}
	var claims []int64
	starts, offset := map[int64]int64{}, int64(0)
	for _, f := range x.Frames {
		starts[f.Seq] = offset
		offset += f.Size
	}
	frame := -1
	for _, b := range batches {
		if b.First {
			claims = append(claims, b.Seq)
		}
		if _, ok := starts[b.Seq]; ok {
			frame++
		}
		got, at := x.Find(b.Seq)
		if got != frame || at != starts[x.Frames[frame].Seq] {
			t.Fatalf("batch %d is found in frame %d at %d, want frame %d at %d", b.Seq, got, at, frame, starts[x.Frames[frame].Seq])
		}
		if _, ends := starts[b.Seq+1]; ends != (x.End(frame) == b.Seq) && b.Seq != x.Last {
			t.Fatalf("frame %d ends at %d", frame, x.End(frame))
		}
	}
	if frame != len(x.Frames)-1 || x.End(frame) != x.Last {
		t.Errorf("the batches go to frame %d of %d, the last ends at %d", frame, len(x.Frames), x.End(len(x.Frames)-1))
	}
	if got := x.Claims(); !slices.Equal(got, claims) {
		t.Errorf("claims %v, want %v", got, claims)
	}
}

// TestBytes pins the stored bytes, because other versions and tools depend on them.
func TestBytes(t *testing.T) {
	h := after(-1, "")
	batches := []segment.Batch{h.claim("w1"), h.next("{\"a\":1}\n{\"b\":2}\n"), h.batch("w2", "{\"c\":3}\n")}
	c := segment.NewCodec(limit, 1)
	object, index := build(t, c, batches)
	const content = `{"v":8,"seq":0,"prev":"00000000000000000000000000000000","nonce":"w1","first":true,"epoch":2,"records":0,"at":"2024-11-21T11:53:20.250Z"}
{"records":2,"at":"2024-11-21T11:53:20.500Z"}
{"a":1}
{"b":2}
{"nonce":"w2","first":true,"epoch":3,"records":1,"at":"2024-11-21T11:53:20.750Z"}
{"c":3}
`
	frame := object[:index.Frames[0].Size]
	if got := plain(t, frame); string(got) != content {
		t.Errorf("the frame holds\n%s", got)
	}
	tail := object[len(frame):]
	if magic := []byte{0x5e, 0x2a, 0x4d, 0x18}; !bytes.Equal(tail[:4], magic) || string(tail[len(tail)-4:]) != "PSEG" {
		t.Errorf("got index in %x", tail)
	}
	want := fmt.Sprintf(`{"v":8,"first":0,"last":2,"prev":"00000000000000000000000000000000","hash":"%s",`+
		`"writers":[{"seq":0,"nonce":"w1","first":true,"epoch":2},{"seq":2,"nonce":"w2","first":true,"epoch":3}],"frames":[{"seq":0,"size":%d}]}`+"\n",
		batches[2].Hash, len(frame))
	if got := plain(t, tail[8:len(tail)-8]); string(got) != want {
		t.Errorf("the index is\n%s, want\n%s", got, want)
	}
}

// plain decompresses with a generic zstd decoder.
func plain(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestAnyToolReadsASegment reads the whole object, including its index, with a streaming decoder and
// as JSON lines. It uses only one fact of the format: header lines count their records.
func TestAnyToolReadsASegment(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	for seed := range uint64(6) {
		batches := seeded(seed)
		object, _ := build(t, c, batches)
		r, err := zstd.NewReader(bytes.NewReader(object), zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(r)
		next := func() (line []byte, object map[string]any) {
			if !lines.Scan() {
				t.Fatalf("seed %d: the lines end early: %v", seed, lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
				t.Fatalf("seed %d: %q is no JSON object: %v", seed, lines.Text(), err)
			}
			return lines.Bytes(), object
		}
		for _, b := range batches {
			_, head := next()
			if got, want := head["records"], float64(bytes.Count(b.Lines, []byte("\n"))); got != want || head["at"] != b.At.String() {
				t.Fatalf("seed %d: batch %d begins with %v, want %v records", seed, b.Seq, head, want)
			}
			for want := range bytes.Lines(b.Lines) {
				if got, _ := next(); string(got) != string(bytes.TrimSuffix(want, []byte("\n"))) {
					t.Fatalf("seed %d: batch %d has the record %s, want %s", seed, b.Seq, got, want)
				}
			}
		}
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("seed %d: there is more: %q, %v", seed, lines.Text(), lines.Err())
		}
		r.Close()
	}
}

// TestBuilderRefuses checks that a batch that does not follow is rejected and leaves the builder
// unchanged.
func TestBuilderRefuses(t *testing.T) {
	h := after(6, "w1")
	before := []segment.Batch{h.next("{\"a\":1}\n"), h.claim("w2")}
	good := h.next("{\"b\":2}\n")
	c := segment.NewCodec(limit, 1)
	want, _ := build(t, c, append(slices.Clone(before), good))
	for name, bad := range map[string]segment.Batch{
		"again":             before[1],
		"later":             rehashed(good, func(b *segment.Batch) { b.Seq++ }),
		"earlier":           rehashed(good, func(b *segment.Batch) { b.Seq-- }),
		"other prev":        rehashed(good, func(b *segment.Batch) { b.Prev[3]++ }),
		"other hash":        {Header: good.Header, Lines: good.Lines, Hash: segment.Hash{1}},
		"other lines":       {Header: good.Header, Lines: []byte("{}\n"), Hash: good.Hash},
		"first twice":       rehashed(good, func(b *segment.Batch) { b.First = true }),
		"no nonce":          rehashed(good, func(b *segment.Batch) { b.Nonce = "" }),
		"nonce with quote":  rehashed(good, func(b *segment.Batch) { b.Nonce = `a"b` }),
		"long nonce":        rehashed(good, func(b *segment.Batch) { b.Nonce = segment.Nonce(strings.Repeat("n", 65)) }),
		"other version":     rehashed(good, func(b *segment.Batch) { b.Version = 7 }),
		"no newline at end": rehashed(good, func(b *segment.Batch) { b.Lines = []byte("{}") }),
		"empty line":        rehashed(good, func(b *segment.Batch) { b.Lines = []byte("{}\n\n{}\n") }),
		"empty first line":  rehashed(good, func(b *segment.Batch) { b.Lines = []byte("\n{}\n") }),
	} {
		t.Run(name, func(t *testing.T) {
			b := c.Build()
			for _, batch := range before {
				if err := b.Add(batch); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Add(bad); err == nil {
				t.Error("it was added")
			}
			if b.Last() != 8 {
				t.Errorf("the last is %d", b.Last())
			}
			if err := b.Add(good); err != nil {
				t.Errorf("the right one, afterwards: %v", err)
			}
			if got, _, err := b.Finish(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the object differs from one without the attempt: %v", err)
			}
		})
	}
}

func TestBuilderBegins(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	b := c.Build()
	if b.Last() != -1 || b.Size() != 0 {
		t.Errorf("empty builder: last %d, %d bytes", b.Last(), b.Size())
	}
	if _, _, err := b.Finish(); err == nil {
		t.Error("a segment without a batch was finished")
	}
	for name, bad := range map[string]segment.Batch{
		"batch 0 with a predecessor": rehashed(after(-1, "w").next(""), func(b *segment.Batch) { b.Prev[0] = 1 }),
		"negative":                   rehashed(after(-1, "w").next(""), func(b *segment.Batch) { b.Seq = -1 }),
		"17 digits":                  rehashed(after(5, "w").next(""), func(b *segment.Batch) { b.Seq = 1e16 }),
	} {
		if err := c.Build().Add(bad); err == nil {
			t.Errorf("%s was added", name)
		}
	}
	b = c.Build()
	lines := []byte("{\"a\":1}\n")
	batch := after(5, "w").next(string(lines))
	batch.Lines = lines
	if err := b.Add(batch); err != nil {
		t.Fatal(err)
	}
	clear(lines) // The builder must not retain them.
	object, _, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(c, object); err != nil || string(got[0].Lines) != "{\"a\":1}\n" {
		t.Errorf("read %+v, %v", got, err)
	}
}

// TestIndexOfAShortTail checks that the needed size is exact, to the byte.
func TestIndexOfAShortTail(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	for seed := range uint64(10) {
		object, want := build(t, c, seeded(seed))
		size := int64(len(object))
		need := size
		for _, f := range want.Frames {
			need -= f.Size
		}
		for _, n := range []int64{8, 9, need / 2, need - 1} {
			var short *segment.ShortError
			if _, err := c.Index(object[size-n:], size); !errors.As(err, &short) || short.Need != need {
				t.Errorf("seed %d: %d bytes of the end: %v, want a need of %d", seed, n, err, need)
			}
		}
		for _, n := range []int64{need, min(need+1, size), size} {
			got, err := c.Index(object[size-n:], size)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("seed %d: %d bytes of the end: %v (-want +got):\n%s", seed, n, err, diff)
			}
		}
		for _, n := range []int64{0, 1, 7} {
			var short *segment.ShortError
			if _, err := c.Index(object[size-n:], size); err == nil || errors.As(err, &short) {
				t.Errorf("seed %d: %d bytes of the end: %v", seed, n, err)
			}
		}
	}
}

func TestIndexRefuses(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	object, x := build(t, c, three())
	frames := object[:x.Frames[0].Size+x.Frames[1].Size+x.Frames[2].Size]
	if _, err := read(c, seal(frames, lineOf(t, x, func(*segment.Index) {}))); err != nil {
		t.Fatalf("an index put together here: %v", err)
	}
	for name, change := range map[string]func(*segment.Index){
		"no version":        func(x *segment.Index) { x.Version = 0 },
		"newer version":     func(x *segment.Index) { x.Version = 9 },
		"negative":          func(x *segment.Index) { x.First, x.Frames[0].Seq, x.Writers[0].Seq = -1, -1, -1 },
		"ends too early":    func(x *segment.Index) { x.Last = x.First - 1 },
		"17 digits":         func(x *segment.Index) { x.Last = 1e16 },
		"no frame":          func(x *segment.Index) { x.Frames = nil },
		"no writer":         func(x *segment.Index) { x.Writers = nil },
		"frames later":      func(x *segment.Index) { x.Frames[0].Seq++ },
		"writers later":     func(x *segment.Index) { x.Writers[0].Seq++ },
		"frame twice":       func(x *segment.Index) { x.Frames[2].Seq = x.Frames[1].Seq },
		"frame beyond":      func(x *segment.Index) { x.Frames[2].Seq = x.Last + 1 },
		"frame of nothing":  func(x *segment.Index) { x.Frames[0].Size, x.Frames[1].Size = 0, x.Frames[0].Size+x.Frames[1].Size },
		"negative frame":    func(x *segment.Index) { x.Frames[0].Size *= -1 },
		"shorter frame":     func(x *segment.Index) { x.Frames[1].Size-- },
		"longer frame":      func(x *segment.Index) { x.Frames[1].Size++ },
		"sizes wrap around": wrapAround,
		"writer twice":      func(x *segment.Index) { x.Writers[1].Seq = x.Writers[0].Seq },
		"writer beyond":     func(x *segment.Index) { x.Writers[1].Seq = x.Last + 1 },
		"nonce":             func(x *segment.Index) { x.Writers[1].Nonce = "a b" },
		"first twice":       func(x *segment.Index) { x.Writers[0].Nonce = x.Writers[1].Nonce },
	} {
		if got, err := c.Index(seal(frames, lineOf(t, x, change)), 0); err == nil {
			t.Errorf("%s with no size: read %+v", name, got)
		}
		bad := seal(frames, lineOf(t, x, change))
		if got, err := c.Index(bad, int64(len(bad))); err == nil {
			t.Errorf("%s: read %+v", name, got)
		}
	}
	spoiled := func(at int, b byte) []byte {
		d := slices.Clone(object)
		d[(at+len(d))%len(d)] = b
		return d
	}
	for name, bad := range map[string][]byte{
		"nothing":           nil,
		"another footer":    spoiled(-1, 'g'),
		"length beyond":     spoiled(-5, 1),
		"length far beyond": spoiled(-5, 0xff),
		"another magic":     spoiled(len(frames), 0x50),
		"another size":      spoiled(len(frames)+4, object[len(frames)+4]+1),
		"no JSON":           seal(frames, []byte("x\n")),
		"an array":          seal(frames, []byte("[]\n")),
		"two objects":       seal(frames, []byte("{}\n{}\n")),
		"no line":           seal(frames, nil),
	} {
		if got, err := c.Index(bad, int64(len(bad))); err == nil {
			t.Errorf("%s: read %+v", name, got)
		}
	}
}

// wrapAround adds frames whose sizes have the right sum modulo 2^64.
func wrapAround(x *segment.Index) {
	x.Last = segment.MaxSeq
	seq, more := x.Frames[2].Seq, uint64(math.MaxUint64)
	for more > 0 {
		seq++
		n := min(more, 1e16-1)
		x.Frames = append(x.Frames, segment.Frame{Seq: seq, Size: int64(n)})
		more -= n
	}
	x.Frames[0].Size++
}

// TestFrameThatHoldsTooMuch checks that a small frame with content above the limit is rejected by its
// size, before decoding.
func TestFrameThatHoldsTooMuch(t *testing.T) {
	data := segment.NewFramer(1<<30, 1).Encode(make([]byte, 8<<20))
	if got := segment.ContentSize(data); got != 8<<20 || len(data) > 64<<10 {
		t.Errorf("content of %d bytes in %d, want %d", got, len(data), 8<<20)
	}
	_, err := segment.NewFramer(1<<20, 1).Decode(data)
	var size *segment.SizeError
	if !errors.As(err, &size) || size.Size != 8<<20 || size.Limit != 1<<20 {
		t.Errorf("got error %v, want a size error", err)
	}
}
