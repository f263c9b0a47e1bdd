package conversation

import (
	"fmt"
	"strconv"
)

// Offset is the position of a batch in its conversation. Batch n has offset n, which is also the
// chunk's position.batch and the batch's key in the log. A read at an offset returns what follows it.
type Offset int64

// Start is before the first batch.
const Start Offset = -1

// offsetPrefix is the first component on the wire; it is always zero.
const offsetPrefix = "0000000000000000_"

// offsetDigits is the length of the second component.
const offsetDigits = 16

// String returns the wire form: "-1" for [Start], otherwise two zero-padded 16-digit integers joined
// by "_". The first one is 0.
func (o Offset) String() string {
	b, _ := o.AppendText(make([]byte, 0, len(offsetPrefix)+offsetDigits)) // it cannot fail
	return string(b)
}

// AppendText implements encoding.TextAppender. It does not fail.
func (o Offset) AppendText(dst []byte) ([]byte, error) {
	if o < 0 {
		return append(dst, "-1"...), nil
	}
	dst = append(dst, offsetPrefix...)
	for least := Offset(1e15); o < least && least > 1; least /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(o), 10), nil
}

// MarshalText implements encoding.TextMarshaler.
func (o Offset) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Offset) UnmarshalText(b []byte) error {
	v, err := ParseOffset(string(b))
	if err != nil {
		return err
	}
	*o = v
	return nil
}

// ParseOffset parses the wire form strictly: "-1", or "0000000000000000_" followed by exactly 16
// decimal digits.
func ParseOffset(s string) (Offset, error) {
	if s == "-1" {
		return Start, nil
	}
	if len(s) != len(offsetPrefix)+offsetDigits || s[:len(offsetPrefix)] != offsetPrefix {
		return 0, fmt.Errorf("parse offset %.64q: want -1 or %s followed by 16 digits", s, offsetPrefix)
	}
	digits := s[len(offsetPrefix):]
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, fmt.Errorf("parse offset %.64q: %q is not a digit", s, digits[i])
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse offset %.64q: %w", s, err)
	}
	return Offset(n), nil
}
