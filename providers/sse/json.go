package sse

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON decodes the data of events, each a JSON value, one after the other: unlike
// json.Unmarshal it uses the same memory for all. The zero value is ready. After an
// error it is of no use any more. It belongs to one goroutine.
type JSON struct {
	data bytes.Reader
	dec  *json.Decoder
	read int64 // how much dec has consumed
}

// Decode stores the value in v, as json.Unmarshal does.
func (j *JSON) Decode(data []byte, v any) error {
	// Nothing may be left behind the value for the next one to begin with.
	data = bytes.Trim(data, " \t\r\n")
	j.data.Reset(data)
	if j.dec == nil {
		j.dec = json.NewDecoder(&j.data)
	}
	if err := j.dec.Decode(v); err != nil {
		return err
	}
	took := j.dec.InputOffset() - j.read
	j.read += took
	if took < int64(len(data)) {
		return fmt.Errorf("more data follows the value at offset %d", took)
	}
	return nil
}

// Field stores the value of an object's member in v, as Decode does, and leaves v as it is
// if the member is not there.
func (j *JSON) Field(name string, raw json.RawMessage, v any) error {
	if !Given(raw) {
		return nil
	}
	if err := j.Decode(raw, v); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

// Given reports whether a member is there, and not null.
func Given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
