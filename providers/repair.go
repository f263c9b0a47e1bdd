package providers

import (
	"strings"
	"unicode/utf8"
)

// textJoiner joins fragments that may be split inside a character into valid text. The zero value is
// ready to use.
type textJoiner struct {
	// held is the incomplete character at the end of the last fragment.
	held string
}

// add returns the fragment as valid UTF-8 without an incomplete character at its end.
func (j *textJoiner) add(piece string) string {
	if piece == "" || j.held == "" && utf8.ValidString(piece) {
		return piece
	}
	piece = j.held + piece
	cut := len(piece) - cutCharacter(piece)
	j.held = piece[cut:]
	return validText(piece[:cut])
}

// rest returns the replacement of an incomplete character, "" if there is none.
func (j *textJoiner) rest() string {
	if j.held == "" {
		return ""
	}
	j.held = ""
	return string(utf8.RuneError)
}

// cutCharacter returns the length of an incomplete character at the end of a text.
func cutCharacter(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		tail := s[len(s)-n:]
		if n == 3 && surrogate(tail) == highSurrogate || utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			return n
		}
	}
	return 0
}

// validText joins surrogate pairs and replaces all other invalid bytes.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch half := surrogate(s); {
		case half == highSurrogate && surrogate(s[3:]) == lowSurrogate:
			r, n = 0x10000+(unitBits(s)-0x800)<<10+(unitBits(s[3:])-0xc00), 6
		case half != noSurrogate:
			n = 3
		}
		out.WriteRune(r)
		s = s[n:]
	}
	return out.String()
}

// Kinds of surrogates.
const (
	noSurrogate = iota
	highSurrogate
	lowSurrogate
)

// surrogate returns the kind of surrogate at the beginning of s, in the encoding of sse.Text.
func surrogate(s string) int {
	switch {
	case len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf || s[2]&0xc0 != 0x80:
		return noSurrogate
	case s[1] < 0xb0:
		return highSurrogate
	}
	return lowSurrogate
}

// unitBits returns the lower 12 bits of the surrogate at the beginning of s.
func unitBits(s string) rune { return rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f) }
