package parley_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const protocolPage = "docs/protocol.md"

// statementPages maps the pages with tables of statements to the minimum number of rows. A table only
// grows, because removing a statement removes a guarantee.
func statementPages() map[string]int {
	return map[string]int{
		"docs/beta-tests.md": 117, "docs/channels-tests.md": 166, "docs/protocol-tests.md": 200, "docs/providers-tests.md": 200,
		"docs/upgrade-tests.md": 38,
	}
}

// statement is a row of the table of statements: a guarantee, and the tests that fail if it is
// violated, some with a subtest.
type statement struct {
	number, about, text string
	tests               []string
}

// statements parses the table of a page. An invalid row is an error.
func statements(t *testing.T, page string) []statement {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "\n| # | about | statement | held by |\n|---|---|---|---|\n")
	if !ok {
		t.Fatalf("%s has no table of statements", page)
	}
	var out []statement
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], "| ") || !strings.HasSuffix(cells[3], " |") {
			t.Errorf("got row %s, want four cells", line)
			continue
		}
		s := statement{number: strings.TrimPrefix(cells[0], "| "), about: cells[1], text: cells[2]}
		for name := range strings.SplitSeq(strings.TrimSuffix(cells[3], " |"), ", ") {
			bare := strings.Trim(name, "`")
			if name != "`"+bare+"`" {
				t.Errorf("row %s names the test %s without quotes", s.number, name)
			}
			s.tests = append(s.tests, bare)
		}
		out = append(out, s)
	}
	return out
}

// TestStatementTables: every statement of the protocol, of the registration of providers, and
// of channels, is held by tests that exist.
func TestStatementTables(t *testing.T) {
	tests := indexTests(t)
	for page, atLeast := range statementPages() {
		t.Run(path.Base(page), func(t *testing.T) { checkStatements(t, statements(t, page), tests, atLeast) })
	}
}

func checkStatements(t *testing.T, table []statement, tests testIndex, atLeast int) {
	t.Helper()
	if len(table) < atLeast {
		t.Errorf("%d statements, want at least %d", len(table), atLeast)
	}
	seen, name := map[string]string{}, regexp.MustCompile(`^(Test|Fuzz)[A-Z][A-Za-z0-9]*$`)
	for i, s := range table {
		if s.number != strconv.Itoa(i+1) {
			t.Errorf("got row %s, want %d", s.number, i+1)
		}
		if strings.TrimSpace(s.about) == "" || strings.TrimSpace(s.text) == "" {
			t.Errorf("row %s is empty", s.number)
		}
		if before, ok := seen[s.text]; ok {
			t.Errorf("rows %s and %s are duplicates", before, s.number)
		}
		seen[s.text] = s.number
		for j, test := range s.tests {
			top, sub, _ := strings.Cut(test, "/")
			switch {
			case !name.MatchString(top):
				t.Errorf("row %s: %q is not the name of a test", s.number, test)
			case len(tests.folders[top]) == 0:
				t.Errorf("row %s names %s, which does not exist", s.number, top)
			case sub != "" && !tests.hasSubtest(t, top, sub):
				t.Errorf("row %s: %s has no subtest %s", s.number, top, sub)
			case slices.Contains(s.tests[:j], test):
				t.Errorf("row %s names %s twice", s.number, test)
			}
		}
	}
}

// testIndex is what a name of a test can be checked against.
type testIndex struct {
	folders map[string][]string        // by top-level test, where one of that name is
	words   map[string]map[string]bool // by folder, the strings of its tests as names of subtests
	suites  map[string][]string        // by folder, the suites that its tests run, whose strings count as well
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

// hasSubtest reports whether a folder of the test has the subtest: as a string of
// its tests, or as a file of its testdata.
func (x testIndex) hasSubtest(t *testing.T, test, name string) bool {
	t.Helper()
	return slices.ContainsFunc(x.folders[test], func(dir string) bool {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "testdata", "*", name))
		if err != nil {
			t.Fatal(err)
		}
		return len(files) > 0 || x.words[dir][name] || slices.ContainsFunc(x.suites[dir], func(s string) bool { return x.words[s][name] })
	})
}

// TestProtocolNamesEverything: the page has every type of error, chunk and part
// that goes over the wire.
func TestProtocolNamesEverything(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]int{"Code": 0, "ChunkType": 0, "Outcome": 0, "Purpose": 0, "Role": 0, "Display": 0}
	for _, f := range goFiles(t) {
		if f.test || f.dir != "conversation" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			typ, ok := spec.Type.(*ast.Ident)
			lit, isLit := spec.Values[0].(*ast.BasicLit)
			if _, listed := lists[nameOf(typ, ok)]; !listed || !isLit {
				return true
			}
			lists[typ.Name]++
			value, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(string(page), "`"+value+"`") {
				t.Errorf("%s does not name the %s `%s` of %s", path.Base(protocolPage), typ.Name, value, f.name)
			}
			return true
		})
	}
	for name, n := range lists {
		if n < 3 {
			t.Errorf("package conversation lists %d values of %s", n, name)
		}
	}
}

func nameOf(id *ast.Ident, ok bool) string {
	if !ok {
		return ""
	}
	return id.Name
}
