package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseInsert(t *testing.T) {
	for statement, want := range map[string]*insertStatement{
		"INSERT INTO t FORMAT Native":                              {text: "INSERT INTO t", table: "t", format: "Native"},
		"insert into `a b`.\"c\" (x, `y z`)\n format JSONEachRow;": {text: "insert into `a b`.\"c\" (x, `y z`)", table: "`a b`.\"c\"", columns: []string{"x", "y z"}, format: "JSONEachRow"},
		"-- why\n/* and\nhow */ INSERT INTO TABLE d.t (x) SETTINGS a = 1, b = '(' FORMAT Native": {
			text: "INSERT INTO TABLE d.t (x) SETTINGS a = 1, b = '('", table: "d.t", columns: []string{"x"}, format: "Native"},
		"INSERT INTO t VALUES (1)":                    nil,
		"INSERT INTO t VALUES ('FORMAT Native')":      nil,
		"INSERT INTO t SELECT 1":                      nil,
		"INSERT INTO t SELECT 1 FORMAT Native":        nil,
		"INSERT INTO FUNCTION file('x') FORMAT CSV":   nil,
		"INSERT INTO t FORMAT JSONEachRow {\"a\": 1}": nil,
		"SELECT 1 FORMAT Native":                      nil,
		"":                                            nil,
	} {
		got, ok := parseInsert(statement)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(insertStatement{})); diff != "" || ok != (want != nil) {
			t.Errorf("%s (-want +got):\n%s", statement, diff)
		}
	}
}

func TestReads(t *testing.T) {
	for statement, want := range map[string]bool{
		"SELECT 1": true, "(select 1)": true, "WITH 1 AS a SELECT a": true, "EXPLAIN SELECT 1": true, "SHOW TABLES": true,
		"SELECTED": false, "INSERT INTO t SELECT 1": false, "CREATE TABLE t AS SELECT 1": false, "SET a = 1": false, "": false,
	} {
		if got := reads(statement); got != want {
			t.Errorf("%s: %v", statement, got)
		}
	}
}

func TestParseException(t *testing.T) {
	for text, want := range map[string]exception{
		"Code: 60. DB::Exception: No table. (UNKNOWN_TABLE)\n":                   {60, "No table. (UNKNOWN_TABLE)"},
		"Code: 108. DB::Exception: Code: 108. DB::Exception: No data. (NO_DATA)": {108, "No data. (NO_DATA)"},
		"Code: 99999999999. DB::Exception: Who made this":                        {codeUnknownException, "Who made this"},
		"std::bad_alloc": {codeUnknownException, "std::bad_alloc"},
		"":               {codeUnknownException, ""},
	} {
		if got := parseException(text); *got != want {
			t.Errorf("%q: %+v, want %+v", text, *got, want)
		}
	}
}

func TestSetStatements(t *testing.T) {
	set, undo, err := setStatements(map[string]string{"b": `it's \`, "a": "1"})
	if err != nil || set != `SET a = '1', b = 'it\'s \\'` || undo != "SET a = DEFAULT, b = DEFAULT" {
		t.Errorf("%s; %s; %v", set, undo, err)
	}
	for _, name := range []string{"", "a b", "a=1,c", "1a", "a'"} {
		if _, _, err := setStatements(map[string]string{name: "1"}); asException(err).code != codeUnknownSetting {
			t.Errorf("%q: %v, want an unknown setting", name, err)
		}
	}
}

// FuzzUnquoteField checks that a value in the form of the protocol comes back.
func FuzzUnquoteField(f *testing.F) {
	for _, s := range []string{"", "a", `\`, "'", "a\tb\nc\r\x00", `\t`, `''`} {
		f.Add(s)
	}
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\0`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := unquoteField("'" + escape.Replace(s) + "'"); got != s {
			t.Errorf("%q comes back as %q", s, got)
		}
		_ = unquoteField(s) // Any text is one.
	})
}

// FuzzParseInsert checks that what is left of an INSERT names no format and that its
// table stands in it.
func FuzzParseInsert(f *testing.F) {
	for _, s := range []string{"INSERT INTO t FORMAT Native", "INSERT INTO `a b`.c (x, `y z`) SETTINGS q = 1 FORMAT CSV;", "INSERT INTO t (", "-- \n/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, ok := parseInsert(s)
		if !ok {
			return
		}
		if i.format == "" || i.table == "" || !strings.Contains(i.text, i.table) || !strings.HasPrefix(withoutComments(s), i.text) {
			t.Errorf("%q is read as %+v", s, i)
		}
	})
}

func FuzzParseException(f *testing.F) {
	for _, s := range []string{"", "Code: 60. DB::Exception: x", "Code: 1. Code: 2. DB::Exception: DB::Exception: y", "Code: . z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if e := parseException(s); !strings.HasSuffix(strings.TrimSpace(s), e.text) || strings.HasPrefix(e.text, exceptionName+": ") {
			t.Errorf("%q is read as %+v", s, *e)
		}
	})
}
