package http

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// stringReader decodes the content of a JSON string as it is read, so that a
// long one is never in memory as a whole. What is not valid UTF-8, and half a
// surrogate pair, is read as U+FFFD. The string was scanned before.
type stringReader struct {
	r    *bufio.Reader
	rest []byte // decoded and not yet delivered
	done bool
}

// newStringReader reads the string whose quoted form r yields.
func newStringReader(r io.Reader) (*stringReader, error) {
	s := &stringReader{r: bufio.NewReaderSize(r, 16<<10)}
	if c, err := s.r.ReadByte(); err != nil || c != '"' {
		return nil, errors.Join(errors.New("read string: no opening quote"), err)
	}
	return s, nil
}

// Read implements io.Reader.
func (s *stringReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) > 0 {
			k := copy(p[n:], s.rest)
			s.rest = s.rest[k:]
			n += k
			continue
		}
		if s.done {
			break
		}
		k := s.ascii(p[n:])
		n += k
		if k > 0 {
			continue
		}
		if err := s.decode(); err != nil {
			return n, err
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ascii copies bytes that stand for themselves from the buffer.
func (s *stringReader) ascii(p []byte) int {
	buf, _ := s.r.Peek(min(s.r.Buffered(), len(p)))
	n := 0
	for n < len(buf) && buf[n] < utf8.RuneSelf && buf[n] != '"' && buf[n] != '\\' {
		n++
	}
	copy(p, buf[:n])
	_, _ = s.r.Discard(n) // n bytes are buffered
	return n
}

// decode consumes one character into rest, or the closing quote.
func (s *stringReader) decode() error {
	c, _, err := s.r.ReadRune()
	if err != nil {
		return noEOF(err)
	}
	switch c {
	case '"':
		s.done = true
		return nil
	case '\\':
		c, err = s.escaped()
		if err != nil {
			return noEOF(err)
		}
	}
	s.rest = utf8.AppendRune(s.rest[:0:0], c)
	return nil
}

func (s *stringReader) escaped() (rune, error) {
	c, err := s.r.ReadByte()
	if err != nil {
		return 0, err
	}
	switch c {
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
	default:
		return rune(c), nil
	}
	hex, err := s.r.Peek(4)
	if err != nil {
		return 0, err
	}
	first := hexRune(hex)
	if _, err := s.r.Discard(4); err != nil {
		return 0, err
	}
	if !utf16.IsSurrogate(first) {
		return first, nil
	}
	// Near the end of the string Peek returns less, and then there is no pair.
	pair, _ := s.r.Peek(6)
	if len(pair) == 6 && pair[0] == '\\' && pair[1] == 'u' {
		if c := utf16.DecodeRune(first, hexRune(pair[2:])); c != utf8.RuneError {
			_, err := s.r.Discard(6)
			return c, err
		}
	}
	return utf8.RuneError, nil
}

func hexRune(b []byte) rune {
	v, err := strconv.ParseUint(string(b), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// unquote decodes the content of a short scanned string, without its quotes.
func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw), nil
	}
	s := &stringReader{r: bufio.NewReader(io.MultiReader(bytes.NewReader(raw), bytes.NewReader([]byte{'"'})))}
	b, err := io.ReadAll(s)
	return string(b), err
}
