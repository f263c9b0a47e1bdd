package http

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// stringReader decodes a JSON string as it is read, so that a long one is never in memory as a whole.
// Invalid UTF-8 and unpaired surrogates become U+FFFD. The string must have been scanned.
type stringReader struct {
	r    *bufio.Reader
	rest []byte // decoded and not yet delivered
	buf  [utf8.UTFMax]byte
	done bool
}

// newStringReader reads the string whose quoted form r yields.
func newStringReader(r *bufio.Reader) (*stringReader, error) {
	if c, err := r.ReadByte(); err != nil || c != '"' {
		return nil, errors.Join(errors.New("read string: no opening quote"), err)
	}
	return &stringReader{r: r}, nil
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

// ascii copies unescaped ASCII bytes from the buffer.
func (s *stringReader) ascii(p []byte) int {
	buf, _ := s.r.Peek(min(s.r.Buffered(), len(p)))
	n := copy(p, buf[:plainASCII(buf)])
	_, _ = s.r.Discard(n) // n bytes are buffered
	return n
}

// plainASCII counts unescaped ASCII bytes up to the first other one.
func plainASCII(b []byte) int {
	for i, c := range b {
		if c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return i
		}
	}
	return len(b)
}

// decode consumes one character into rest, or the closing quote.
func (s *stringReader) decode() error {
	b, err := s.r.Peek(maxCharacter)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c, size := character(b)
	if size == 0 {
		return io.ErrUnexpectedEOF
	}
	if _, err := s.r.Discard(size); err != nil {
		return err
	}
	if size == 1 && c == '"' {
		s.done = true
		return nil
	}
	s.rest = utf8.AppendRune(s.buf[:0], c)
	return nil
}

// maxCharacter is the longest written form of a character: a surrogate pair.
const maxCharacter = len(`\ud83d\ude00`)

// character decodes the first character of a scanned string and returns the size of
// its written form, 0 if b ends within it. b is maxCharacter bytes or what is left.
func character(b []byte) (c rune, size int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] != '\\':
		return utf8.DecodeRune(b)
	case len(b) < 2:
		return 0, 0
	}
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(b[1]), 2
	}
	if len(b) < 6 {
		return 0, 0
	}
	first := hexRune(b[2:6])
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	if len(b) >= maxCharacter && b[6] == '\\' && b[7] == 'u' {
		if c := utf16.DecodeRune(first, hexRune(b[8:maxCharacter])); c != utf8.RuneError {
			return c, maxCharacter
		}
	}
	return utf8.RuneError, 6
}

func hexRune(b []byte) rune {
	v, err := strconv.ParseUint(string(b), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}

// unquote decodes the content of a short scanned string, without its quotes.
func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw), nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for len(raw) > 0 {
		n := plainASCII(raw)
		b.Write(raw[:n])
		if raw = raw[n:]; len(raw) == 0 {
			break
		}
		c, size := character(raw[:min(len(raw), maxCharacter)])
		if size == 0 {
			return "", io.ErrUnexpectedEOF
		}
		b.WriteRune(c)
		raw = raw[size:]
	}
	return b.String(), nil
}
