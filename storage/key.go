package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
)

// Aliases of package segment, which describes the bytes of a log.
type (
	// Nonce identifies one writer incarnation.
	Nonce = segment.Nonce
	// Hash links a batch to the one before it.
	Hash = segment.Hash
	// Position names a batch and everything before it.
	Position = segment.Position
	// Header is the first line of a batch object.
	Header = segment.Header
	// Batch is one decoded batch object.
	Batch = segment.Batch
)

// Start returns the position before batch 0.
func Start() Position { return segment.Start() }

// Digest is the SHA-256 of an attachment. Its text form is 64 hexadecimal digits.
type Digest [32]byte

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error { return segment.Unhex(d[:], text) }

// LogKey returns the object key of a batch. conv must be a conversation's key.
func LogKey(conv conversation.Key, seq int64) string {
	return string(conv[:2]) + "/" + string(conv) + "/log/" + number(seq)
}

// BlobKey returns the object key of an attachment. conv must be a conversation's key.
func BlobKey(conv conversation.Key, digest Digest) string {
	return folder(conv) + "blob/" + digest.String()
}

func logPrefix(conv conversation.Key) string { return folder(conv) + "log/" }

// folder spreads the conversations over 256 prefixes because S3 limits the
// requests per second of one prefix.
func folder(conv conversation.Key) string { return string(conv[:2]) + "/" + string(conv) + "/" }

func validConv(conv conversation.Key) error {
	ok := len(conv) == hex.EncodedLen(len(Hash{}))
	for _, c := range []byte(conv) {
		ok = ok && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
	}
	if !ok {
		return &Error{Op: "use", Key: string(conv), Kind: ErrRefused, Err: errors.New("not a conversation key")}
	}
	return nil
}

const (
	numberDigits = 16
	zeros        = "0000000000000000"
)

// number formats n, which is not negative, with all digits.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	return zeros[:max(0, numberDigits-len(s))] + s
}

// parseNumber reverses number and accepts no other form.
func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != numberDigits || s[0] == '+' {
		return 0, fmt.Errorf("parse number %q: want %d digits", s, numberDigits)
	}
	return int64(n), nil
}
