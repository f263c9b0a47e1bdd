package eventstream

import (
	"encoding/binary"
	"hash/crc32"
)

type Message struct {
	// Payload belongs to the Reader and is valid until the next call of Next.
	Payload []byte

	headers []byte
}

// Text returns the value of a text header; "" if it is absent or has another type.
func (m Message) Text(name string) string {
	for rest := m.headers; len(rest) > 0; {
		h, n := header(rest)
		if n == 0 {
			break
		}
		if h.kind == kindText && string(h.name) == name {
			return string(h.value)
		}
		rest = rest[n:]
	}
	return ""
}

// Header is a header with a text value.
type Header struct{ Name, Value string }

// AppendMessage appends a message to dst. A name has at most 255 bytes, a value at most 65,535.
func AppendMessage(dst []byte, headers []Header, payload []byte) []byte {
	begin := len(dst)
	dst = append(dst, make([]byte, preludeBytes)...)
	for _, h := range headers {
		dst = append(append(dst, byte(len(h.Name))), h.Name...)
		dst = binary.BigEndian.AppendUint16(append(dst, kindText), uint16(len(h.Value)))
		dst = append(dst, h.Value...)
	}
	prelude := dst[begin:]
	binary.BigEndian.PutUint32(prelude[4:], uint32(len(prelude)-preludeBytes))
	dst = append(dst, payload...)
	prelude = dst[begin:]
	binary.BigEndian.PutUint32(prelude, uint32(len(prelude)+checksumBytes))
	binary.BigEndian.PutUint32(prelude[8:], crc32.ChecksumIEEE(prelude[:8]))
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(prelude))
}

// Types of header values with variable length.
const (
	kindBytes = 6
	kindText  = 7
)

// fixed contains the lengths of values by type, -1 for a 2-byte length prefix: true, false, integers
// of 1, 2, 4 and 8 bytes, bytes, text, a time, and a UUID.
var fixed = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// field is a raw header.
type field struct {
	name, value []byte
	kind        byte
}

// header returns the header at the beginning of b and its length, 0 if there is none.
func header(b []byte) (f field, n int) {
	at := 1 + int(b[0])
	if at == 1 || at >= len(b) || int(b[at]) >= len(fixed) {
		return f, 0
	}
	f.name, f.kind = b[1:at], b[at]
	at++
	size := fixed[f.kind]
	if size < 0 {
		if len(b) < at+2 {
			return f, 0
		}
		size = int(binary.BigEndian.Uint16(b[at:]))
		at += 2
	}
	if len(b) < at+size {
		return f, 0
	}
	f.value = b[at : at+size]
	return f, at + size
}

// whole reports whether b consists of complete headers.
func whole(b []byte) bool {
	for len(b) > 0 {
		_, n := header(b)
		if n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}
