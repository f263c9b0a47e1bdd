package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A value in the engine is a fixed header followed by the object's bytes, or by the name of the file
// that holds them. Integers are big endian.
//
//	offset  bytes  content
//	0       1      version, 1
//	1       1      flags: bit 0 = the rest is a file name
//	2       16     zeros; earlier versions wrote an MD5 of the object, which is ignored
//	18      8      last modified, milliseconds since 1970
//	26      8      size of the object in bytes
//	34      …      bytes (exactly size) or file name
const (
	valueVersion   = 1
	valueFlagFile  = 1
	valueHeaderLen = 34
)

var errShortValue = errors.New("value is shorter than its header")

// valueLen returns the length of the encoded value of o.
func valueLen(o object) int {
	if o.file != "" {
		return valueHeaderLen + len(o.file)
	}
	return valueHeaderLen + len(o.inline)
}

// encodeValue fills dst, which must be valueLen(o) long.
func encodeValue(dst []byte, o object) {
	dst[0], dst[1] = valueVersion, 0
	clear(dst[2:18])
	binary.BigEndian.PutUint64(dst[18:], uint64(o.modified.UnixMilli()))
	binary.BigEndian.PutUint64(dst[26:], uint64(o.size))
	if o.file != "" {
		dst[1] = valueFlagFile
		copy(dst[valueHeaderLen:], o.file)
		return
	}
	copy(dst[valueHeaderLen:], o.inline)
}

// decodeValue checks and decodes a value. The inline bytes are part of src.
func decodeValue(src []byte) (object, error) {
	if len(src) < valueHeaderLen {
		return object{}, errShortValue
	}
	if src[0] != valueVersion {
		return object{}, fmt.Errorf("value has unknown version %d", src[0])
	}
	o := object{
		modified: time.UnixMilli(int64(binary.BigEndian.Uint64(src[18:]))).UTC(),
		size:     int64(binary.BigEndian.Uint64(src[26:])),
	}
	if o.size < 0 {
		return object{}, fmt.Errorf("value has negative size %d", o.size)
	}
	rest := src[valueHeaderLen:]
	switch src[1] {
	case 0:
		if int64(len(rest)) != o.size {
			return object{}, fmt.Errorf("value has %d bytes, want %d", len(rest), o.size)
		}
		o.inline = rest
	case valueFlagFile:
		o.file = string(rest)
		if !validFileName(o.file) {
			return object{}, fmt.Errorf("value has invalid file name %q", o.file)
		}
	default:
		return object{}, fmt.Errorf("value has unknown flags %#x", src[1])
	}
	return o, nil
}
