package contain

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Encode encodes an author's value as JSON, without escaping for HTML. Methods with pointer receivers
// are used even if v is not a pointer, as in decoding. MarshalJSON, MarshalText and other methods run
// contained, and errors name them as what.
func Encode(desc string, v any) (json.RawMessage, error) {
	switch v.(type) {
	case nil, bool, string, int, int64, float64, json.Number: // these have no methods of an author
		return encode(v)
	}
	return Do(desc, func() (json.RawMessage, error) {
		p := reflect.New(reflect.TypeOf(v))
		p.Elem().Set(reflect.ValueOf(v))
		return encode(p.Interface())
	})
}

func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Decode decodes JSON into dst, an author's value. Numbers in values of type any keep their digits.
// UnmarshalJSON, UnmarshalText and other methods run contained, and errors name them as what.
func Decode(desc string, raw json.RawMessage, dst any) error {
	return Run(desc, func() error {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		return dec.Decode(dst)
	})
}
