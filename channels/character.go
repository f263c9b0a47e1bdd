package channels

import (
	"unicode"
	"unicode/utf8"
)

// character returns the length in bytes of the first extended grapheme cluster of a text. Where the
// Unicode rules need tables that the standard library lacks, it joins code points that the rules may
// separate.
func character(text string) int {
	prev, n := utf8.DecodeRuneInString(text)
	flags, linked := 0, false
	for n < len(text) {
		if regional(prev) {
			flags++
		}
		next, size := utf8.DecodeRuneInString(text[n:])
		if !joins(prev, next) && (!regional(prev) || !regional(next) || flags%2 == 0) && (!linked || !unicode.Is(unicode.Lo, next)) {
			return n
		}
		linked = linker(next) || linked && extends(next)
		prev, n = next, n+size
	}
	return n
}

// regional reports whether the code point is a regional indicator; two of them are a flag.
func regional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// joins reports whether two adjacent code points belong to the same character.
func joins(prev, next rune) bool {
	switch {
	case prev == '\r' && next == '\n':
		return true
	case control(prev) || control(next):
		return false
	case extends(next), prepends(prev):
		return true
	case prev == 0x200D: // zero-width joiner
		return next > unicode.MaxASCII
	}
	return joinsHangul(prev, next)
}

func control(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Cf, r) && !extends(r) && !prepends(r)
}

// extends reports whether a code point extends the preceding one.
func extends(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case unicode.In(r, unicode.M), r == 0x200C, r == 0x200D, r == 0xE33, r == 0xEB3, r == 0xFF9E, r == 0xFF9F:
		return true
	}
	return r >= 0x1F3FB && r <= 0x1F3FF || r >= 0xE0020 && r <= 0xE007F
}

// prepends reports whether a code point attaches to the following one.
func prepends(r rune) bool { return r >= 0x600 && unicode.Is(unicode.Prepended_Concatenation_Mark, r) }

// linker reports whether a code point joins consonants of Indic scripts.
func linker(r rune) bool {
	switch r {
	case 0x94D, 0x9CD, 0xACD, 0xB4D, 0xC4D, 0xD4D, 0x1039, 0x17D2:
		return true
	}
	return false
}

// joinsHangul reports whether two code points belong to one syllable.
func joinsHangul(prev, next rune) bool {
	leading := func(r rune) bool { return r >= 0x1100 && r <= 0x115F || r >= 0xA960 && r <= 0xA97C }
	vowel := func(r rune) bool { return r >= 0x1160 && r <= 0x11A7 || r >= 0xD7B0 && r <= 0xD7C6 }
	trailing := func(r rune) bool { return r >= 0x11A8 && r <= 0x11FF || r >= 0xD7CB && r <= 0xD7FB }
	syllable := func(r rune) bool { return r >= 0xAC00 && r <= 0xD7A3 }
	switch {
	case leading(prev):
		return leading(next) || vowel(next) || syllable(next)
	case vowel(prev), syllable(prev) && (prev-0xAC00)%28 == 0:
		return vowel(next) || trailing(next)
	case trailing(prev), syllable(prev):
		return trailing(next)
	}
	return false
}
