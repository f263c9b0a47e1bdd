package channels

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Characters returns the length of a text in Unicode code points.
func Characters(text string) int { return utf8.RuneCountInString(text) }

// UTF16 returns the length of a text in UTF-16 code units. Most emojis have two.
func UTF16(text string) (n int) {
	for _, r := range text {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// Bytes returns the length of a text in bytes of UTF-8.
func Bytes(text string) int { return len(text) }

// Split divides a text into parts whose size is at most the limit. A nil size is [Characters]. The
// size of a text must be the sum of the sizes of its characters. A text that fits is one unchanged
// part; a text of white space has no parts.
//
// A part ends at the end of a paragraph, else of a line, else of a word. White space at a cut is
// dropped. A cut never divides a grapheme cluster, such as an emoji of several code points, unless the
// cluster alone exceeds the limit. A part that ends inside a fenced code block closes the block, and
// the next part reopens it. It does not if the fence leaves no room for code.
func Split(text string, most int, size func(text string) int) (parts []string) {
	if size == nil {
		size = Characters
	}
	s := splitter{most: max(1, most), size: size}
	for strings.TrimSpace(text) != "" {
		head := s.in.head()
		if s.size(head)+s.size(text) <= s.most {
			return append(parts, head+text)
		}
		var part string
		if part, text = s.next(text); strings.TrimSpace(part) != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

type splitter struct {
	most int
	size func(string) int
	in   fence // the code block at the start of the remaining text
}

// kind is a kind of cut, in order of preference.
type kind int

const (
	paragraphEnd kind = iota
	lineEnd
	blockStart // before a block that fits into the next part only
	codeLineEnd
	wordEnd
	characterEnd
	fenceEnd // inside a line that begins with a fence
	kinds
)

// cut is a possible end of a part.
type cut struct {
	at   int
	fill int   // the size of the part
	in   fence // the code block at the position
}

// next returns the first part of a text that is too long, and the remaining text.
func (s *splitter) next(text string) (part, rest string) {
	if 2*(s.size(s.in.head())+s.size(s.in.tail())) > s.most {
		s.in = fence{} // the fence leaves no room for code
	}
	head, code := s.in.head(), s.in.marker != ""
	k, c := choose(s.scan(text), s.most)
	part, rest = text[:c.at], text[c.at:]
	s.in = c.in
	if c.in.marker == "" {
		if k == wordEnd {
			rest = strings.TrimLeft(rest, " \t")
		}
		return trimPart(head, part, code), withoutBlankLines(rest)
	}
	if line, after, _ := strings.Cut(rest, "\n"); c.in.after(line).marker == "" {
		rest, s.in = withoutBlankLines(after), fence{}
	}
	return head + strings.TrimSuffix(strings.TrimSuffix(part, "\n"), "\r") + c.in.tail(), rest
}

// trimPart trims white space of a part and blank lines before it, and keeps the indentation of the
// first line.
func trimPart(head, part string, code bool) string {
	if !code {
		part = withoutBlankLines(part)
	}
	return head + strings.TrimRight(part, " \t\r\n")
}

// withoutBlankLines removes blank lines at the start of a text.
func withoutBlankLines(text string) string {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return text
		}
		text = rest
	}
}

// choose returns the best of the last cuts of each kind. It avoids cuts that fill less than half of a
// part, unless a block begins there.
func choose(last [kinds]cut, most int) (kind, cut) {
	for k, c := range last[:fenceEnd] {
		if c.at > 0 && (2*c.fill >= most || kind(k) == blockStart) {
			return kind(k), c
		}
	}
	for k, c := range last {
		if c.at > 0 {
			return kind(k), c
		}
	}
	return kinds, cut{}
}

// scan returns the last fitting cut of each kind. At least one exists.
func (s *splitter) scan(text string) (last [kinds]cut) {
	in := s.in
	used := s.size(in.head())
	solid := used // size without trailing white space
	mark := func(k kind, at, fill int) {
		if fill += s.size(in.tail()); fill <= s.most {
			last[k] = cut{at, fill, in}
		}
	}
	line := s.beginLine(text, 0, used, in)
	for at := 0; at < len(text) && solid <= s.most; {
		n := character(text[at:])
		char := text[at : at+n]
		before := used
		at, used = at+n, used+s.size(char)
		switch {
		case strings.HasSuffix(char, "\n"):
			old := in
			in = in.after(text[line.at : at-1])
			switch {
			case in.marker == "" && strings.TrimSpace(text[line.at:at]) == "":
				mark(paragraphEnd, at, solid)
			case in.marker == "":
				solid = max(solid, before)
				mark(lineEnd, at, solid)
			case old.marker != "":
				mark(codeLineEnd, at, before)
			}
			line = s.beginLine(text, at, used, in)
			if line.block {
				mark(blockStart, at, solid)
			}
		case char != " " && char != "\t":
			solid = used
			if mark(fenceEnd, at, used); at > line.whole {
				mark(characterEnd, at, used)
			}
		case at <= line.whole:
		case in.marker == "":
			mark(wordEnd, at, solid)
		default:
			mark(wordEnd, at, used)
		}
		if used > s.most && last == [kinds]cut{} {
			last[characterEnd] = s.codePoints(text, in)
		}
	}
	return last
}

// lineStart is the lookahead of scan at the start of a line.
type lineStart struct {
	at    int
	whole int  // no cut before this position, where the rest of the line would open or close another block
	block bool // the line opens a block that fits into the next part but not into this one
}

func (s *splitter) beginLine(text string, at, used int, in fence) lineStart {
	line, rest, _ := strings.Cut(text[at:], "\n")
	l := lineStart{at: at}
	marker, info := fenceOf(line)
	switch {
	case marker == "":
		return l
	case in.after(line) != in:
		l.whole = at + len(line)
	case in.marker != "":
		l.whole = at + len(line) - len(info) + 1
	default:
		l.whole = at + len(line) - len(info) + strings.IndexByte(info, '`') + 1
	}
	if in.marker != "" || in.after(line) == in || at == 0 {
		return l
	}
	size := s.size(line) + s.size("\n")
	for in = in.after(line); in.marker != "" && rest != "" && size <= s.most; size += s.size(line) + s.size("\n") {
		line, rest, _ = strings.Cut(rest, "\n")
		in = in.after(line)
	}
	l.block = used+size > s.most && size <= s.most
	return l
}

// codePoints returns the cut inside of a character that is too long: after as many code points as fit, at least one.
func (s *splitter) codePoints(text string, in fence) cut {
	room := s.most - s.size(in.head()) - s.size(in.tail())
	c := cut{in: in}
	for at, r := range text {
		n := s.size(string(r))
		if at > 0 && c.fill+n > room {
			break
		}
		c.at, c.fill = at+utf8.RuneLen(r), c.fill+n
	}
	return c
}

// fence is a fenced code block that is open; the zero value is none.
type fence struct{ indent, marker, info string }

// head returns the line that opens the block again, "" for none.
func (f fence) head() string {
	if f.marker == "" {
		return ""
	}
	return f.indent + f.marker + f.info + "\n"
}

// tail returns the line that closes the block, after the line before it, "" for none.
func (f fence) tail() string {
	if f.marker == "" {
		return ""
	}
	return "\n" + f.indent + f.marker
}

// after returns the block that is open after a line.
func (f fence) after(line string) fence {
	marker, info := fenceOf(line)
	info = strings.TrimRight(info, " \t\r")
	switch {
	case marker == "":
	case f.marker == "" && (marker[0] == '~' || !strings.Contains(info, "`")):
		return fence{line[:len(line)-len(strings.TrimLeft(line, " \t"))], marker, info}
	case f.marker != "" && info == "" && marker[0] == f.marker[0] && len(marker) >= len(f.marker):
		return fence{}
	}
	return f
}

// fenceOf returns the fence marker at the start of a line, or "", and the remaining line.
func fenceOf(line string) (marker, info string) {
	text := strings.TrimLeft(line, " \t")
	for _, char := range []string{"`", "~"} {
		if info := strings.TrimLeft(text, char); len(text)-len(info) >= len("```") {
			return text[:len(text)-len(info)], info
		}
	}
	return "", ""
}
