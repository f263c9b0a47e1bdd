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

// SchemaVersion is the version of everything this package stores.
const SchemaVersion = segment.Version

// DefaultMaxBytes is how many bytes a batch or a journal may have when decoded,
// unless an option says otherwise.
const DefaultMaxBytes = 64 << 20

// maxSeq is the highest number a key has digits for.
const maxSeq = segment.MaxSeq

// storedHeader is the header line. The hash makes an object prove itself, also
// when it is the last one and no successor links to it.
type storedHeader struct {
	Header
	Hash Hash `json:"hash"`
}

// appendTo appends the header line, without its newline, as encoding/json would
// write it. What stands in it needs no escaping once the header is valid.
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

// EncodeBatch returns the object of a batch and its hash. The object is one zstd
// frame with a checksum; its content is JSON lines: a header line, then lines as
// they are. The header line holds v, seq, nonce, first, prev, epoch, at and hash.
func EncodeBatch(h Header, lines []byte) ([]byte, Hash, error) {
	return encodeBatch(segment.NewFramer(math.MaxInt32, 1), h, lines)
}

func encodeBatch(f *segment.Framer, h Header, lines []byte) ([]byte, Hash, error) {
	if err := errors.Join(h.Validate(), segment.CheckLines(lines)); err != nil {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %w", h.Seq, err)
	}
	const headerBytes = 384 // Enough for every header.
	hash := h.Chain(lines)
	content := storedHeader{Header: h, Hash: hash}.appendTo(make([]byte, 0, headerBytes+len(lines)))
	content = append(append(content, '\n'), lines...)
	if int64(len(content)) > f.Limit() {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %d bytes, limit %d", h.Seq, len(content), f.Limit())
	}
	// What is small is on its way while it would be compressed; its segment does that.
	const storedBytes = 16 << 10
	if len(content) <= storedBytes {
		return f.Store(content), hash, nil
	}
	return f.Encode(content), hash, nil
}

// DecodeBatch reverses EncodeBatch. It refuses another version, a wrong hash,
// anything but one whole frame, and content of more than limit bytes (0 is
// DefaultMaxBytes). Header fields it does not know are ignored.
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
