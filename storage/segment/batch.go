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

// Version is the version of all stored objects.
const Version = 8

// MaxSeq is the highest sequence number that fits the digits of a key.
const MaxSeq = 1e16 - 1

// Nonce identifies one writer incarnation: 1 to 64 letters, digits, '-' or '_', unique among all
// writers ever. Every batch contains it.
type Nonce string

// Validate checks the form of the nonce.
func (n Nonce) Validate() error {
	if len(n) == 0 || len(n) > 64 || !Plain(string(n)) {
		return fmt.Errorf("nonce %q: want 1 to 64 letters, digits, '-' or '_'", string(n))
	}
	return nil
}

// Plain reports whether s has only letters, digits, '-' and '_', so that keys and JSON can hold it
// without escaping.
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

// Hash links a batch to the one before it. [Batch] defines its input. Its text form is 32 hexadecimal
// digits.
type Hash [16]byte

// String returns the text form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error { return Unhex(h[:], text) }

// Unhex decodes exactly 2*len(dst) lower-case digits.
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

// Header identifies a batch and its writer.
type Header struct {
	Version int               `json:"v"`
	Seq     int64             `json:"seq"`             // Number of the batch, from 0; equal to its key.
	Nonce   Nonce             `json:"nonce"`           // Writer of the batch.
	First   bool              `json:"first,omitempty"` // First batch of this writer; never deleted while the conversation exists.
	Prev    Hash              `json:"prev"`            // Hash of batch Seq-1, zero for batch 0.
	Epoch   int64             `json:"epoch"`           // Counts the writers of the conversation; informative.
	At      conversation.Time `json:"at"`              // Creation time; informative.
}

// Validate checks the fields of the header.
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

// Position returns the position after this batch.
func (b Batch) Position() Position { return Position{Seq: b.Seq, Hash: b.Hash} }

// Chain computes the hash of a batch as defined at [Batch].
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

// CheckLines checks that every line is not empty and ends in a newline.
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

// CutLine splits lines after the first newline. line does not include it.
func CutLine(lines []byte) (line, rest []byte, err error) {
	line, rest, ok := bytes.Cut(lines, []byte{'\n'})
	if !ok {
		return nil, nil, errors.New("line does not end in a newline")
	}
	return line, rest, nil
}
