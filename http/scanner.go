package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxDepth is the deepest nesting of arrays and objects, as in encoding/json.
const maxDepth = 10000

// maxName is the maximum length of a compared member name, in bytes as written. Longer names are never
// used.
const maxName = 256

// span is the range of a JSON value in a spool.
type span struct{ from, to int64 }

func (v span) size() int64 { return v.to - v.from }

// syntaxError reports invalid JSON. Offset counts bytes from the start of the text.
type syntaxError struct {
	offset int64
	reason string
}

// Error implements error.
func (e *syntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.offset, e.reason) }

// scanner scans a JSON text without holding values in memory. Errors are *syntaxError or those of the
// reader.
type scanner struct {
	r     *bufio.Reader
	pos   int64
	depth int
	// raw is the current string as written. Invariant: a string that is not kept has at most one byte
	// here.
	raw []byte
}

// newScanner scans a span.
func newScanner(body *spool, v span) *scanner { return &scanner{r: body.reader(v), pos: v.from} }

func (s *scanner) bad(format string, args ...any) error {
	return &syntaxError{s.pos, fmt.Sprintf(format, args...)}
}

// read consumes one byte; the end of the text is a syntax error.
func (s *scanner) read() (byte, error) {
	c, err := s.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, s.bad("the text ends early")
	}
	if err == nil {
		s.pos++
	}
	return c, err
}

// next returns the next byte that is not white space without consuming it.
// It returns io.EOF at the end of the text.
func (s *scanner) next() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c, s.r.UnreadByte()
		}
	}
}

// must is next, with a syntax error at the end of the text.
func (s *scanner) must() (byte, error) {
	c, err := s.next()
	if errors.Is(err, io.EOF) {
		return 0, s.bad("the text ends early")
	}
	return c, err
}

// end checks that nothing but white space follows.
func (s *scanner) end() error {
	c, err := s.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return s.bad("found %q after the end of the JSON text", c)
}

// expect consumes a byte after white space.
func (s *scanner) expect(want byte) error {
	c, err := s.must()
	if err != nil {
		return err
	}
	if c != want {
		return s.bad("found %q where %q belongs", c, want)
	}
	_, err = s.read()
	return err
}

// span consumes a value and returns its range.
func (s *scanner) span() (span, error) {
	if _, err := s.must(); err != nil {
		return span{}, err
	}
	from := s.pos
	err := s.value()
	return span{from, s.pos}, err
}

// value consumes any value.
func (s *scanner) value() error {
	c, err := s.must()
	if err != nil {
		return err
	}
	switch {
	case c == '{':
		return s.object(func(string) error { return s.value() })
	case c == '[':
		return s.array(s.value)
	case c == '"':
		_, err := s.string(0)
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	return s.bad("found %q where a value belongs", c)
}

// object consumes an object. member is called for each member with its raw name
// and must consume the value.
func (s *scanner) object(member func(name string) error) error {
	return s.list('{', '}', func() error {
		if c, err := s.must(); err != nil {
			return err
		} else if c != '"' {
			return s.bad("found %q where a member name belongs", c)
		}
		name, err := s.string(maxName)
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// array consumes an array. element is called for each element and must consume it.
func (s *scanner) array(element func() error) error { return s.list('[', ']', element) }

func (s *scanner) list(open, end byte, item func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return s.bad("values are nested deeper than %d", maxDepth)
	}
	defer func() { s.depth-- }()
	if c, err := s.must(); err != nil {
		return err
	} else if c == end {
		return s.expect(end)
	}
	for {
		if err := item(); err != nil {
			return err
		}
		c, err := s.must()
		if err != nil {
			return err
		}
		if c == end {
			return s.expect(end)
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// string consumes a string. It returns its decoded content when that was at
// most keep bytes as written, otherwise "".
func (s *scanner) string(keep int) (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	s.raw = s.raw[:0]
	for {
		if n := s.plain(); n > 0 {
			p, err := s.r.Peek(n)
			if err != nil {
				return "", err
			}
			s.take(keep, p...)
			s.pos += int64(n)
			if _, err := s.r.Discard(n); err != nil {
				return "", err
			}
		}
		c, err := s.read()
		switch {
		case err != nil:
			return "", err
		case c == '"':
			if len(s.raw) > keep {
				return "", nil
			}
			return unquote(s.raw)
		case c < ' ':
			return "", s.bad("a string has the control character %q", c)
		}
		s.take(keep, c)
		if c == '\\' {
			if err := s.escape(keep); err != nil {
				return "", err
			}
		}
	}
}

// take appends bytes of a string, up to one more than are kept.
func (s *scanner) take(keep int, p ...byte) {
	s.raw = append(s.raw, p[:min(len(p), keep+1-len(s.raw))]...)
}

// plain counts the buffered bytes up to the next special one.
func (s *scanner) plain() int {
	buf, _ := s.r.Peek(s.r.Buffered())
	for i, c := range buf {
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(buf)
}

// escape consumes and takes what follows a backslash.
func (s *scanner) escape(keep int) error {
	c, err := s.read()
	if err != nil {
		return err
	}
	s.take(keep, c)
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			c, err := s.read()
			if err != nil {
				return err
			}
			if !isHex(c) {
				return s.bad("found %q in a \\u escape", c)
			}
			s.take(keep, c)
		}
		return nil
	}
	return s.bad("a string has the unknown escape %q", c)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		c, err := s.read()
		if err != nil {
			return err
		}
		if c != word[i] {
			return s.bad("found %q in the literal %s", c, word)
		}
	}
	return nil
}

// number consumes a number. The caller checks the following byte.
func (s *scanner) number() error {
	c, err := s.read()
	if err != nil {
		return err
	}
	if c == '-' {
		if c, err = s.read(); err != nil {
			return err
		}
	}
	switch {
	case c < '0' || c > '9':
		return s.bad("found %q where a digit belongs", c)
	case c != '0':
		if _, err := s.digits(); err != nil {
			return err
		}
	}
	if ok, err := s.skip("."); err != nil {
		return err
	} else if ok {
		if err := s.someDigits(); err != nil {
			return err
		}
	}
	if ok, err := s.skip("eE"); err != nil || !ok {
		return err
	}
	if _, err := s.skip("+-"); err != nil {
		return err
	}
	return s.someDigits()
}

func (s *scanner) someDigits() error {
	n, err := s.digits()
	if err == nil && n == 0 {
		return s.bad("a number lacks a digit")
	}
	return err
}

func (s *scanner) digits() (int, error) {
	for n := 0; ; n++ {
		if ok, err := s.skip("0123456789"); err != nil || !ok {
			return n, err
		}
	}
}

// skip consumes the next byte if it is one of set.
func (s *scanner) skip(set string) (bool, error) {
	c, err := s.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range len(set) {
		if c == set[i] {
			s.pos++
			return true, nil
		}
	}
	return false, s.r.UnreadByte()
}
