package segment

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyrun/parley/conversation"
)

const (
	// frameBytes is the size up to which batches are added to a frame, before compression. It is large
	// enough to compress well, and small enough to read a frame for one batch.
	frameBytes = 64 << 10
	// headBytes is an upper bound of the size of a header line.
	headBytes = 512
	// maxIndexBytes bounds the JSON of an index. It does not depend on the size limit of a batch.
	maxIndexBytes = 64 << 20

	skippableMagic = 0x184D2A5E
	footerMagic    = "PSEG"
	footerBytes    = 8
	skippableBytes = 8
)

// Index lists the writers and frames of a segment.
//
// Invariant: Frames and Writers are not empty. Both are in ascending order of Seq, and the first entry
// of each has Seq = First.
type Index struct {
	Version int      `json:"v"`
	First   int64    `json:"first"`   // Number of the first batch.
	Last    int64    `json:"last"`    // Number of the last batch.
	Prev    Hash     `json:"prev"`    // Hash of batch First-1, zero for batch 0.
	Hash    Hash     `json:"hash"`    // Hash of batch Last.
	Writers []Writer `json:"writers"` // In ascending order of Seq.
	Frames  []Frame  `json:"frames"`  // In ascending order of Seq; they fill the object from offset 0 to the index, without gaps.
}

// Writer is a run of consecutive batches with the same nonce and epoch.
type Writer struct {
	Seq   int64 `json:"seq"` // First batch of the run in this segment.
	Nonce Nonce `json:"nonce"`
	First bool  `json:"first,omitempty"` // Batch Seq is the first of the writer in the log: its claim, which is never deleted.
	Epoch int64 `json:"epoch"`
}

// Frame is a run of consecutive batches that are compressed together.
type Frame struct {
	Seq  int64 `json:"seq"`  // First batch of the frame.
	Size int64 `json:"size"` // Compressed size in bytes.
}

// Find returns the index of the frame that holds batch seq, and its offset in the object in bytes. seq
// must be in the segment.
func (x *Index) Find(seq int64) (frame int, offset int64) {
	frame, _ = slices.BinarySearchFunc(x.Frames, seq+1, func(f Frame, seq int64) int { return cmp.Compare(f.Seq, seq) })
	frame--
	for _, f := range x.Frames[:frame] {
		offset += f.Size
	}
	return frame, offset
}

// End returns the number of the last batch of a frame.
func (x *Index) End(frame int) int64 {
	if frame+1 < len(x.Frames) {
		return x.Frames[frame+1].Seq - 1
	}
	return x.Last
}

// Claims returns the numbers of the batches in the segment that are claims: the first batch of a
// writer.
func (x *Index) Claims() []int64 {
	var seqs []int64
	for _, w := range x.Writers {
		if w.First {
			seqs = append(seqs, w.Seq)
		}
	}
	return seqs
}

func (x *Index) validate() error {
	switch {
	case x.Version != Version:
		return fmt.Errorf("version %d, supported is %d", x.Version, Version)
	case x.First < 0 || x.Last < x.First || x.Last > MaxSeq:
		return fmt.Errorf("batches %d to %d are out of range", x.First, x.Last)
	case len(x.Frames) == 0 || x.Frames[0].Seq != x.First || len(x.Writers) == 0 || x.Writers[0].Seq != x.First:
		return fmt.Errorf("no frame or writer begins at batch %d", x.First)
	}
	for i, f := range x.Frames {
		if f.Size <= 0 || f.Size > MaxSeq || f.Seq > x.Last || i > 0 && f.Seq <= x.Frames[i-1].Seq {
			return fmt.Errorf("frame %d is out of order", i)
		}
	}
	for i, w := range x.Writers {
		if w.Nonce.Validate() != nil || w.Seq > x.Last || i > 0 && (w.Seq <= x.Writers[i-1].Seq || w.First && w.Nonce == x.Writers[i-1].Nonce) {
			return fmt.Errorf("writer %d is out of order", i)
		}
	}
	return nil
}

