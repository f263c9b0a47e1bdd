package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Codes that do not come from the engine, and those that are looked for.
const (
	codeCannotReadAllData = 33
	codeNotImplemented    = 48
	codeUnknownTable      = 60
	codeSyntaxError       = 62
	codeUnknownDatabase   = 81
	codeUnknownSetting    = 115
	codeUnknownException  = 1002
)

// exception is an error of the engine.
type exception struct {
	code int32
	text string // Without the code and the kind, which stand in front.
}

// exceptionName is the kind of every exception.
const exceptionName = "DB::Exception"

func (e *exception) Error() string { return fmt.Sprintf("Code: %d. %s", e.code, e.message()) }

func (e *exception) message() string { return exceptionName + ": " + e.text }

var exceptionPrefix = regexp.MustCompile(`^(?:Code: (\d+)\. )?(?:DB::Exception: )?`)

// parseException takes what the engine says, which may have the code and the kind
// in front more than once.
func parseException(text string) *exception {
	e := &exception{code: codeUnknownException, text: strings.TrimSpace(text)}
	for {
		m := exceptionPrefix.FindStringSubmatch(e.text)
		if m[0] == "" {
			return e
		}
		if n, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			e.code = int32(n)
		}
		e.text = e.text[len(m[0]):]
	}
}

var (
	leadingComments = regexp.MustCompile(`(?s)^(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)+`)
	formatClause    = regexp.MustCompile(`(?is)\s+FORMAT\s+(\w+)\s*;?\s*$`)
	readingKeyword  = regexp.MustCompile(`(?i)^\(*\s*(?:SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|EXISTS)\b`)
	insertTarget    = regexp.MustCompile("(?is)^INSERT\\s+INTO\\s+(?:TABLE\\s+)?((?:`[^`]+`|\"[^\"]+\"|\\w+)(?:\\.(?:`[^`]+`|\"[^\"]+\"|\\w+))?)\\s*(?:\\(([^()]*)\\))?\\s*(?:SETTINGS\\s.*)?$")
	settingName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// withoutComments returns the statement from its first keyword on.
func withoutComments(statement string) string {
	return strings.TrimSpace(leadingComments.ReplaceAllString(statement, ""))
}

// splitFormat takes the format that a statement names at its end from it.
func splitFormat(statement string) (rest, format string) {
	if m := formatClause.FindStringSubmatchIndex(statement); m != nil {
		return statement[:m[0]], statement[m[2]:m[3]]
	}
	return statement, ""
}

// reads reports whether a statement has a result, if only an empty one.
func reads(statement string) bool { return readingKeyword.MatchString(statement) }

// insertStatement is an INSERT whose data comes apart from it.
type insertStatement struct {
	text    string // Without the format.
	table   string // As it is written.
	columns []string
	format  string
}

// parseInsert recognizes an INSERT that names a format and has no data.
func parseInsert(statement string) (*insertStatement, bool) {
	rest, format := splitFormat(withoutComments(statement))
	m := insertTarget.FindStringSubmatch(rest)
	if m == nil || format == "" {
		return nil, false
	}
	i := &insertStatement{text: rest, table: m[1], format: format}
	for _, c := range strings.Split(m[2], ",") {
		if c = strings.Trim(c, " `\"\t\r\n"); c != "" {
			i.columns = append(i.columns, c)
		}
	}
	return i, true
}

// quote writes a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

// setStatements are the statements that make settings and undo that.
func setStatements(settings map[string]string) (set, undo string, err error) {
	var sets, undoes []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !settingName.MatchString(name) {
			return "", "", &exception{code: codeUnknownSetting, text: fmt.Sprintf("Unknown setting '%s'. (UNKNOWN_SETTING)", name)}
		}
		sets = append(sets, name+" = "+quote(settings[name]))
		undoes = append(undoes, name+" = DEFAULT")
	}
	return "SET " + strings.Join(sets, ", "), "SET " + strings.Join(undoes, ", "), nil
}

// unquoteField takes a string from the form in which values cross the native
// protocol: quoted, with the quote and the backslash escaped.
func unquoteField(s string) string {
	inner, quoted := strings.CutPrefix(s, "'")
	if !quoted || !strings.HasSuffix(inner, "'") {
		return s
	}
	inner = strings.TrimSuffix(inner, "'")
	return strings.NewReplacer(`\\`, `\`, `\'`, "'", `\n`, "\n", `\r`, "\r", `\t`, "\t", `\0`, "\x00").Replace(inner)
}
