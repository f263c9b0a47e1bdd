package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// keptBytes is the largest buffer that an idle stream keeps.
const keptBytes = 1 << 20

// events parses the event stream of a conversation. It is stricter than the standard requires: an
// event ends with its blank line, and a CR is allowed only before an LF.
type events struct {
	src   *bufio.Reader
	limit int // bytes of an event, including its incomplete line

	name string
	data []byte
	line []byte
}

func newEvents(src io.Reader, limit int) *events {
	return &events{src: bufio.NewReaderSize(src, 16<<10), limit: limit}
}

// next returns the next event that has data, and its name. The data is valid until
// the next call. The stream's end between two events is io.EOF, within one
// io.ErrUnexpectedEOF; a malformed line is an [*answerError], an event over the
// limit a [*tooLargeError].
func (e *events) next() (name string, data []byte, err error) {
	if cap(e.data) > keptBytes || cap(e.line) > keptBytes {
		e.data, e.line = nil, nil
	}
	e.name, e.data = "", e.data[:0]
	begun, has := false, false
	for {
		line, err := e.readLine()
		switch {
		case errors.Is(err, io.EOF) && (begun || len(line) > 0):
			return "", nil, io.ErrUnexpectedEOF
		case err != nil:
			return "", nil, err
		case len(line) > 0 && line[0] == ':': // a comment, such as a heartbeat
		case len(line) > 0:
			begun = true
			has = e.field(line, has) || has
		case has:
			return e.name, e.data, nil
		default:
			e.name, begun = "", false
		}
	}
}

// field parses a line of an event and reports whether it was data.
func (e *events) field(line []byte, more bool) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = string(value)
	case "data":
		if more {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		return true
	}
	return false
}

// readLine returns the next line without its end. With an error it returns the incomplete line.
func (e *events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.src.ReadSlice('\n')
		if len(e.data)+len(e.line)+len(part) > e.limit {
			return nil, &tooLargeError{e.limit}
		}
		e.line = append(e.line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return e.line, err
		}
		line := bytes.TrimSuffix(bytes.TrimSuffix(e.line, []byte("\n")), []byte("\r"))
		if bytes.IndexByte(line, '\r') >= 0 {
			return nil, badAnswer("an event has a CR that ends no line")
		}
		return line, nil
	}
}
