package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// codeUnknownException is the code of an error without one.
const codeUnknownException = 1002

// exceptionName is the name of every exception.
const exceptionName = "DB::Exception"

type exception struct {
	code int32
	text string // Without the leading code and name.
}

func (e *exception) Error() string { return fmt.Sprintf("Code: %d. %s", e.code, e.message()) }

func (e *exception) message() string { return exceptionName + ": " + e.text }

var exceptionPrefix = regexp.MustCompile(`^(?:Code: (\d+)\. |` + exceptionName + `: )*`)

// parseException parses an error of the engine, which may repeat the leading code and name.
func parseException(text string) *exception {
	text = strings.TrimSpace(text)
	m := exceptionPrefix.FindStringSubmatch(text)
	e := &exception{code: codeUnknownException, text: text[len(m[0]):]}
	if code, err := strconv.ParseInt(m[1], 10, 32); err == nil {
		e.code = int32(code)
	}
	return e
}

// Patterns of the parsed statements, after comments. The second has a table as written, columns and a
// format, and no data.
const (
	comments = `(?is)^(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*`
	name     = "(?:`[^`]+`|\"[^\"]+\"|\\w+)"
)

var (
	reading   = regexp.MustCompile(comments + `\(*\s*(?:SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|EXISTS)\b`)
	inserting = regexp.MustCompile(comments + `(INSERT\s+INTO\s+(?:TABLE\s+)?(` + name + `(?:\.` + name + `)?)\s*(?:\(([^()]*)\))?` +
		`(?:\s*SETTINGS\s.*?)?)\s+FORMAT\s+(\w+)\s*;?\s*$`)
)

// insertStatement is an INSERT with separate data.
type insertStatement struct {
	text   string // without the format
	target string // a statement whose result has its columns
	format string
}

// parseInsert recognizes an INSERT that names a format and has no data.
func parseInsert(statement string) (i insertStatement, ok bool) {
	m := inserting.FindStringSubmatch(statement)
	if m == nil {
		return i, false
	}
	columns := m[3]
	if strings.TrimSpace(columns) == "" {
		columns = "*"
	}
	return insertStatement{m[1], "SELECT " + columns + " FROM " + m[2] + " LIMIT 0", m[4]}, true
}

// quote returns a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
