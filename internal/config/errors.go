package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown bounds the mistakes in the text of an Error.
const maxShown = 10

// Error holds all mistakes of a file, at least one.
type Error struct {
	// File is the name of the file as given.
	File string
	// Mistakes are in the order of the file.
	Mistakes []Mistake
}

// Mistake is one mistake, its position and its remedy.
type Mistake struct {
	// Line and Column count from 1; Column counts characters.
	Line, Column int
	// Key is a dotted path such as agents.echo.model. In a file that is not yaml it is the nearest key
	// above the position.
	Key string
	// Problem and Remedy are phrases without a full stop, on one line.
	Problem, Remedy string
}

// Error implements error: one line per mistake, at most 10.
func (e *Error) Error() string {
	var b strings.Builder
	for i, m := range e.Mistakes {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxShown {
			fmt.Fprintf(&b, "%s: and %d more", e.File, len(e.Mistakes)-i)
			break
		}
		fmt.Fprintf(&b, "%s:%d: %s: %s; %s", e.File, m.Line, m.Key, m.Problem, m.Remedy)
	}
	return b.String()
}

func newError(file string, mistakes []Mistake) *Error {
	slices.SortStableFunc(mistakes, func(a, b Mistake) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Key, b.Key))
	})
	return &Error{File: file, Mistakes: mistakes}
}

// fault is a problem and its remedy; the zero value is none.
type fault struct{ problem, remedy string }

// path is the position of a value as a list of steps, so that long keys are not copied for each value.
// nil is the document.
type path struct {
	parent *path
	name   string
	index  int // in a list, if name is ""
	list   bool
}

func (p *path) key(name string) *path { return &path{parent: p, name: name} }

func (p *path) item(i int) *path { return &path{parent: p, index: i, list: true} }

// maxSteps bounds the text of a path; no known key is nested so deep.
const maxSteps = 20

// String returns the dotted form; "" for the document.
func (p *path) String() string {
	if p == nil {
		return ""
	}
	var steps []*path
	for ; p != nil; p = p.parent {
		steps = append(steps, p)
	}
	var b strings.Builder
	for i, s := range slices.Backward(steps) {
		if len(steps)-i > maxSteps {
			b.WriteString("…")
			break
		}
		switch {
		case s.list:
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		case i < len(steps)-1:
			b.WriteByte('.')
		}
		b.WriteString(keyText(s.name))
	}
	return b.String()
}

// keyText returns a key as a part of a dotted path, in quotes if it is ambiguous.
func keyText(name string) string {
	plain := func(c rune) bool {
		return c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) || c == '-' || c == '_'
	}
	if name != "" && len(name) <= maxQuoted && !strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return name
	}
	return quote(name)
}

// maxQuoted bounds quoted text of the file, in bytes.
const maxQuoted = 80

// quote returns a text of the file on one line.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut] + "…")
}
