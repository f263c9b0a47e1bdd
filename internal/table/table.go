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
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a heading and rows of as many cells.
type Table struct {
	// Sparse leaves out the columns that have no cell below their heading.
	Sparse bool

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
	widths, filled := make([]int, len(t.rows[0])), make([]bool, len(t.rows[0]))
	for r, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			filled[i] = filled[i] || r > 0 && cell != ""
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if t.Sparse && !filled[i] {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.left, i) {
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