// headLine is the header line of a batch in a frame. It omits fields that follow from the batch
// before.
type headLine struct {
	Version *int              `json:"v"` // Set in the first batch of a frame, as are Seq and Prev.
	Seq     *int64            `json:"seq"`
	Prev    *Hash             `json:"prev"`
	Nonce   Nonce             `json:"nonce"` // Set in the first batch of a frame and of a run of a writer, as are First and Epoch.
	First   bool              `json:"first"`
	Epoch   int64             `json:"epoch"`
	Records int               `json:"records"` // Number of record lines that follow.
	At      conversation.Time `json:"at"`
}

// Codec encodes and decodes segments. It is safe for concurrent use. Each user makes its own, as of a
// [Framer].
type Codec struct {
	frames *Framer
	index  *Framer
	once   sync.Once
	enc    *zstd.Encoder // created on first use
}

// NewCodec returns a codec that decodes batches of up to limit bytes of lines. At most parallel calls
// decompress at once; others wait.
func NewCodec(limit int64, parallel int) *Codec {
	return &Codec{frames: NewFramer(limit+frameBytes+headBytes, parallel), index: NewFramer(maxIndexBytes, parallel)}
}

func (c *Codec) encoder() *zstd.Encoder {
	c.once.Do(func() {
		var err error
		// Higher levels take three times as long and save a few percent.
		c.enc, err = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(fmt.Sprintf("segment: zstd encoder options: %v", err))
		}
	})
	return c.enc
}

// Builder builds one segment. It belongs to one goroutine at a time.
type Builder struct {
	enc     *zstd.Encoder
	index   Index
	object  []byte
	content []byte // lines of the current frame, not compressed yet
	last    Header
}

// Build returns an empty builder.
func (c *Codec) Build() *Builder { return &Builder{enc: c.encoder(), index: Index{Version: Version}} }

// Add appends a batch, which must follow the previous one by number and hash. It copies batch.Lines.
// After an error the builder is unchanged.
func (b *Builder) Add(batch Batch) error {
	err := errors.Join(batch.Validate(), CheckLines(batch.Lines))
	begun := len(b.index.Writers) > 0
	switch {
	case err != nil:
	case begun && (batch.Seq != b.index.Last+1 || batch.Prev != b.index.Hash):
		err = fmt.Errorf("does not follow batch %d", b.index.Last)
	case begun && batch.Nonce == b.last.Nonce && batch.First:
		err = fmt.Errorf("second first batch of %s", batch.Nonce)
	case batch.Chain(batch.Lines) != batch.Hash:
		err = errors.New("hash does not match")
	}
	if err != nil {
		return fmt.Errorf("add batch %d: %w", batch.Seq, err)
	}
	if !begun {
		b.index.First, b.index.Prev = batch.Seq, batch.Prev
	}
	writer := !begun || batch.Nonce != b.last.Nonce || batch.Epoch != b.last.Epoch
	if writer {
		b.index.Writers = append(b.index.Writers, Writer{batch.Seq, batch.Nonce, batch.First, batch.Epoch})
	}
	if len(b.content) > 0 && len(b.content)+len(batch.Lines) > frameBytes {
		b.flush()
	}
	start := len(b.content) == 0
	if start {
		b.index.Frames = append(b.index.Frames, Frame{Seq: batch.Seq})
	}
	b.content = appendHead(b.content, batch, start, writer)
	b.content = append(b.content, batch.Lines...)
	b.index.Last, b.index.Hash, b.last = batch.Seq, batch.Hash, batch.Header
	return nil
}

// appendHead appends the header line of a batch, with the fields for the first batch of a frame or of
// a writer's run.
func appendHead(dst []byte, b Batch, start, writer bool) []byte {
	dst = append(dst, '{')
	if start {
		dst = fmt.Appendf(dst, `"v":%d,"seq":%d,"prev":"%s",`, b.Version, b.Seq, b.Prev)
	}
	if start || writer {
		dst = fmt.Appendf(dst, `"nonce":"%s","first":%t,"epoch":%d,`, b.Nonce, b.First, b.Epoch)
	}
	records := 0
	for _, c := range b.Lines {
		if c == '\n' {
			records++
		}
	}
	return fmt.Appendf(dst, "\"records\":%d,\"at\":\"%s\"}\n", records, b.At)
}

