package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// SizeError reports that the content of a frame exceeds the limit. Nothing of it was decoded.
type SizeError struct {
	Size  uint64 // Content size in the frame header, in bytes.
	Limit int64  // Limit in bytes.
}

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("content of %d bytes, limit %d", e.Size, e.Limit)
}

// ContentSize returns the content size in the header of a frame; 0 if it has none.
func ContentSize(data []byte) int64 {
	var h zstd.Header
	if err := h.Decode(data); err != nil || !h.HasFCS || h.FrameContentSize > math.MaxInt64 {
		return 0
	}
	return int64(h.FrameContentSize)
}

// Framer encodes lines as one zstd frame and decodes it. It is safe for concurrent use.
//
// Each user owns a Framer; there is no global one, because its channels belong to the synctest bubble
// that created them.
type Framer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	max int64
}

// NewFramer returns a framer that decodes up to limit bytes. At most parallel calls decode
// concurrently.
func NewFramer(limit int64, parallel int) *Framer {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(parallel))
	if err != nil {
		panic(fmt.Sprintf("segment: zstd encoder options: %v", err))
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(limit)), zstd.WithDecoderConcurrency(parallel))
	if err != nil {
		panic(fmt.Sprintf("segment: zstd decoder options: %v", err))
	}
	return &Framer{enc: enc, dec: dec, max: limit}
}

// Limit returns the maximum decoded size of a frame in bytes.
func (f *Framer) Limit() int64 { return f.max }

// Encode returns the frame of lines. It allocates a buffer of half their size, which fits most text,
// and grows it once if needed.
func (f *Framer) Encode(lines []byte) []byte {
	const overhead = 64
	return f.enc.EncodeAll(lines, make([]byte, 0, len(lines)/2+overhead))
}

// Store returns the frame of lines without compression, which saves time when size does not matter.
// Decode and every other zstd decoder accepts it.
func (f *Framer) Store(lines []byte) []byte {
	const (
		magic        = 0xFD2FB528
		descriptor   = 2<<6 | 1<<5 | 1<<2 // 4 bytes of size, single segment, checksum
		maxBlock     = 128 << 10
		frameBytes   = 4 + 1 + 4 + 4
		blockBytes   = 3
		isLast, bits = 1, 3
	)
	dst := make([]byte, 0, frameBytes+len(lines)+blockBytes*(1+len(lines)/maxBlock))
	dst = binary.LittleEndian.AppendUint32(dst, magic)
	dst = append(dst, descriptor)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(lines)))
	for rest := lines; ; {
		block := rest[:min(len(rest), maxBlock)]
		rest = rest[len(block):]
		head := uint32(len(block)) << bits // Type 0: raw.
		if len(rest) == 0 {
			head |= isLast
		}
		dst = append(dst, byte(head), byte(head>>8), byte(head>>16))
		dst = append(dst, block...)
		if len(rest) == 0 {
			return binary.LittleEndian.AppendUint32(dst, uint32(xxhash.Sum64(lines)))
		}
	}
}

// Decode returns the content of data, which must be exactly one frame with a content size and a
// checksum.
func (f *Framer) Decode(data []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(data); err != nil {
		return nil, fmt.Errorf("read frame header: %w", err)
	}
	switch {
	case h.Skippable || !h.HasFCS || !h.HasCheckSum || h.DictionaryID != 0:
		return nil, errors.New("read frame header: want a frame with size and checksum")
	case h.FrameContentSize > uint64(f.max):
		return nil, fmt.Errorf("read frame header: %w", &SizeError{Size: h.FrameContentSize, Limit: f.max})
	}
	if n := frameSize(data, h.HeaderSize); n != len(data) {
		return nil, errors.New("read frame: want exactly one")
	}
	lines, err := f.dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return lines, nil
}

// frameSize returns the size of the frame at the start of data, whose header has the given size, or -1
// if it is truncated. It walks the block headers: 3 bytes, little endian; bit 0 last block, bits 1-2
// type, the rest size.
func frameSize(data []byte, header int) int {
	const checksum = 4
	for at := header; at+3 <= len(data); {
		block := int(data[at]) | int(data[at+1])<<8 | int(data[at+2])<<16
		last, kind, size := block&1 == 1, block>>1&3, block>>3
		if kind == 1 { // One byte, repeated.
			size = 1
		}
		at += 3 + size
		if last && at+checksum <= len(data) {
			return at + checksum
		}
	}
	return -1
}
