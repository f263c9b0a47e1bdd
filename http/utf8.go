package http

import "unicode/utf8"

// utf8Checker finds the first byte of a text that is not valid UTF-8, in pieces as they come.
// The zero value is a checker of a text that begins.
type utf8Checker struct {
	seen int64  // bytes before rest
	rest []byte // the begin of a character, at most 3 bytes
	bad  bool   // Invariant: once set, seen is the place.
}

// add checks the next piece, which it does not keep.
func (c *utf8Checker) add(p []byte) {
	for len(p) > 0 && len(c.rest) > 0 && !c.bad { // the character that was cut
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

// end returns where the text is not valid, if it is not.
func (c *utf8Checker) end() (at int64, bad bool) { return c.seen, c.bad || len(c.rest) > 0 }
