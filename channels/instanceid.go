package channels

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// unescaped lists the characters that Escape keeps, in addition to letters and digits.
const unescaped = "-_.!~*'()"

// Escape encodes a text as one segment of an instance id. Letters, digits and -_.!~*'() are kept;
// other bytes of UTF-8 are percent-encoded in upper case. ok is false if the text is empty or not
// UTF-8.
func Escape(s string) (segment string, ok bool) {
	if s == "" || !utf8.ValidString(s) {
		return "", false
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
	}
	return b.String(), true
}

// Unescape is the inverse of Escape. It rejects segments that Escape does not produce.
func Unescape(segment string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if i+2 >= len(segment) {
				return "", false
			}
			c = nibble(segment[i+1])<<4 | nibble(segment[i+2])
			i += 2
		}
		b.WriteByte(c)
	}
	s := b.String()
	again, ok := Escape(s)
	return s, ok && again == segment
}

// nibble decodes an upper-case hexadecimal digit; the result is undefined for other bytes.
func nibble(c byte) byte {
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(unescaped, c) >= 0
}

// FitID returns a conversation id for a text: the text itself, or a prefix and its SHA-256. The hash
// replaces texts of more than 512 bytes, and "." and "..", which URL libraries remove from a path.
func FitID(text string) string {
	if len(text) <= maxInstanceID && !isDots(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	tail := ":sha256:" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:min(len(text), maxInstanceID-len(tail))], "") + tail
}

func isDots(id string) bool { return id == "." || id == ".." }

// JoinID joins a channel's name, a version and further parts to an instance id: each is escaped, with
// colons between. A part may be empty. ok is false if one is not UTF-8.
func JoinID(parts ...string) (id string, ok bool) {
	segments := make([]string, len(parts))
	for i, part := range parts {
		if part == "" {
			continue
		}
		if segments[i], ok = Escape(part); !ok {
			return "", false
		}
	}
	return strings.Join(segments, ":"), true
}

// SplitID is the inverse of JoinID for ids that begin with the given parts. It returns the remaining
// parts, or nil if JoinID does not produce the id.
func SplitID(id string, begin ...string) []string {
	var parts []string
	for segment := range strings.SplitSeq(id, ":") {
		part, ok := Unescape(segment)
		if !ok && segment != "" {
			return nil
		}
		parts = append(parts, part)
	}
	if len(parts) <= len(begin) || !slices.Equal(parts[:len(begin)], begin) {
		return nil
	}
	return parts[len(begin):]
}
