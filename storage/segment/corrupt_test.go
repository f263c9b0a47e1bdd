package segment_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage/segment"
)

// TestFrameRefuses checks that a frame is accepted only at its own place in its own segment.
func TestFrameRefuses(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	log := three()
	object, x := build(t, c, log)
	frames := framesOf(x, object)
	if len(frames) != 3 {
		t.Fatalf("%d frames", len(frames))
	}
	for i := range frames {
		for j, data := range frames {
			if _, err := c.Frame(x, i, data); (err == nil) != (i == j) {
				t.Errorf("frame %d as frame %d: %v", j, i, err)
			}
		}
		for name, bad := range map[string][]byte{
			"nothing": nil, "cut": frames[i][:len(frames[i])-1], "more": append(frames[i], 0), "twice": append(frames[i], frames[i]...),
		} {
			if _, err := c.Frame(x, i, bad); err == nil {
				t.Errorf("frame %d, %s: read", i, name)
			}
		}
	}
	swapped := lineOf(t, x, func(x *segment.Index) { x.Frames[0].Size, x.Frames[1].Size = x.Frames[1].Size, x.Frames[0].Size })
	if _, err := read(c, seal(slices.Concat(frames[1], frames[0], frames[2]), swapped)); err == nil {
		t.Error("with the first two frames swapped it was read")
	}
}

