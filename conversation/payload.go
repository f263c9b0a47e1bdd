package conversation

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Bounds of an untrusted JSON value in the log: a tool's input and output, and initial data. They are
// far below the limit of decoders (encoding/json accepts a nesting of 10,000), because a value is
// nested deeper on the wire.
const (
	MaxPayloadBytes   = 4 << 20
	MaxPayloadNesting = 1000
)

// MaxOutputBytes bounds a tool's output of which a part is recorded. It equals the bound for all calls
// of a response.
const MaxOutputBytes = 32 << 20

// PayloadError is the reason for which a value is rejected.
type PayloadError struct{ Reason string }

// Error implements error. The text continues a sentence that names the value.
func (e *PayloadError) Error() string { return e.Reason }

// CheckPayload checks that an untrusted value may be recorded. It must be JSON of at most
// MaxPayloadBytes, nested at most MaxPayloadNesting deep. The error is a [*PayloadError].
func CheckPayload(raw json.RawMessage) error { return checkPayload(raw, MaxPayloadBytes) }

// CheckOutput validates an output like CheckPayload, with the limit MaxOutputBytes.
func CheckOutput(raw json.RawMessage) error { return checkPayload(raw, MaxOutputBytes) }

func checkPayload(raw json.RawMessage, most int) error {
	if len(raw) > most {
		return &PayloadError{fmt.Sprintf("has %d bytes, at most %d are taken", len(raw), most)}
	}
	if deepest := nesting(raw); deepest > MaxPayloadNesting {
		return &PayloadError{fmt.Sprintf("is nested %d deep, at most %d is taken", deepest, MaxPayloadNesting)}
	}
	if !json.Valid(raw) {
		return &PayloadError{"is not JSON"}
	}
	return nil
}

// TextBytes returns the size of a text as JSON, without the quotes.
func TextBytes(s string) int {
	n := 0
	for i, r := range s {
		n += runeBytes(s[i:], r)
	}
	return n
}

// runeBytes returns the size of the first rune of s in JSON.
func runeBytes(s string, r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029':
		return 6
	case r == utf8.RuneError:
		if _, size := utf8.DecodeRuneInString(s); size == 1 {
			return 6
		}
	}
	return utf8.RuneLen(r)
}

// CutText returns s if it has at most limit bytes as JSON. Otherwise it returns a prefix and a note of
// the omitted size. The limit is at least 100.
func CutText(s string, limit int) string {
	if len(s) <= limit && TextBytes(s) <= limit { // len(s) is a lower bound
		return s
	}
	const noteBytes = 80
	n := 0
	for i, r := range s {
		if n += runeBytes(s[i:], r); n > limit-noteBytes {
			return fmt.Sprintf("%s … (%d more bytes are left out)", s[:i], len(s)-i)
		}
	}
	return s
}

// nesting returns the deepest nesting of brackets outside strings.
func nesting(raw []byte) (deepest int) {
	depth, inString, escaped := 0, false, false
	for _, c := range raw {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
