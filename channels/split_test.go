package channels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/parleyrun/parley/channels"
)

// measures are the units of platforms; the last one counts escapes.
var measures = map[string]func(string) int{
	"characters": channels.Characters, "UTF-16": channels.UTF16, "bytes": channels.Bytes,
	"escaped": func(s string) int { return channels.UTF16(strings.ReplaceAll(s, "&", "&amp;")) },
}

// covers: channels/178
func TestSplit(t *testing.T) {
	family, flag := "👩‍👩‍👧‍👦", "🇩🇪"
	for name, c := range map[string]struct {
		text string
		most int
		unit string
		want []string
	}{
		"it fits":            {" a\n", 3, "characters", []string{" a\n"}},
		"nothing":            {"", 3, "characters", nil},
		"white space":        {" \n\t\n ", 3, "characters", nil},
		"words":              {"one two  three", 7, "characters", []string{"one two", "three"}},
		"lines before words": {"one two\nthree four", 14, "characters", []string{"one two", "three four"}},
		"a short line":       {"a\nsome words follow", 12, "characters", []string{"a\nsome words", "follow"}},
		"paragraphs":         {"one.\n\ntwo.\nthree.", 12, "characters", []string{"one.\n\ntwo.", "three."}},
		"an indented line":   {"one two\n  - three", 10, "characters", []string{"one two", "  - three"}},
		"CRLF":               {"one\r\ntwo\r\nthree", 9, "characters", []string{"one\r\ntwo", "three"}},
		"one word":           {"abcdefgh", 3, "characters", []string{"abc", "def", "gh"}},
		"bytes":              {"ééé", 3, "bytes", []string{"é", "é", "é"}},
		"UTF-16":             {"😀😀😀", 5, "UTF-16", []string{"😀😀", "😀"}},
		"escapes":            {"&&&", 10, "escaped", []string{"&&", "&"}},
		"a family":           {"ab" + family + "c", 8, "characters", []string{"ab", family + "c"}},
		"flags":              {flag + flag + flag, 5, "characters", []string{flag + flag, flag}},
		"an accent":          {"abe\u0301", 3, "characters", []string{"ab", "e\u0301"}},
		"a giant":            {strings.Repeat("\u0301", 5), 2, "characters", []string{"\u0301\u0301", "\u0301\u0301", "\u0301"}},
		"less than one":      {"😀😀", 1, "UTF-16", []string{"😀", "😀"}},
		"code":               {"```go\nfirst()\nsecond()\nthird()\n```\nDone.", 30, "characters", []string{"```go\nfirst()\nsecond()\n```", "```go\nthird()\n```\nDone."}},
		"indented code":      {"```\n  a\n\n  b\n  cdefg\n```", 17, "characters", []string{"```\n  a\n\n  b\n```", "```\n  cdefg\n```"}},
		"tildes":             {"~~~~\nfirst line\n```\nsecond line\n~~~~", 26, "characters", []string{"~~~~\nfirst line\n```\n~~~~", "~~~~\nsecond line\n~~~~"}},
		"code that fits":     {"Look:\n```\none()\ntwo()\nthree()\n```", 30, "characters", []string{"Look:", "```\none()\ntwo()\nthree()\n```"}},
		"code never closed":  {"```\none()\ntwo()\nthree()", 20, "characters", []string{"```\none()\ntwo()\n```", "```\nthree()"}},
		"code at the end":    {"```\none()\ntwo()\n```\nthree four five", 20, "characters", []string{"```\none()\ntwo()\n```", "three four five"}},
		"a long line":        {"```\nabcdefghijklmnop\n```", 16, "characters", []string{"```\nabcdefgh\n```", "```\nijklmnop\n```"}},
		"fence too long":     {"```a-very-long-name-of-a-language\ncode\n```", 20, "characters", []string{"```a-very-long-name-", "of-a-language\ncode", "```"}},
	} {
		if got := channels.Split(c.text, c.most, measures[c.unit]); !slices.Equal(got, c.want) {
			t.Errorf("%s: Split(%q, %d %s): got %q, want %q", name, c.text, c.most, c.unit, got, c.want)
		}
	}
	if got := channels.Split("ab", 1, nil); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("without a measure: got %q, want a and b", got)
	}
}

