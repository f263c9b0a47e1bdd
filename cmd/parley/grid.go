package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// grid is rows of cells under a heading. The columns named left are aligned there, the
// others, which are numbers, at the right.
type grid struct {
	left []int
	rows [][]string
}

func newGrid(left []int, heading ...string) *grid { return &grid{left, [][]string{heading}} }

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

// print prints the grid with an empty line before it; without a row it prints nothing.
func (t *grid) print(out io.Writer) error {
	if len(t.rows) < 2 {
		return nil
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.isLeft(i) {
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

func (t *grid) isLeft(column int) bool {
	for _, l := range t.left {
		if l == column {
			return true
		}
	}
	return false
}

// number writes a count with commas, and nothing for none.
func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return grouped(n)
}

func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dollars writes a cost.
func dollars(c float64) string {
	switch {
	case c == 0:
		return "-"
	case c >= 1:
		whole := int64(c)
		cents := int64((c-float64(whole))*100 + 0.5)
		return "$" + grouped(whole+cents/100) + fmt.Sprintf(".%02d", cents%100)
	case c < 0.0001:
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.4f", c)
}

// took writes a duration of milliseconds with the unit that suits it.
func took(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", ms/60_000, ms/1000%60)
	}
	return fmt.Sprintf("%dh %02dm", ms/3_600_000, ms/60_000%60)
}

// oneLine is a text on one line of at most max runes, without what would change a terminal.
func oneLine(s string, max int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)), " ")
	if runes := []rune(s); len(runes) > max {
		return string(runes[:max-1]) + "…"
	}
	return s
}
