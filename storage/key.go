package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// Nonce identifies one writer incarnation: 1 to 64 letters, digits, '-' or '_',
// unique among all writers there ever are. It stands in every batch.
type Nonce string

func (n Nonce) valid() error {
	if len(n) == 0 || len(n) > 64 || !plain(string(n)) {
		return fmt.Errorf("nonce %q: want 1 to 64 letters, digits, '-' or '_'", string(n))
	}
	return nil
}

// Hash links a batch to the one before it; see the package comment for what it
// covers. Its text form is 32 hexadecimal digits.
type Hash [16]byte

// String returns the text form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error { return unhex(h[:], text) }

// Digest is the SHA-256 of an attachment. Its text form is 64 hexadecimal digits.
type Digest [32]byte

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error { return unhex(d[:], text) }

func unhex(dst, text []byte) error {
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

// LogKey returns the object key of a batch. conv must be a conversation's key.
func LogKey(conv conversation.Key, seq int64) string {
	return string(conv[:2]) + "/" + string(conv) + "/log/" + number(seq)
}

// BlobKey returns the object key of an attachment. conv must be a conversation's
// key.
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

// number writes n, which is not negative, with all its digits.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	return zeros[:max(0, numberDigits-len(s))] + s
}

// parseNumber accepts exactly what number returns.
func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != numberDigits || s[0] == '+' {
		return 0, fmt.Errorf("parse number %q: want %d digits", s, numberDigits)
	}
	return int64(n), nil
}

// plain reports whether s has only letters, digits, '-' and '_', so that it can
// stand in a key and in JSON without escaping.
func plain(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
