package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON decodes the data of successive events. Unlike json.Unmarshal it reuses memory. The zero value
// is ready to use. It is unusable after an error. It belongs to one goroutine.
type JSON struct {
	// Skip, unless nil, receives the path of a member whose type does not match its field, and reports
	// whether to leave the field unchanged. Otherwise such a member is an error.
	Skip func(path string) bool

	data bytes.Reader
	dec  *json.Decoder
	read int64 // bytes consumed by dec
}

// Decode stores the value in v like json.Unmarshal. A value of another type as a whole is an error.
func (j *JSON) Decode(data []byte, v any) error { return j.decode("", data, v) }

func (j *JSON) decode(name string, data []byte, v any) error {
	// No bytes may remain after the value, because the next value follows them.
	data = bytes.Trim(data, " \t\r\n")
	j.data.Reset(data)
	if j.dec == nil {
		j.dec = json.NewDecoder(&j.data)
	}
	err := j.dec.Decode(v)
	var odd *json.UnmarshalTypeError
	if j.Skip != nil && errors.As(err, &odd) && name+odd.Field != "" && j.Skip(path(name, odd.Field)) {
		err = nil // the decoder has read the whole value and stored all other members
	}
	if err != nil {
		return err
	}
	took := j.dec.InputOffset() - j.read
	j.read += took
	if took < int64(len(data)) {
		return fmt.Errorf("more data follows the value at offset %d", took)
	}
	return nil
}

func path(name, field string) string {
	if name != "" && field != "" {
		name += "."
	}
	return name + field
}

// Field stores the value of an object's member in v like Decode, and leaves v unchanged if the member
// is absent. With Skip, a member of another type is skipped.
func (j *JSON) Field(name string, raw json.RawMessage, v any) error {
	if !Given(raw) {
		return nil
	}
	if err := j.decode(name, raw, v); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

// Given reports whether a member is present and not null.
func Given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Text decodes a JSON string that encoding/json has read as raw; null is "". Unlike encoding/json it
// preserves invalid UTF-8. It keeps half of a surrogate pair as three bytes (ED A0 80 to ED BF BF),
// because the next string may contain the other half.
func Text(raw json.RawMessage) (string, error) {
	if !Given(raw) {
		return "", nil
	}
	if len(raw) < 2 || raw[0] != '"' {
		return "", &json.UnmarshalTypeError{Value: "other value", Type: textType}
	}
	in := raw[1 : len(raw)-1]
	at := bytes.IndexByte(in, '\\')
	if at < 0 {
		return string(in), nil
	}
	out := make([]byte, 0, len(in))
	for ; at >= 0; at = bytes.IndexByte(in, '\\') {
		out = append(out, in[:at]...)
		var err error
		if out, in, err = unescape(out, in[at+1:]); err != nil {
			return "", err
		}
	}
	return string(append(out, in...)), nil
}

var (
	textType  = reflect.TypeFor[string]()
	errEscape = errors.New("string contains an invalid escape")
)

// unescape appends the character of an escape to out and returns the rest of in.
func unescape(out, in []byte) (_, rest []byte, err error) {
	if len(in) == 0 {
		return out, in, errEscape
	}
	c, in := in[0], in[1:]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return unescapeUnit(out, in)
	}
	return append(out, c), in, nil
}

// unescapeUnit reads the digits of a UTF-16 unit, and the second unit of a pair.
func unescapeUnit(out, in []byte) (_, rest []byte, err error) {
	unit, ok := hexUnit(in)
	if !ok {
		return out, in, errEscape
	}
	in = in[4:]
	if !utf16.IsSurrogate(unit) {
		return utf8.AppendRune(out, unit), in, nil
	}
	if len(in) >= 6 && in[0] == '\\' && in[1] == 'u' {
		if second, ok := hexUnit(in[2:]); ok {
			if r := utf16.DecodeRune(unit, second); r != utf8.RuneError {
				return utf8.AppendRune(out, r), in[6:], nil
			}
		}
	}
	return append(out, 0xed, 0x80|byte(unit>>6&0x3f), 0x80|byte(unit&0x3f)), in, nil
}

func hexUnit(in []byte) (rune, bool) {
	if len(in) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(in[:4]), 16, 16)
	return rune(n), err == nil
}

// Many is a list, or a single element instead of a list.
type Many[T any] []T

// UnmarshalJSON implements json.Unmarshaler. Any other value yields no elements.
func (m *Many[T]) UnmarshalJSON(raw []byte) error {
	*m = nil
	var odd *json.UnmarshalTypeError
	var err error
	switch raw[0] {
	case '[':
		err = json.Unmarshal(raw, (*[]T)(m))
	case '{':
		*m = make([]T, 1)
		err = json.Unmarshal(raw, &(*m)[0])
	}
	if errors.As(err, &odd) {
		return nil // only one member of an element failed
	}
	return err
}
