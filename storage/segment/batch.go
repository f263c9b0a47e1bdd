package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Version is the version of everything that is stored.
const Version = 8

// MaxSeq is the highest sequence number a key has digits for.
const MaxSeq = 1e16 - 1

// Nonce identifies one writer incarnation: 1 to 64 letters, digits, '-' or '_',
// unique among all writers there ever are. It stands in every batch.
type Nonce string

// Validate reports whether the nonce may stand in a batch.
func (n Nonce) Validate() error {
	if len(n) == 0 || len(n) > 64 || !Plain(string(n)) {
		return fmt.Errorf("nonce %q: want 1 to 64 letters, digits, '-' or '_'", string(n))
	}
	return nil
}

// Plain reports whether s has only letters, digits, '-' and '_', so that it can
// stand in a key and in JSON without escaping.
func Plain(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// Hash links a batch to the one before it; see [Batch.Hash] for what it covers. Its
// text form is 32 hexadecimal digits.
type Hash [16]byte

// String returns the text form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error { return Unhex(h[:], text) }

// Unhex decodes exactly as many lower-case digits as dst has room for.
func Unhex(dst, text []byte) error {
	if len(text) != hex.EncodedLen(len(dst)) || strings.ToLower(string(text)) != string(text) {
		return fmt.Errorf("parse %q: want %d lower-case hexadecimal digits", text, hex.EncodedLen(len(dst)))
	}
	_, err := hex.Decode(dst, text)
	return err
}

// Position names a batch and everything before it.
type Position struct {
	Seq  int64 // Sequence number of the batch, -1 before batch 0.
	Hash Hash  // Hash of that batch, zero before batch 0.
}

// Start returns the position before batch 0.
func Start() Position { return Position{Seq: -1} }

// Header says which batch it is, and whose.
type Header struct {
	Version int               `json:"v"`
	Seq     int64             `json:"seq"`             // Number of the batch, from 0; equal to its key.
	Nonce   Nonce             `json:"nonce"`           // Writer that stored it.
	First   bool              `json:"first,omitempty"` // First batch of this writer: never deleted while the conversation lives.
	Prev    Hash              `json:"prev"`            // Hash of batch Seq-1, zero for batch 0.
	Epoch   int64             `json:"epoch"`           // Counts the writers of the conversation, for people and metrics only.
	At      conversation.Time `json:"at"`              // When it was built; informative.
}

// Validate reports whether the header may stand in front of a batch.
func (h Header) Validate() error {
	switch {
	case h.Version != Version:
		return fmt.Errorf("batch version %d, supported is %d", h.Version, Version)
	case h.Seq < 0 || h.Seq > MaxSeq:
		return fmt.Errorf("sequence number %d is out of range", h.Seq)
	case h.Seq == 0 && h.Prev != Hash{}:
		return errors.New("batch 0 has a predecessor")
	}
	return h.Nonce.Validate()
}

// Batch is one batch of a log.
//
// Invariant: Hash is [Header.Chain] of the header and the lines: the first 16 bytes of
// SHA-256 over, in this order:
//
//	16 bytes  hash of batch n-1, all zero for batch 0
//	 8 bytes  n, big endian
//	 1 byte   length of the writer's nonce
//	   ...    the nonce
//	 1 byte   1 if this is the writer's first batch, else 0
//	   ...    the uncompressed record lines, each with its newline
type Batch struct {
	Header
	Lines []byte // Record lines, each with its newline; empty in a claim.
	Hash  Hash
}

// Position returns the position after which a reader has seen this batch.
func (b Batch) Position() Position { return Position{Seq: b.Seq, Hash: b.Hash} }

// Chain computes the hash of a batch as it is stated at [Batch].
func (h Header) Chain(lines []byte) Hash {
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

// CheckLines reports whether every line has content and ends in a newline.
func CheckLines(lines []byte) error {
	switch {
	case len(lines) == 0:
		return nil
	case lines[len(lines)-1] != '\n':
		return errors.New("last line does not end in a newline")
	case lines[0] == '\n' || bytes.Contains(lines, []byte("\n\n")):
		return errors.New("empty line")
	}
	return nil
}

// CutLine splits lines after the first newline; line is without it.
func CutLine(lines []byte) (line, rest []byte, err error) {
	line, rest, ok := bytes.Cut(lines, []byte{'\n'})
	if !ok {
		return nil, nil, errors.New("line does not end in a newline")
	}
	return line, rest, nil
}
