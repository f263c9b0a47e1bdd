package parley_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rewrite makes TestStatementTables write the tests of its tables.
var rewrite = flag.Bool("rewrite", false, "write the tests of the tables of statements instead of comparing them")

const statementsHead = "\n| # | about | statement | held by |\n|---|---|---|---|\n"

// statementTables maps the tables of statements, docs/<name>-tests.md, to their minimum number of rows.
// A table only grows, because removing a statement removes a guarantee.
func statementTables() map[string]int {
	return map[string]int{"beta": 118, "channels": 195, "protocol": 200, "providers": 211, "upgrade": 38}
}

// statement is a row of a table of statements: a guarantee, and the tests that fail if it is violated.
type statement struct{ number, about, text, tests string }

func (s statement) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s |", s.number, s.about, s.text, s.tests)
}

// covering is one item of a covers line: a test, or one of its subtests, that covers a statement.
type covering struct {
	at             token.Position
	table, number  string
	dir, test, sub string
}

// TestStatementTables verifies that tests cover every statement, and that the tables list these tests.
func TestStatementTables(t *testing.T) {
	index, covered := indexTests(t), map[string]map[string][]covering{}
	for _, f := range goFiles(t) {
		items, err := coversOf(f)
		if err != nil {
			t.Error(err)
		}
		for _, c := range items {
			if _, ok := statementTables()[c.table]; !ok {
				t.Errorf("%s: %s covers %s/%s: unknown table %q", c.at, c.test, c.table, c.number, c.table)
				continue
			}
			if c.sub != "" && !index.hasSubtest(t, c.dir, c.sub) {
				t.Errorf("%s: %s covers %s/%s: no subtest %s", c.at, c.test, c.table, c.number, c.sub)
			}
			if covered[c.table] == nil {
				covered[c.table] = map[string][]covering{}
			}
			covered[c.table][c.number] = append(covered[c.table][c.number], c)
		}
	}
	for table, atLeast := range statementTables() {
		t.Run(table, func(t *testing.T) { checkStatements(t, table, atLeast, covered[table], index) })
	}
}

// coversOf parses the covers lines of the tests of a file. Its error joins the invalid ones.
func coversOf(f file) (items []covering, err error) {
	tests := map[*ast.CommentGroup]string{}
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Doc != nil && f.test && testName.MatchString(fn.Name.Name) {
			tests[fn.Doc] = fn.Name.Name
		}
	}
	for _, group := range f.syntax.Comments {
		for _, line := range group.List {
			list, ok := strings.CutPrefix(line.Text, "// covers:")
			at := f.fset.Position(line.Pos())
			switch {
			case !ok:
				continue
			case tests[group] == "":
				err = errors.Join(err, fmt.Errorf("%s: %q is not above a test", at, line.Text))
				continue
			case len(line.Text) > maxCoversColumns:
				err = errors.Join(err, fmt.Errorf("%s: got %d columns, want at most %d", at, len(line.Text), maxCoversColumns))
			}
			for item := range strings.SplitSeq(strings.TrimPrefix(list, " "), ", ") {
				m := coversItem.FindStringSubmatch(item)
				if m == nil {
					err = errors.Join(err, fmt.Errorf("%s: got item %q, want <table>/<number>, or <table>/<number> <subtest>", at, item))
					continue
				}
				c := covering{at, m[1], m[2], f.dir, tests[group], m[3]}
				if slices.ContainsFunc(items, c.repeats) {
					err = errors.Join(err, fmt.Errorf("%s: %s covers %s twice", at, c.test, item))
				}
				items = append(items, c)
			}
		}
	}
	return items, err
}

const maxCoversColumns = 120

var (
	testName   = regexp.MustCompile(`^(Test|Fuzz)[A-Z][A-Za-z0-9]*$`)
	coversItem = regexp.MustCompile(`^([a-z]+)/([0-9]+)(?: (\S+))?$`)
)

// repeats reports whether both are the same item of one test.
func (c covering) repeats(other covering) bool {
	c.at = other.at
	return c == other
}

