package segment_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyrun/parley/storage/segment"
)

const limit = 1 << 20

// history makes consecutive batches of a log.
type history struct {
	head segment.Header // of the batch before
}

// after returns a history that continues after a batch of the given writer.
func after(seq int64, nonce segment.Nonce) *history {
	h := &history{segment.Header{Version: 8, Seq: seq, Nonce: nonce, Epoch: 1, At: 1_732_190_000_000}}
	if seq >= 0 {
		h.head.Prev = segment.Hash{byte(seq), 2, 3}
	}
	return h
}

// next returns a batch of the current writer, claim one of a new writer.
func (h *history) next(lines string) segment.Batch     { return h.batch(h.head.Nonce, lines) }
func (h *history) claim(n segment.Nonce) segment.Batch { return h.batch(n, "") }

func (h *history) batch(nonce segment.Nonce, lines string) segment.Batch {
	head := h.head
	head.Seq++
	head.At += 250
	if head.First = nonce != head.Nonce; head.First {
		head.Nonce = nonce
		head.Epoch++
	}
	b := segment.Batch{Header: head, Lines: []byte(lines), Hash: head.Chain([]byte(lines))}
	h.head, h.head.Prev = head, b.Hash
	return b
}

// seeded returns a log determined by seed: claims, batches of a few short records, some of many, and a
// few that are longer than a frame.
func seeded(seed uint64) []segment.Batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := after(-1, "")
	if seed%2 == 1 {
		h = after(rng.Int64N(1e15), "before")
	}
	var batches []segment.Batch
	for n := 1 + rng.IntN(150); len(batches) < n; {
		if h.head.Nonce == "" || rng.IntN(20) == 0 {
			batches = append(batches, h.claim(segment.Nonce(fmt.Sprintf("w%d-%d", seed, len(batches)))))
			continue
		}
		records := rng.IntN(6)
		switch rng.IntN(60) {
		case 0:
			records = 2000
		case 1:
			records = 300
		}
		var lines strings.Builder
		for range records {
			fmt.Fprintf(&lines, "{\"type\":\"delta\",\"text\":\"%x\"}\n", rng.Uint64())
		}
		batches = append(batches, h.next(lines.String()))
	}
	return batches
}

// three returns a small log of three frames.
func three() []segment.Batch {
	h := after(6, "w1")
	wide := strings.Repeat("{\"type\":\""+strings.Repeat("a", 4000)+"\"}\n", 10)
	return []segment.Batch{h.next("{\"a\":1}\n"), h.next(wide), h.claim("w2"), h.next(wide), h.next("{\"b\":1}\n{\"c\":2}\n"), h.next(wide)}
}

func build(t testing.TB, c *segment.Codec, batches []segment.Batch) ([]byte, *segment.Index) {
	t.Helper()
	b := c.Build()
	for _, batch := range batches {
		if err := b.Add(batch); err != nil {
			t.Fatal(err)
		}
	}
	object, index, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return object, index
}

// read returns the batches of a segment, frame by frame, and checks that each frame continues the one
// before.
func read(c *segment.Codec, object []byte) ([]segment.Batch, error) {
	x, err := c.Index(object, int64(len(object)))
	if err != nil {
		return nil, err
	}
	return readFrames(c, x, object)
}

func readFrames(c *segment.Codec, x *segment.Index, object []byte) (all []segment.Batch, err error) {
	for i, f := range x.Frames {
		batches, err := c.Frame(x, i, object[:f.Size])
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 && batches[0].Prev != all[n-1].Hash {
			return nil, errors.New("a frame does not follow the one before")
		}
		all, object = append(all, batches...), object[f.Size:]
	}
	return all, nil
}

// framesOf splits an object into its frames.
func framesOf(x *segment.Index, object []byte) (frames [][]byte) {
	for _, f := range x.Frames {
		frames, object = append(frames, object[:f.Size:f.Size]), object[f.Size:]
	}
	return frames
}

// seal appends any index line to frames.
func seal(frames, line []byte) []byte {
	index := segment.NewFramer(64<<20, 1).Encode(line)
	out := binary.LittleEndian.AppendUint32(frames[:len(frames):len(frames)], 0x184D2A5E)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(index)+8))
	out = binary.LittleEndian.AppendUint32(append(out, index...), uint32(len(index)))
	return append(out, "PSEG"...)
}

// lineOf returns the line of a modified index.
func lineOf(t testing.TB, x *segment.Index, change func(*segment.Index)) []byte {
	t.Helper()
	before, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	var c segment.Index
	if err := json.Unmarshal(before, &c); err != nil {
		t.Fatal(err)
	}
	change(&c)
	line, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}

// rehashed returns a modified batch with a valid hash.
func rehashed(b segment.Batch, change func(*segment.Batch)) segment.Batch {
	change(&b)
	b.Hash = b.Chain(b.Lines)
	return b
}