// pieces are the parts of random texts. Multi-code-point characters are distinct, so that halves are
// detected.
var pieces = []string{
	"word", "a", "longerword", " ", " ", "  ", "\n", "\n", "\n\n", "\t", "\r\n", "&", "<@u1>", "é", "e\u0301\u0302", "中文字", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "각", "क्षि",
	"```GO\nx := 1\n\ty()\n```\n", "\n```\n", "\n```PYTHON\n", "~~~\n", "`code`", "    indented\n", "- item\n", "\n  ```SH\n  ls -l\n  ```\n",
}

// TestSplitKeeps verifies the rules of [channels.Split] with random texts.
// covers: channels/178
func TestSplitKeeps(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 7))
	for range 5000 {
		var b strings.Builder
		for range 1 + r.IntN(90) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		text, most := b.String(), 60+r.IntN(60)
		for unit, size := range measures {
			if err := checkParts(text, most, size, channels.Split(text, most, size)); err != nil {
				t.Fatalf("Split(%q, %d %s): %v", text, most, unit, err)
			}
		}
	}
}

func checkParts(text string, most int, size func(string) int, parts []string) error {
	if size(text) <= most && len(parts) > 1 {
		return fmt.Errorf("got %d parts, want 1 of a text that fits", len(parts))
	}
	for i, p := range parts {
		switch {
		case size(p) > most:
			return fmt.Errorf("got part %q of %d, want at most %d", p, size(p), most)
		case strings.TrimSpace(p) == "":
			return fmt.Errorf("got part %q, want no white space alone", p)
		case !utf8.ValidString(p):
			return fmt.Errorf("got part %q, want UTF-8", p)
		case i < len(parts)-1 && openFence(p):
			return fmt.Errorf("got part %q, want its code block closed", p)
		case i > 0 && inside(parts[i-1], p):
			return fmt.Errorf("got parts %q and %q, want no cut inside a character", parts[i-1], p)
		}
	}
	if got, want := solid(strings.Join(parts, "\n")), solid(text); got != want {
		return fmt.Errorf("got the text %q, want %q", got, want)
	}
	return nil
}

func openFence(text string) bool {
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case open == "" && (strings.HasPrefix(line, "```") && !strings.Contains(line[3:], "`") || strings.HasPrefix(line, "~~~")):
			open = line[:3]
		case open != "" && line == open:
			open = ""
		}
	}
	return open != ""
}

// inside reports whether a cut divides one of the characters of pieces.
func inside(before, after string) bool {
	for _, whole := range []string{"e\u0301\u0302", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "각", "क्षि"} {
		for at := range whole {
			if at > 0 && strings.HasSuffix(before, whole[:at]) && strings.HasPrefix(after, whole[at:]) && whole != "🇩🇪" {
				return true
			}
		}
	}
	// Halves of flags are separate letters, so count them.
	n := 0
	for text := before; ; n++ {
		r, size := utf8.DecodeLastRuneInString(text)
		if r < 0x1F1E6 || r > 0x1F1FF {
			break
		}
		text = text[:len(text)-size]
	}
	return n%2 == 1
}

// solid removes white space, fences, and the capitals of which pieces makes language names.
func solid(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '`' || r == '~' || r >= 'A' && r <= 'Z' {
			return -1
		}
		return r
	}, text)
}

// covers: channels/178
func FuzzSplit(f *testing.F) {
	f.Add("one two\n```go\ncode()\n```\n👩‍👩‍👧‍👦", 20)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most = min(most, 1000); most < 1 || !utf8.ValidString(text) {
			return
		}
		for unit, size := range measures {
			for _, p := range channels.Split(text, most, size) {
				if most >= 30 && size(p) > most || !utf8.ValidString(p) {
					t.Errorf("Split(%q, %d %s): got part %q of %d", text, most, unit, p, size(p))
				}
			}
		}
	})
}
