package sse

import (
	"bytes"
	"fmt"
	"io"
)

// DefaultMaxEventBytes is the default limit of one event. It is large because long tool arguments
// travel in single events.
const DefaultMaxEventBytes = 16 << 20

// A Reader's buffer starts small and grows while the source fills it. Short replies thus need little
// memory, and long ones few reads.
const (
	minReadSize   = 2 << 10
	maxReadSize   = 16 << 10
	maxEmptyReads = 100
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// Options configures a Reader. A nil *Options and every zero field are valid.
type Options struct {
	// MaxEventBytes limits one event: its data plus the current line, in bytes. 0 or less means
	// DefaultMaxEventBytes.
	MaxEventBytes int
}

// Event is one server-sent event.
type Event struct {
	// Name is the event field, empty for an unnamed event.
	Name string
	// ID is the last id field in the stream so far.
	ID string
	// Data is the data lines joined by LF. It belongs to the Reader and is valid until the next call
	// of Next.
	Data []byte
	// Unterminated is set if the stream ended before the blank line that closes the event.
	Unterminated bool
}

// TooLargeError reports an event over the limit.
type TooLargeError struct {
	Limit int
}

// Error returns the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("read event: larger than %d bytes", e.Limit)
}

// Reader reads events from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src   io.Reader
	limit int

	buf        []byte
	start, end int
	skipLF     bool // The last line ended in CR; a following LF belongs to it.
	firstLine  bool
	line       []byte
	err        error // Sticky error of src or of the limit.

	name    string
	id      string
	data    []byte
	hasData bool
}

// NewReader returns a Reader of src. It does not read yet, and never closes src.
func NewReader(src io.Reader, o *Options) *Reader {
	limit := DefaultMaxEventBytes
	if o != nil && o.MaxEventBytes > 0 {
		limit = o.MaxEventBytes
	}
	return &Reader{src: src, limit: limit, firstLine: true}
}

// Next returns the next event. Its errors are io.EOF at the clean end of the stream, *TooLargeError,
// and errors of the source, unwrapped. An event interrupted by an error is dropped. Errors are sticky.
func (r *Reader) Next() (Event, error) {
	r.name, r.data, r.hasData = "", r.data[:0], false
	for {
		line, err := r.readLine()
		if err != nil {
			if err == io.EOF && r.hasData {
				return r.event(true), nil
			}
			return Event{}, err
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		if r.hasData {
			return r.event(false), nil
		}
		r.name = ""
	}
}

func (r *Reader) event(unterminated bool) Event {
	r.hasData = false
	return Event{Name: r.name, ID: r.id, Data: r.data, Unterminated: unterminated}
}

func (r *Reader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
		r.hasData = true
	case "event":
		r.name = string(value)
	case "id":
		if !bytes.ContainsRune(value, 0) {
			r.id = string(value)
		}
	}
}

// readLine returns the next line without its end, valid until the next call. A last line without an
// end is returned; the following call returns the error.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if r.start == r.end && r.err == nil {
			r.fill()
		}
		if r.start == r.end {
			if r.err == io.EOF && len(r.line) > 0 {
				return r.finishLine(r.line), nil
			}
			return nil, r.err
		}
		if r.skipLF {
			r.skipLF = false
			if r.buf[r.start] == '\n' {
				r.start++
				continue
			}
		}
		rest := r.buf[r.start:r.end]
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			i = len(rest)
		}
		if len(r.data)+len(r.line)+i > r.limit {
			r.start, r.end, r.err = 0, 0, &TooLargeError{Limit: r.limit}
			return nil, r.err
		}
		if i == len(rest) {
			r.line = append(r.line, rest...)
			r.start = r.end
			continue
		}
		r.skipLF = rest[i] == '\r'
		r.start += i + 1
		if len(r.line) == 0 {
			return r.finishLine(rest[:i]), nil
		}
		r.line = append(r.line, rest[:i]...)
		return r.finishLine(r.line), nil
	}
}

func (r *Reader) finishLine(line []byte) []byte {
	if r.firstLine {
		r.firstLine = false
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line
}

func (r *Reader) fill() {
	if r.end == len(r.buf) && len(r.buf) < maxReadSize {
		r.buf = make([]byte, max(minReadSize, 2*len(r.buf)))
	}
	r.start, r.end = 0, 0
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf)
		r.end, r.err = n, err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}