// TestIndexOfAnotherSegment checks that an index rejects frames of another segment, even if all
// numbers are equal.
func TestIndexOfAnotherSegment(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	object, x := build(t, c, three())
	for name, change := range map[string]func(*segment.Index){
		"other history before": func(x *segment.Index) { x.Prev[0]++ },
		"other history":        func(x *segment.Index) { x.Hash[0]++ },
		"other writer":         func(x *segment.Index) { x.Writers[1].Nonce = "w3" },
		"claim unknown":        func(x *segment.Index) { x.Writers[1].First = false },
		"claim too many":       func(x *segment.Index) { x.Writers[0].First = true },
		"claim elsewhere":      func(x *segment.Index) { x.Writers[1].Seq++ },
		"no second writer":     func(x *segment.Index) { x.Writers = x.Writers[:1] },
		"other epoch":          func(x *segment.Index) { x.Writers[0].Epoch++ },
		"frames moved":         func(x *segment.Index) { x.Frames[1].Seq++ },
		"more batches":         func(x *segment.Index) { x.Last++ },
	} {
		bad := seal(slices.Concat(framesOf(x, object)...), lineOf(t, x, change))
		if _, err := c.Index(bad, int64(len(bad))); err != nil {
			t.Errorf("%s: index alone: got error %v", name, err)
		}
		if _, err := read(c, bad); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// TestFrameContent covers lines that no builder writes, in a valid frame.
func TestFrameContent(t *testing.T) {
	c, f := segment.NewCodec(limit, 1), segment.NewFramer(limit, 1)
	h := after(6, "w1")
	_, x := build(t, c, []segment.Batch{h.next("{}\n"), h.claim("w2"), h.next("{}\n")})
	const good = `{"v":8,"seq":7,"prev":"06020300000000000000000000000000","nonce":"w1","first":false,"epoch":1,"records":1,"at":"2024-11-21T11:53:20.250Z"}
{}
{"nonce":"w2","first":true,"epoch":2,"records":0,"at":"2024-11-21T11:53:20.500Z"}
{"records":1,"at":"2024-11-21T11:53:20.750Z"}
{}
`
	for name, content := range map[string]string{
		"good":           good,
		"unknown member": strings.Replace(good, `"records":0`, `"records":0,"new":[{}]`, 1),
	} {
		if _, err := c.Frame(x, 0, f.Encode([]byte(content))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, content := range map[string]string{
		"no version":            strings.Replace(good, `"v":8,`, ``, 1),
		"other version":         strings.Replace(good, `"v":8,`, `"v":9,`, 1),
		"no number":             strings.Replace(good, `"seq":7,`, ``, 1),
		"other number":          strings.Replace(good, `"seq":7,`, `"seq":8,`, 1),
		"no prev":               strings.Replace(good, `"prev":"06020300000000000000000000000000",`, ``, 1),
		"other prev":            strings.Replace(good, `"prev":"06`, `"prev":"07`, 1),
		"no nonce":              strings.Replace(good, `"nonce":"w1",`, ``, 1),
		"other nonce":           strings.Replace(good, `"nonce":"w2"`, `"nonce":"w3"`, 1),
		"bad nonce":             strings.Replace(good, `"nonce":"w2"`, `"nonce":"w 2"`, 1),
		"not first":             strings.Replace(good, `"first":true`, `"first":false`, 1),
		"first":                 strings.Replace(good, `"first":false`, `"first":true`, 1),
		"first twice":           strings.Replace(good, `{"records":1,"at":"2024-11-21T11:53:20.7`, `{"nonce":"w2","first":true,"epoch":2,"records":1,"at":"2024-11-21T11:53:20.7`, 1),
		"other epoch":           strings.Replace(good, `"epoch":2`, `"epoch":3`, 1),
		"one record too many":   strings.Replace(good, `"records":0`, `"records":1`, 1),
		"one too few":           strings.Replace(good, `"records":1,"at":"2024-11-21T11:53:20.2`, `"records":0,"at":"2024-11-21T11:53:20.2`, 1),
		"more than there are":   strings.Replace(good, `{"records":1`, `{"records":2000000000`, 1),
		"fewer than none":       strings.Replace(good, `"records":0`, `"records":-1`, 1),
		"no moment":             strings.Replace(good, `2024-11-21T11:53:20.5`, `yesterday`, 1),
		"changed record":        strings.Replace(good, "\n{}\n", "\n[]\n", 1),
		"record is empty":       strings.Replace(good, "\n{}\n", "\n\n", 1),
		"no newline at the end": strings.TrimSuffix(good, "\n"),
		"batch missing":         strings.Replace(good, "{\"nonce\":\"w2\",\"first\":true,\"epoch\":2,\"records\":0,\"at\":\"2024-11-21T11:53:20.500Z\"}\n", "", 1),
		"header no JSON":        "x\n",
		"header no object":      "7\n",
	} {
		if content == good {
			t.Fatalf("%s changes nothing", name)
		}
		if got, err := c.Frame(x, 0, f.Encode([]byte(content))); err == nil {
			t.Errorf("%s: read %+v", name, got)
		}
	}
	// A frame with size and checksum but without content.
	if _, err := c.Frame(x, 0, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x24, 0, 1, 0, 0, 0x99, 0xe9, 0xd8, 0x51}); err == nil {
		t.Error("an empty frame was read")
	}
}

// TestFlippedBits flips every bit of a segment and truncates it everywhere: each result is rejected or
// reads as before.
func TestFlippedBits(t *testing.T) {
	c := segment.NewCodec(limit, 1)
	want := three()
	object, _ := build(t, c, want)
	harmless := 0
	for i := range object {
		for bit := range 8 {
			bad := slices.Clone(object)
			bad[i] ^= 1 << bit
			got, err := read(c, bad)
			if err != nil {
				continue
			}
			harmless++
			if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
				t.Fatalf("bit %d of byte %d (-want +got):\n%.1000s", bit, i, diff)
			}
		}
		if _, err := read(c, object[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes were read", i, len(object))
		}
	}
	t.Logf("%d bytes, %d bits mean nothing", len(object), harmless)
	if harmless > len(object)/10 {
		t.Errorf("%d bits of %d bytes mean nothing", harmless, len(object))
	}
}

// TestClaimedSizeIsRefusedBeforeMemoryIsTaken checks that the size in a header is compared with the
// limit before memory is allocated.
func TestClaimedSizeIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	const claim = 1 << 30
	c := segment.NewCodec(limit, 1)
	object, x := build(t, c, three())
	// One frame with a checksum and a false size: 8192 blocks that repeat a byte.
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe4}
	bomb = binary.LittleEndian.AppendUint64(bomb, claim)
	const block = 128 << 10
	for left := claim; left > 0; left -= block {
		head := block<<3 | 1<<1
		if left == block {
			head |= 1
		}
		bomb = append(bomb, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	bomb = append(bomb, 0, 0, 0, 0)
	frames := object[:x.Frames[0].Size]
	tail := binary.LittleEndian.AppendUint32(slices.Clone(frames), 0x184D2A5E)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(bomb)+8))
	tail = binary.LittleEndian.AppendUint32(append(tail, bomb...), uint32(len(bomb)))
	tail = append(tail, "PSEG"...)
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	_, frameErr := c.Frame(x, 0, bomb)
	_, indexErr := c.Index(tail, int64(len(tail)))
	runtime.ReadMemStats(&behind)
	for desc, err := range map[string]error{"frame": frameErr, "index": indexErr} {
		if err == nil || !strings.Contains(err.Error(), "content of 1073741824 bytes, limit") {
			t.Errorf("%s: %v", desc, err)
		}
	}
	if took := behind.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("refusing took %d bytes of memory", took)
	}
	// The limit of a batch does not apply to an index: a long one is read under any limit.
	var many []segment.Batch
	h := after(-1, "")
	for i := range 3000 {
		many = append(many, h.claim(segment.Nonce("writer-"+strings.Repeat("x", 40)+string(rune('a'+i%2)))))
	}
	small := segment.NewCodec(1<<10, 1)
	object, _ = build(t, small, many)
	if _, err := read(small, object); err != nil {
		t.Errorf("a segment of many writers under a small limit: %v", err)
	}
}