// flush compresses the current frame and appends it to the object.
func (b *Builder) flush() {
	before := len(b.object)
	b.object = b.enc.EncodeAll(b.content, b.object)
	b.index.Frames[len(b.index.Frames)-1].Size = int64(len(b.object) - before)
	b.content = b.content[:0]
}

// Size returns the compressed size of the complete frames, in bytes. It excludes the current frame and
// the index.
func (b *Builder) Size() int { return len(b.object) }

// Last returns the number of the last batch added, -1 before the first.
func (b *Builder) Last() int64 {
	if len(b.index.Writers) == 0 {
		return -1
	}
	return b.index.Last
}

// Finish returns the object and its index; the caller owns both. The builder must not be used
// afterwards.
func (b *Builder) Finish() ([]byte, *Index, error) {
	if len(b.index.Writers) == 0 {
		return nil, nil, errors.New("finish segment: no batches")
	}
	b.flush()
	line, err := json.Marshal(b.index)
	if err == nil && len(line) >= maxIndexBytes {
		err = fmt.Errorf("index takes %d bytes, limit %d", len(line), maxIndexBytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("finish segment: %w", err)
	}
	index := b.enc.EncodeAll(append(line, '\n'), nil)
	out := binary.LittleEndian.AppendUint32(b.object, skippableMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(index)+footerBytes))
	out = append(out, index...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(index)))
	return append(out, footerMagic...), &b.index, nil
}

// ShortError reports that the given tail of a segment does not contain its whole index.
type ShortError struct{ Need int64 } // Size in bytes of the tail that does.

// Error implements error.
func (e *ShortError) Error() string { return fmt.Sprintf("index takes the last %d bytes", e.Need) }

// Index decodes the index of a segment of size bytes from tail, the last bytes of the object. It
// returns a [*ShortError] if tail is too short.
func (c *Codec) Index(tail []byte, size int64) (*Index, error) {
	x, err := c.readIndex(tail, size)
	var short *ShortError
	if err != nil && !errors.As(err, &short) {
		err = fmt.Errorf("read segment index: %w", err)
	}
	return x, err
}

func (c *Codec) readIndex(tail []byte, size int64) (*Index, error) {
	n := int64(len(tail))
	if n < footerBytes || string(tail[n-4:]) != footerMagic {
		return nil, errors.New("no footer at the end")
	}
	length := int64(binary.LittleEndian.Uint32(tail[n-footerBytes:]))
	need := skippableBytes + length + footerBytes
	switch {
	case need > size || length > maxIndexBytes:
		return nil, fmt.Errorf("invalid index length of %d bytes", length)
	case need > n:
		return nil, &ShortError{need}
	}
	skippable := tail[n-need:]
	if binary.LittleEndian.Uint32(skippable) != skippableMagic || int64(binary.LittleEndian.Uint32(skippable[4:])) != length+footerBytes {
		return nil, errors.New("index is not in a skippable frame")
	}
	line, err := c.index.Decode(skippable[skippableBytes : skippableBytes+length])
	if err != nil {
		return nil, err
	}
	var x Index
	if err := json.Unmarshal(line, &x); err != nil {
		return nil, err
	}
	if err := x.validate(); err != nil {
		return nil, err
	}
	left := size - need
	for _, f := range x.Frames {
		if left -= f.Size; left < 0 {
			break // Subtract before the sum of sizes can overflow.
		}
	}
	if left != 0 {
		return nil, fmt.Errorf("sizes of frames differ from the object by %d bytes", left)
	}
	return &x, nil
}