// checkStatements compares a table with the tests that cover its statements, or writes them into it.
func checkStatements(t *testing.T, table string, atLeast int, covered map[string][]covering, index testIndex) {
	page := "docs/" + table + "-tests.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rows, ok := strings.Cut(string(b), statementsHead)
	if !ok {
		t.Fatalf("%s has no table of statements", page)
	}
	list := parseStatements(t, rows)
	if len(list) < atLeast {
		t.Errorf("%d statements, want at least %d", len(list), atLeast)
	}
	var want strings.Builder
	for i := range list {
		s := &list[i]
		before := s.String()
		s.tests = index.cell(covered[s.number])
		if s.tests == "" {
			t.Errorf("no test covers %s/%s: %s", table, s.number, s.text)
		} else if got := s.String(); got != before && !*rewrite {
			t.Errorf("%s: row %s differs from the tests, update with go test . -run 'TestStatementTables$' -rewrite\n got %s\nwant %s",
				page, s.number, before, got)
		}
		delete(covered, s.number)
		fmt.Fprintln(&want, s)
	}
	for number, items := range covered {
		for _, c := range items {
			t.Errorf("%s: %s covers %s/%s: no such statement", c.at, c.test, table, number)
		}
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(page, []byte(head+statementsHead+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// parseStatements parses the rows of a table. Rows are numbered from 1 and distinct; a new row may have
// an empty last cell.
func parseStatements(t *testing.T, rows string) (list []statement) {
	t.Helper()
	seen := map[string]string{}
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], "| ") {
			t.Errorf("got row %s, want four cells", line)
			continue
		}
		s := statement{strings.TrimPrefix(cells[0], "| "), cells[1], cells[2], strings.TrimSpace(cells[3])}
		if want := strconv.Itoa(len(list) + 1); s.number != want {
			t.Errorf("got row %s, want %s", s.number, want)
		}
		if strings.TrimSpace(s.about) == "" || strings.TrimSpace(s.text) == "" {
			t.Errorf("row %s is empty", s.number)
		}
		if before, ok := seen[s.text]; ok {
			t.Errorf("rows %s and %s are duplicates", before, s.number)
		}
		seen[s.text] = s.number
		list = append(list, s)
	}
	return list
}

// testIndex lists the tests and the strings that can be names of subtests.
type testIndex struct {
	folders map[string][]string        // by name, the folders with a test of that name
	words   map[string]map[string]bool // by folder, the strings of its tests, as names of subtests
	suites  map[string][]string        // by folder, the suites that its tests import; their strings count too
}

func indexTests(t *testing.T) testIndex {
	t.Helper()
	x := testIndex{folders: map[string][]string{}, words: map[string]map[string]bool{}, suites: map[string][]string{}}
	suites := map[string]bool{}
	for _, r := range packages() {
		suites[r.pkg] = r.role == suite
	}
	for _, f := range goFiles(t) {
		if !f.test && !suites[f.dir] {
			continue
		}
		if x.words[f.dir] == nil {
			x.words[f.dir] = map[string]bool{}
		}
		own, _ := importsOf(f)
		x.suites[f.dir] = append(x.suites[f.dir], slices.DeleteFunc(own, func(p string) bool { return !suites[p] })...)
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				x.folders[fn.Name.Name] = append(x.folders[fn.Name.Name], f.dir)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					x.words[f.dir][strings.ReplaceAll(s, " ", "_")] = true
				}
			}
			return true
		})
	}
	return x
}

// hasSubtest reports whether the tests of a folder have the subtest: as a string, or as a file of testdata.
func (x testIndex) hasSubtest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "testdata", "*", name))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) > 0 || x.words[dir][name] || slices.ContainsFunc(x.suites[dir], func(s string) bool { return x.words[s][name] })
}

// cell formats the tests of a statement. A name that several packages have is preceded by its folder.
func (x testIndex) cell(items []covering) string {
	slices.SortFunc(items, func(a, b covering) int {
		return cmp.Or(cmp.Compare(a.test, b.test), cmp.Compare(a.sub, b.sub), cmp.Compare(a.dir, b.dir))
	})
	var names []string
	for _, c := range items {
		name := c.test
		if slices.ContainsFunc(x.folders[c.test], func(dir string) bool { return dir != c.dir }) {
			name = c.dir + "." + name
		}
		if c.sub != "" {
			name += "/" + c.sub
		}
		names = append(names, "`"+name+"`")
	}
	return strings.Join(names, ", ")
}
