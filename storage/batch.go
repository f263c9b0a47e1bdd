package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/parleyrun/parley/conversation"
)

// SchemaVersion is the version of everything this package stores.
const SchemaVersion = 8

// maxSeq is the highest number a key has digits for.
const maxSeq = 1e16 - 1

// Header is the first line of a batch object.
type Header struct {
	Version int               `json:"v"`
	Seq     int64             `json:"seq"`             // Number of the batch, from 0; equal to its key.
	Nonce   Nonce             `json:"nonce"`           // Writer that stored it.
	First   bool              `json:"first,omitempty"` // First batch of this writer: never deleted while the conversation lives.
	Prev    Hash              `json:"prev"`            // Hash of batch Seq-1, zero for batch 0.
	Epoch   int64             `json:"epoch"`           // Counts the writers of the conversation, for people and metrics only.
	At      conversation.Time `json:"at"`              // When it was built; informative.
}

// Batch is one decoded batch object.
//
// Invariant: Hash is the hash of the header and the lines.
type Batch struct {
	Header
	Lines []byte // Record lines, each with its newline; empty in a claim.
	Hash  Hash
}

// Position returns the position after which a reader has seen this batch.
func (b Batch) Position() Position { return Position{Seq: b.Seq, Hash: b.Hash} }

// storedHeader is the header line. The hash makes an object prove itself, also
// when it is the last one and no successor links to it.
type storedHeader struct {
	Header
	Hash Hash `json:"hash"`
}

// chainHash computes the hash of a batch as the package comment states it.
func chainHash(h Header, lines []byte) Hash {
	d := sha256.New()
	head := make([]byte, 0, 128)
	head = append(head, h.Prev[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(h.Seq))
	head = append(head, byte(len(h.Nonce)))
	head = append(head, h.Nonce...)
	first := byte(0)
	if h.First {
		first = 1
	}
	d.Write(append(head, first))
	d.Write(lines)
	return Hash(d.Sum(head[:0])[:len(Hash{})])
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

func (h Header) valid() error {
	switch {
	case h.Version != SchemaVersion:
		return fmt.Errorf("batch version %d, supported is %d", h.Version, SchemaVersion)
	case h.Seq < 0 || h.Seq > maxSeq:
		return fmt.Errorf("sequence number %d is out of range", h.Seq)
	case h.Seq == 0 && h.Prev != Hash{}:
		return errors.New("batch 0 has a predecessor")
	}
	return h.Nonce.valid()
}

// EncodeBatch returns the object of a batch and its hash. The object is one zstd
// frame with a checksum; its content is JSON lines: a header line, then lines as
// they are. The header line holds v, seq, nonce, first, prev, epoch, at and hash.
func EncodeBatch(h Header, lines []byte) ([]byte, Hash, error) {
	return encodeBatch(newFramer(math.MaxInt32, 1), h, lines)
}

func encodeBatch(f *framer, h Header, lines []byte) ([]byte, Hash, error) {
	if err := errors.Join(h.valid(), validLines(lines)); err != nil {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %w", h.Seq, err)
	}
	const headerBytes = 384 // Enough for every header.
	hash := chainHash(h, lines)
	content := storedHeader{Header: h, Hash: hash}.appendTo(make([]byte, 0, headerBytes+len(lines)))
	content = append(append(content, '\n'), lines...)
	if int64(len(content)) > f.max {
		return nil, Hash{}, fmt.Errorf("encode batch %d: %d bytes, limit %d", h.Seq, len(content), f.max)
	}
	return f.encode(content), hash, nil
}

// DecodeBatch reverses EncodeBatch. It refuses another version, a wrong hash,
// anything but one whole frame, and content of more than limit bytes (0 is
// DefaultMaxBytes). Header fields it does not know are ignored.
func DecodeBatch(data []byte, limit int64) (Batch, error) {
	return decodeBatch(newFramer(orDefault(limit, DefaultMaxBytes), 1), data)
}

func decodeBatch(f *framer, data []byte) (Batch, error) {
	content, err := f.decode(data)
	if err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	line, lines, err := cutLine(content)
	if err != nil {
		return Batch{}, fmt.Errorf("decode batch header: %w", err)
	}
	var h storedHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return Batch{}, fmt.Errorf("decode batch header: %w", err)
	}
	if err := errors.Join(h.valid(), validLines(lines)); err != nil {
		return Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	if hash := chainHash(h.Header, lines); hash != h.Hash {
		return Batch{}, fmt.Errorf("decode batch %d: hash is %s, header says %s", h.Seq, hash, h.Hash)
	}
	return Batch{Header: h.Header, Lines: lines, Hash: h.Hash}, nil
}
