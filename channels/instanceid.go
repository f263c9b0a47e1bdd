package channels

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// unescaped are the characters of an instance id's segment that stand for themselves, beside
// letters and digits.
const unescaped = "-_.!~*'()"

// Escape writes a text as one segment of an instance id: all but letters, digits and
// -_.!~*'() as the bytes of UTF-8 in upper-case hexadecimal. ok is false for a text that is
// empty or not UTF-8.
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

// Unescape is the inverse of Escape. It takes what Escape has written and nothing else.
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

// nibble is a digit of upper-case hexadecimal; of another it is anything.
func nibble(c byte) byte {
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(unescaped, c) >= 0
}

// FitID returns an id of a conversation that a text makes: the text, or its beginning and its SHA-256 if it has more than
// 512 bytes or is "." or "..", which URL libraries remove from the address of the conversation.
func FitID(text string) string {
	if len(text) <= maxInstanceID && !isDots(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	tail := ":sha256:" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:min(len(text), maxInstanceID-len(tail))], "") + tail
}

func isDots(id string) bool { return id == "." || id == ".." }

// JoinID makes an instance id of a channel's name, a version and further parts, each escaped
// and with a colon between them. A part may be empty. ok is false for one that is not UTF-8.
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

// SplitID is the inverse of JoinID for an id that begins with some parts: it returns the rest,
// nil for what JoinID has not written so.
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
