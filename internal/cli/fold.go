package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// widestText is the maximum line length of folded text; longer lines are hard to read.
	widestText = 100
	// leastColumn is the minimum width of a second column. A narrower one begins on the next line,
	// indented by belowColumn.
	leastColumn, belowColumn = 20, 10
)

// twoColumns matches a list line: a name, a gap and its description.
var twoColumns = regexp.MustCompile(`^( +\S+(?: \S+)*  +)(\S.*)$`)

// Fold wraps a text for a terminal of the given width. Paragraphs are filled, and descriptions in a
// list stay in their column. Other indented lines are meant for copying and stay unchanged. A width of
// 0 (no terminal) changes nothing.
func Fold(text string, width int) string {
	if width <= 0 {
		return text
	}
	width = min(width, widestText)
	var out strings.Builder
	paragraph, name := "", "" // the pending paragraph and the first column of its line
	end := func() {
		indent := utf8.RuneCountInString(name)
		if utf8.RuneCountInString(name+paragraph) > width && width-indent < leastColumn {
			name, indent = strings.TrimRight(name, " ")+"\n"+strings.Repeat(" ", belowColumn), belowColumn
		}
		out.WriteString(name)
		fill(&out, paragraph, indent, width)
		paragraph, name = "", ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		content := strings.TrimLeft(line, " ")
		if content != "" && len(line)-len(content) == utf8.RuneCountInString(name) { // continuation line
			paragraph += " " + content
			continue
		}
		end()
		columns := twoColumns.FindStringSubmatch(line)
		switch {
		case columns != nil:
			name, paragraph = columns[1], columns[2]
		case content != "" && content == line:
			paragraph = line
		default:
			out.WriteString(line + "\n")
		}
	}
	end()
	return out.String()
}

// fill wraps text at width; all lines but the first are indented.
func fill(out *strings.Builder, text string, indent, width int) {
	at := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += n
	}
	if at > indent {
		out.WriteByte('\n')
	}
}
