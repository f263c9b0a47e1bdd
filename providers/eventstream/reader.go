package eventstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// DefaultMaxMessageBytes is the default limit of one message, the same as in the vendor's C library.
const DefaultMaxMessageBytes = 24 << 20

const (
	preludeBytes  = 12
	checksumBytes = 4
	readSize      = 4 << 10
)

// Options configures a Reader. A nil *Options and every zero field are valid.
type Options struct {
	// MaxMessageBytes limits one message, in bytes. 0 or less means DefaultMaxMessageBytes.
	MaxMessageBytes int
}

// FormatError reports an invalid message or one over the limit.
type FormatError struct{ Problem string }

func (e *FormatError) Error() string { return "read event stream: " + e.Problem }

// Reader reads messages from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src   *bufio.Reader
	limit int64
	buf   bytes.Buffer
	err   error // Sticky error.
}

// NewReader returns a Reader of src. It does not read yet, and never closes src.
func NewReader(src io.Reader, o *Options) *Reader {
	limit := DefaultMaxMessageBytes
	if o != nil && o.MaxMessageBytes > 0 {
		limit = o.MaxMessageBytes
	}
	return &Reader{src: bufio.NewReaderSize(src, readSize), limit: int64(limit)}
}

// Next returns the next message. Its errors are io.EOF after the last message, io.ErrUnexpectedEOF
// within one, *FormatError, and errors of the source. Errors are sticky.
func (r *Reader) Next() (m Message, err error) {
	if r.err == nil {
		m, r.err = r.read()
	}
	return m, r.err
}

func (r *Reader) read() (Message, error) {
	var prelude [preludeBytes]byte
	if _, err := io.ReadFull(r.src, prelude[:]); err != nil {
		return Message{}, err
	}
	total, headers := int64(binary.BigEndian.Uint32(prelude[:])), int64(binary.BigEndian.Uint32(prelude[4:]))
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]):
		return Message{}, &FormatError{"the checksum of the lengths is wrong"}
	case headers > total-preludeBytes-checksumBytes:
		return Message{}, &FormatError{fmt.Sprintf("%d bytes of headers in a message of %d", headers, total)}
	case total > r.limit:
		return Message{}, &FormatError{fmt.Sprintf("a message of %d bytes is larger than %d", total, r.limit)}
	}
	r.buf.Reset()
	r.buf.Write(prelude[:])
	if _, err := io.CopyN(&r.buf, r.src, total-preludeBytes); err == io.EOF {
		return Message{}, io.ErrUnexpectedEOF
	} else if err != nil {
		return Message{}, err
	}
	frame := r.buf.Bytes()
	body, sum := frame[:total-checksumBytes], frame[total-checksumBytes:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return Message{}, &FormatError{"the checksum of a message is wrong"}
	}
	m := Message{headers: body[preludeBytes : preludeBytes+headers], Payload: body[preludeBytes+headers:]}
	if !whole(m.headers) {
		return Message{}, &FormatError{"the headers of a message are cut"}
	}
	return m, nil
}
