// Package table prints rows of cells in columns below a heading.
//
// Commands use it to print numbers for people.
//
// Guarantees:
//
//  1. Columns are as wide as their widest cell in characters, and two characters apart.
//  2. No line ends in a blank.
//
// A Table belongs to one goroutine.
package table

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// defaultText is the width to which texts are cut first, which leaves them distinct. leastText is
	// the minimum width.
	defaultText, leastText = 24, 8
)

// Table is a heading and rows with the same number of cells.
type Table struct {
	// Sparse omits columns without any cell.
	Sparse bool
	// Width is the maximum width of a line in characters, 0 for none. To fit, left-aligned cells are
	// cut and the columns of Spare are omitted in that order, as far as possible.
	Width int
	Spare []int
	// Text is the width to which texts are cut before a spare column is omitted, 0 for 24.
	Text int
	// Whole lists left-aligned columns that are never cut, such as ids, which people copy.
	Whole []int

	left []int
	rows [][]string
}

// New returns a table. The columns in left are aligned left, the others, which are numbers, right.
func New(left []int, heading ...string) *Table {
	return &Table{left: left, rows: [][]string{heading}}
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Print prints the table after an empty line. Without rows it prints nothing.
func (t *Table) Print(out io.Writer) error {
	if len(t.rows) < 2 {
		return nil
	}
	widths := t.fit(t.widths())
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] < 0 {
				continue
			}
			cell = cut(cell, widths[i])
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.left, i) || slices.Contains(t.Whole, i) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
			line.WriteString("  ")
		}
		b.WriteString("\n" + strings.TrimRight(line.String(), " "))
	}
	b.WriteString("\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// widths returns the width of the widest cell per column, -1 for an omitted column.
func (t *Table) widths() []int {
	widths, filled := make([]int, len(t.rows[0])), make([]bool, len(t.rows[0]))
	for r, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			filled[i] = filled[i] || r > 0 && cell != ""
		}
	}
	for i := range widths {
		if t.Sparse && !filled[i] {
			widths[i] = -1
		}
	}
	return widths
}

// fit narrows columns until lines fit. It cuts texts to Text, then omits spare columns, then cuts
// texts further.
func (t *Table) fit(natural []int) []int {
	if t.Width <= 0 {
		return natural
	}
	for n := 0; ; n++ {
		widths := slices.Clone(natural)
		for _, i := range t.Spare[:n] {
			widths[i] = -1
		}
		floor := cmp.Or(t.Text, defaultText)
		if n == len(t.Spare) {
			t.shorten(widths, floor)
			floor = leastText
		}
		if t.shorten(widths, floor); n == len(t.Spare) || lineWidth(widths) <= t.Width {
			return widths
		}
	}
}

// shorten cuts the widest text columns, none below floor, until lines fit.
func (t *Table) shorten(widths []int, floor int) {
	for over := lineWidth(widths) - t.Width; over > 0; over-- {
		widest := -1
		for _, i := range t.left {
			if widths[i] > floor && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func lineWidth(widths []int) int {
	sum := -2
	for _, w := range widths {
		if w >= 0 {
			sum += w + 2
		}
	}
	return sum
}

func cut(cell string, width int) string {
	if runes := []rune(cell); len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return cell
}
