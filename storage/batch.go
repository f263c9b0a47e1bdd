package storage

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/parleyrun/parley/storage/segment"
)

// SchemaVersion is the format version of every object of this package.
const SchemaVersion = segment.Version

// DefaultMaxBytes is the default limit, in bytes, of a decoded batch or journal.
const DefaultMaxBytes = 64 << 20

// maxSeq is the highest sequence number that fits the digits of a key.
const maxSeq = segment.MaxSeq

// storedHeader is the header line of a batch object. Its hash lets a reader verify the object alone,
// even if no successor links to it.
type storedHeader struct {
	Header
	Hash Hash `json:"hash"`
}

// appendTo appends the header line to dst, without a newline, in the form of encoding/json. A valid
// header holds no character that needs escaping.
func (h storedHeader) appendTo(dst []byte) []byte {
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, int64(h.Version), 10)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, h.Seq, 10)
	dst = append(dst, `,"nonce":"`...)
	dst = append(dst, h.Nonce...)
	dst = append(dst, '"')
	if h.First {
		dst = append(dst, `,"first":true`...)
	}
	dst = append(dst, `,"prev":"`...)
	dst = hex.AppendEncode(dst, h.Prev[:])
	dst = append(dst, `","epoch":`...)
	dst = strconv.AppendInt(dst, h.Epoch, 10)
	dst = append(dst, `,"at":"`...)
	dst = append(dst, h.At.String()...)
	dst = append(dst, `","hash":"`...)
	dst = hex.AppendEncode(dst, h.Hash[:])
	return append(dst, `"}`...)
}

// EncodeBatch returns the object of a batch and its hash. The object is one zstd frame with a
// checksum. Its content is a header line, then the record lines unchanged. The header line holds v,
// seq, nonce, first, prev, epoch, at and hash.
func EncodeBatch(h Header, lines []byte) ([]byte, Hash, error) {
	return encodeBatch(segment.NewFramer(math.MaxInt32, 1), h, lines)
}

func encodeBatch(f *segment.Framer, h Header, lines []byte) ([]byte, Hash, error) {
	if err := errors.Join(h.Validate(), segment.CheckLines(lines)); err != nil {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %w", h.Seq, err)
	}
	const headerBytes = 384 // Enough for any header.
	hash := h.Chain(lines)
	content := storedHeader{Header: h, Hash: hash}.appendTo(make([]byte, 0, headerBytes+len(lines)))
	content = append(append(content, '\n'), lines...)
	if int64(len(content)) > f.Limit() {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %d bytes, limit %d", h.Seq, len(content), f.Limit())
	}
	// Small batches stay uncompressed to save latency; compaction compresses them in a segment.
	const storedBytes = 16 << 10
	if len(content) <= storedBytes {
		return f.Store(content), hash, nil
	}
	return f.Encode(content), hash, nil
}

// DecodeBatch reverses [EncodeBatch]. It rejects another version, a wrong hash, anything but one whole
// frame, and content above limit bytes (0 is DefaultMaxBytes). It ignores unknown header fields.
func DecodeBatch(data []byte, limit int64) (Batch, error) {
	return decodeBatch(segment.NewFramer(orDefault(limit, DefaultMaxBytes), 1), data)
}

func decodeBatch(f *segment.Framer, data []byte) (Batch, error) {
	content, err := f.Decode(data)
	if err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	line, lines, err := segment.CutLine(content)
	if err != nil {
		return Batch{}, fmt.Errorf("decode batch header: %w", err)
	}
	var h storedHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return Batch{}, fmt.Errorf("decode batch header: %w", err)
	}
	if err := errors.Join(h.Validate(), segment.CheckLines(lines)); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	if hash := h.Chain(lines); hash != h.Hash {
		return Batch{}, fmt.Errorf("decode batch %d: hash is %s, header says %s", h.Seq, hash, h.Hash)
	}
	return Batch{Header: h.Header, Lines: lines, Hash: h.Hash}, nil
}