// Frame decodes data, the bytes of one frame, and checks it against the index and its own hash chain.
// The caller owns the batches.
func (c *Codec) Frame(x *Index, frame int, data []byte) ([]Batch, error) {
	batches, err := c.decodeFrame(data)
	if err == nil {
		err = x.fits(frame, batches)
	}
	if err != nil {
		return nil, fmt.Errorf("read frame %d of segment: %w", frame, err)
	}
	return batches, nil
}

// fits returns an error if the decoded batches of a frame do not match the index.
func (x *Index) fits(frame int, batches []Batch) error {
	first, last := batches[0], batches[len(batches)-1]
	switch {
	case first.Seq != x.Frames[frame].Seq || last.Seq != x.End(frame):
		return fmt.Errorf("holds batches %d to %d, want %d to %d", first.Seq, last.Seq, x.Frames[frame].Seq, x.End(frame))
	case first.Seq == x.First && first.Prev != x.Prev, last.Seq == x.Last && last.Hash != x.Hash:
		return errors.New("hash chain does not match the index")
	}
	for _, b := range batches {
		w, first := x.writer(b.Seq)
		if b.Nonce != w.Nonce || b.Epoch != w.Epoch || b.First != first {
			return fmt.Errorf("writer %[2]s of batch %[1]d does not match the index", b.Seq, b.Nonce)
		}
	}
	return nil
}

// writer returns the run of a writer that batch seq belongs to. first reports whether the batch is a
// claim.
func (x *Index) writer(seq int64) (w Writer, first bool) {
	i, found := slices.BinarySearchFunc(x.Writers, seq, func(w Writer, seq int64) int { return cmp.Compare(w.Seq, seq) })
	if !found {
		i--
	}
	return x.Writers[i], found && x.Writers[i].First
}

func (c *Codec) decodeFrame(data []byte) ([]Batch, error) {
	content, err := c.frames.Decode(data)
	if err != nil {
		return nil, err
	}
	var batches []Batch
	for len(content) > 0 {
		line, rest, err := CutLine(content)
		if err != nil {
			return nil, err
		}
		var head headLine
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, fmt.Errorf("read header line: %w", err)
		}
		b, err := head.header(batches)
		if err != nil {
			return nil, err
		}
		n, err := sizeOfLines(rest, head.Records)
		if err != nil {
			return nil, fmt.Errorf("batch %d: %w", b.Seq, err)
		}
		b.Lines, content = rest[:n:n], rest[n:]
		if err := CheckLines(b.Lines); err != nil {
			return nil, fmt.Errorf("batch %d: %w", b.Seq, err)
		}
		b.Hash = b.Chain(b.Lines)
		batches = append(batches, b)
	}
	if len(batches) == 0 {
		return nil, errors.New("frame is empty")
	}
	return batches, nil
}

// header returns the complete header of a batch: the fields of its line, and those that follow from
// the batches before it in the frame. Hash and Lines are not set.
func (h *headLine) header(before []Batch) (Batch, error) {
	b := Batch{Header: Header{Version: Version, Nonce: h.Nonce, First: h.First, Epoch: h.Epoch, At: h.At}}
	switch n := len(before); {
	case h.Records < 0:
		return b, fmt.Errorf("batch of %d records", h.Records)
	case n == 0 && (h.Version == nil || h.Seq == nil || h.Prev == nil || h.Nonce == ""):
		return b, errors.New("header line of the first batch is incomplete")
	case n == 0:
		b.Version, b.Seq, b.Prev = *h.Version, *h.Seq, *h.Prev
	default:
		last := before[n-1]
		b.Seq, b.Prev = last.Seq+1, last.Hash
		if h.Nonce == "" {
			b.Nonce, b.First, b.Epoch = last.Nonce, false, last.Epoch
		}
	}
	return b, b.Validate()
}

// sizeOfLines returns the size in bytes of the first n lines of content, with their newlines.
func sizeOfLines(content []byte, lines int) (int, error) {
	n := 0
	for range lines {
		line, _, err := CutLine(content[n:])
		if err != nil {
			return 0, fmt.Errorf("fewer records than in the header: %w", err)
		}
		n += len(line) + 1
	}
	return n, nil
}
