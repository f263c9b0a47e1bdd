package conversation

import (
	"encoding/json"
	"fmt"
)

// Bounds of a JSON value that the log takes from outside: a tool's input and
// output, initial data. They are far below what decoders accept (encoding/json
// stops at a nesting of 10,000) because a value is nested deeper on the wire.
const (
	MaxPayloadBytes   = 4 << 20
	MaxPayloadNesting = 1000
)

// PayloadError says why a value is not taken.
type PayloadError struct{ Reason string }

// Error implements error; it continues a sentence that names the value.
func (e *PayloadError) Error() string { return e.Reason }

// CheckPayload reports whether a value from outside may be recorded: it must be
// JSON of at most MaxPayloadBytes, nested at most MaxPayloadNesting deep. The
// error is a [*PayloadError].
func CheckPayload(raw json.RawMessage) error {
	if len(raw) > MaxPayloadBytes {
		return &PayloadError{fmt.Sprintf("has %d bytes, at most %d are taken", len(raw), MaxPayloadBytes)}
	}
	if deepest := nesting(raw); deepest > MaxPayloadNesting {
		return &PayloadError{fmt.Sprintf("is nested %d deep, at most %d is taken", deepest, MaxPayloadNesting)}
	}
	if !json.Valid(raw) {
		return &PayloadError{"is not JSON"}
	}
	return nil
}

// nesting returns how deep brackets are nested outside strings.
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
