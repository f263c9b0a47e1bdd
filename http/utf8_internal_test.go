package http

import (
	"testing"
	"unicode/utf8"
)

// TestUTF8Checker splits texts at each position and into single bytes, with equal results.
func TestUTF8Checker(t *testing.T) {
	for _, text := range []string{
		"", "a", "é", "日本", "😀", "a😀b", "\xff", "a\xff", "\xc3", "aé\xc3", "\xe6\x97", "\xf0\x9f\x98", "\xf0\x9f\x98x", "\xed\xa0\x80", "\xc0\xaf", "é\x80é", "\xf4\x90\x80\x80",
	} {
		want := int64(-1)
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				want = int64(i)
				break
			}
			i += n
		}
		check := func(how string, pieces ...string) {
			t.Helper()
			var c utf8Checker
			for _, p := range pieces {
				c.add([]byte(p))
			}
			at, bad := c.end()
			if got := at; bad != (want >= 0) || bad && got != want {
				t.Errorf("%q, %s: got %d, %v; want %d", text, how, got, bad, want)
			}
		}
		check("whole", text)
		var bytes []string
		for i := range len(text) {
			check("in two", text[:i], text[i:])
			bytes = append(bytes, text[i:i+1])
		}
		check("byte by byte", bytes...)
	}
}
