package main

import (
	"strings"
	"testing"
)

func TestParseInsert(t *testing.T) {
	for statement, want := range map[string]*insertStatement{
		"INSERT INTO t FORMAT Native": {"INSERT INTO t", "SELECT * FROM t LIMIT 0", "Native"},
		"insert into `a b`.\"c\" (x, `y z`)\n format JSONEachRow;": {
			"insert into `a b`.\"c\" (x, `y z`)", "SELECT x, `y z` FROM `a b`.\"c\" LIMIT 0", "JSONEachRow"},
		"-- why\n/* and\nhow */ INSERT INTO TABLE d.t (x) SETTINGS a = 1, b = '(' FORMAT Native": {
			"INSERT INTO TABLE d.t (x) SETTINGS a = 1, b = '('", "SELECT x FROM d.t LIMIT 0", "Native"},
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
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%s: %+v, want %+v", statement, got, want)
		}
	}
}

func TestReading(t *testing.T) {
	for statement, want := range map[string]bool{
		"SELECT 1": true, "-- why\nselect 1": true, "(select 1)": true, "WITH 1 AS a SELECT a": true, "EXPLAIN SELECT 1": true, "SHOW TABLES": true,
		"SELECTED": false, "INSERT INTO t SELECT 1": false, "CREATE TABLE t AS SELECT 1": false, "SET a = 1": false, "": false,
	} {
		if got := reading.MatchString(statement); got != want {
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

// FuzzParseInsert checks that the parsed INSERT is part of the input.
func FuzzParseInsert(f *testing.F) {
	for _, s := range []string{"INSERT INTO t FORMAT Native", "INSERT INTO `a b`.c (x, `y z`) SETTINGS q = 1 FORMAT CSV;", "INSERT INTO t (", "-- \n/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, ok := parseInsert(s)
		if !ok {
			return
		}
		if i.format == "" || i.target == "" || !strings.Contains(s, i.text) {
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
