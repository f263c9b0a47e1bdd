package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// widestText is how long lines of text become at most: longer ones are hard to read.
	widestText = 100
	// leastColumn is how narrow a second column may be. It begins below the first otherwise.
	leastColumn, belowColumn = 20, 10
)

// twoColumns is a line of a list: a name, a gap, and what is said of it.
var twoColumns = regexp.MustCompile(`^( +\S+(?: \S+)*  +)(\S.*)$`)

// Fold sets a text for a terminal of so many columns: paragraphs are filled, and what is said
// of a name in a list stands below itself. Other indented lines are there to be copied and
// stay. A width of 0, of what is no terminal, changes nothing.
func Fold(text string, width int) string {
	if width <= 0 {
		return text
	}
	width = min(width, widestText)
	var out strings.Builder
	paragraph, name := "", "" // under way, and what it says something of
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
		said := strings.TrimLeft(line, " ")
		if said != "" && len(line)-len(said) == utf8.RuneCountInString(name) { // it goes on
			paragraph += " " + said
			continue
		}
		end()
		columns := twoColumns.FindStringSubmatch(line)
		switch {
		case columns != nil:
			name, paragraph = columns[1], columns[2]
		case said != "" && said == line:
			paragraph = line
		default:
			out.WriteString(line + "\n")
		}
	}
	end()
	return out.String()
}

// fill writes words into lines of a width, all but the first behind an indentation.
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
