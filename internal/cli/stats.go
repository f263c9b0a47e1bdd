package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Number formats a count with commas, and 0 as "-".
func Number(n int64) string {
	if n == 0 {
		return "-"
	}
	return Grouped(n)
}

func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Dollars formats a cost.
func Dollars(c float64) string {
	switch {
	case c == 0:
		return "-"
	case c >= 1:
		whole := int64(c)
		cents := int64((c-float64(whole))*100 + 0.5)
		return "$" + Grouped(whole+cents/100) + fmt.Sprintf(".%02d", cents%100)
	case c < 0.0001:
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.4f", c)
}

// Took formats a duration in milliseconds with a suitable unit.
func Took(ms int64) string {
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

// OneLine returns s on one line of at most max runes, without control characters.
func OneLine(s string, max int) string {
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

// Count formats a number with its noun.
func Count(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
