package http

import "unicode/utf8"

// utf8Checker finds the first invalid UTF-8 byte of a text that arrives in pieces. The zero value is
// ready to use.
type utf8Checker struct {
	seen int64  // bytes before rest
	rest []byte // an incomplete character, at most 3 bytes
	bad  bool   // Invariant: once set, seen is the place.
}

// add checks the next piece and does not retain it.
func (c *utf8Checker) add(p []byte) {
	for len(p) > 0 && len(c.rest) > 0 && !c.bad { // the split character
		c.rest, p = append(c.rest, p[0]), p[1:]
		if utf8.FullRune(c.rest) {
			c.check(c.rest)
			c.rest = c.rest[:0]
		}
	}
	if c.bad || len(p) == 0 {
		return
	}
	cut := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				cut = len(p) - i
			}
			break
		}
	}
	c.check(p[:cut])
	if !c.bad {
		c.rest = append(c.rest[:0], p[cut:]...)
	}
}

// check checks whole characters.
func (c *utf8Checker) check(p []byte) {
	if utf8.Valid(p) {
		c.seen += int64(len(p))
		return
	}
	for {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n <= 1 {
			c.bad = true
			return
		}
		c.seen, p = c.seen+int64(n), p[n:]
	}
}

// end returns the position of the first invalid byte, if any.
func (c *utf8Checker) end() (at int64, bad bool) { return c.seen, c.bad || len(c.rest) > 0 }
