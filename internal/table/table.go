// Package table prints rows of cells under a heading, in columns.
//
// The commands that print figures for people call it. It knows nothing of what the
// figures are.
//
// Guarantees:
//
//  1. Columns are as wide as their widest cell in characters, and stand two apart.
//  2. No line ends in a blank.
//
// A Table belongs to one goroutine. Nothing of it is durable.
package table

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// defaultText is how long texts may be cut so that they can still be told apart, and
	// leastText how long in no room at all.
	defaultText, leastText = 24, 8
)

// Table is a heading and rows of as many cells.
type Table struct {
	// Sparse leaves out the columns that have no cell below their heading.
	Sparse bool
	// Width is how many characters a line may have, 0 for any number: cells that are aligned
	// left are cut, and columns of Spare are left out in that order, until lines fit as far
	// as that goes.
	Width int
	Spare []int
	// Text is to how many characters texts are cut before a spare column goes, 0 for 24.
	Text int
	// Whole are columns aligned left that are never cut, such as ids, which people copy.
	Whole []int

	left []int
	rows [][]string
}

// New returns a table. The columns named left are aligned there, the others, which are
// numbers, at the right.
func New(left []int, heading ...string) *Table {
	return &Table{left: left, rows: [][]string{heading}}
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Print prints the table with an empty line before it; without a row it prints nothing.
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

// widths are those of the widest cells, -1 for a column that is left out.
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

// fit makes columns narrower until lines fit: texts are cut to a size at which they can be
// told apart, spare columns go where that is not enough, and in the end texts are cut further.
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

// shorten cuts the widest columns of texts, none below a floor, until lines fit.
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

// cut shortens a cell to a width.
func cut(cell string, width int) string {
	if runes := []rune(cell); len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return cell
}
