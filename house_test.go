package parley_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFileLines        = 800
	maxFuncLines        = 80
	maxInterfaceMethods = 8
	maxPageLines        = 300
	maxPageColumns      = 140
)

func TestSizes(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.generated {
			continue
		}
		if f.lines > maxFileLines {
			t.Errorf("%s has %d lines, want at most %d", f.name, f.lines, maxFileLines)
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				lines := f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
				if lines > maxFuncLines {
					t.Errorf("%s: func %s has %d lines, want at most %d", f.fset.Position(n.Pos()), n.Name.Name, lines, maxFuncLines)
				}
			case *ast.InterfaceType:
				if got := n.Methods.NumFields(); got > maxInterfaceMethods {
					t.Errorf("%s: interface with %d methods, want at most %d", f.fset.Position(n.Pos()), got, maxInterfaceMethods)
				}
			}
			return true
		})
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		comments[f.dir] = append(comments[f.dir], "")
		if f.syntax.Doc == nil {
			continue
		}
		comments[f.dir] = append(comments[f.dir], f.name)
		want := "Package " + f.syntax.Name.Name + " "
		if f.syntax.Name.Name == "main" {
			want = "Command " + filepath.Base(f.dir) + " "
		}
		if !strings.HasPrefix(f.syntax.Doc.Text(), want) {
			t.Errorf("%s: package comment does not begin with %q", f.name, want)
		}
	}
	for dir, names := range comments {
		names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
		if len(names) != 1 {
			t.Errorf("package %s has %d package comments %q, want 1, attached to its clause", dir, len(names), names)
		}
	}
}

func TestNoInitAndNoBlankImport(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.generated {
			continue
		}
		for _, spec := range f.syntax.Imports {
			if spec.Name != nil && (spec.Name.Name == "_" || spec.Name.Name == ".") {
				t.Errorf("%s: import %s as %s: nothing registers itself here", f.fset.Position(spec.Pos()), spec.Path.Value, spec.Name.Name)
			}
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: func init is forbidden: pass dependencies explicitly", f.fset.Position(fn.Pos()))
			}
		}
	}
}

func TestPackageNames(t *testing.T) {
	vague := list("pkg", "util", "utils", "common", "types", "mock", "mocks", "helper", "helpers", "misc", "shared", "lib")
	for _, f := range goFiles(t) {
		for _, part := range strings.Split(f.dir, "/") {
			if slices.Contains(vague, part) {
				t.Errorf("%s is in a folder named %q, which has no meaning", f.name, part)
			}
		}
		if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(vague, name) {
			t.Errorf("%s is in a package named %q, which has no meaning", f.name, name)
		}
	}
}

// TestNoMachineSpecificText rejects texts that are only true on one machine: hosts of registries, and
// folders.
func TestNoMachineSpecificText(t *testing.T) {
	// The words are concatenated so that this file does not contain them.
	words := list(
		"proxy."+"golang.org", "sum."+"golang.org", "registry."+"npmjs", "npmjs."+"com", "pypi."+"org",
		"docker."+"io", "ghcr."+"io", "quay."+"io", "deb."+"debian.org", "archive."+"ubuntu.com",
		"/work/"+"main", "/work/"+"shared", "/ro"+"ot/", "bash_"+"jobs", "../"+"shared",
	)
	for _, name := range allFiles(t) {
		b, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
			continue // binary
		}
		for _, w := range words {
			if i := bytes.Index(b, []byte(w)); i >= 0 {
				t.Errorf("%s:%d names %q", name, 1+bytes.Count(b[:i], []byte("\n")), w)
			}
		}
	}
}

func TestNoTestIsSkipped(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(list("Skip", "Skipf", "SkipNow"), sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(list("t", "b", "f", "tb"), x.Name) {
					t.Errorf("%s: a test that skips itself proves nothing", f.fset.Position(sel.Pos()))
				}
			}
			return true
		})
	}
}

// Every public package has compiled examples that import only packages that its users can import.
func TestPublicPackagesHaveExamples(t *testing.T) {
	const least = 20
	run := map[string]int{}
	all := 0
	for _, f := range goFiles(t) {
		if !f.test || within(f.dir, "internal") || strings.Contains(f.dir, "/internal/") {
			continue
		}
		for _, e := range doc.Examples(f.syntax) {
			if own, _ := importsOf(f); slices.ContainsFunc(own, func(p string) bool { return strings.Contains("/"+p, "/internal/") }) {
				t.Errorf("%s: example %q is in a file that imports %q", f.name, e.Name, own)
			}
			if e.Output != "" {
				run[f.dir]++
				all++
			}
		}
	}
	for _, pkg := range list(".", "actors", "agent", "agenttest", "channels", "client", "conversation", "http", "memory", "observability", "providers", "storage") {
		if run[pkg] == 0 {
			t.Errorf("package %s has no example that is run", pkg)
		}
	}
	if all < least {
		t.Errorf("%d examples are run, want %d: %v", all, least, run)
	}
	t.Logf("%d examples are run: %v", all, run)
}

// TestExamplesStayShort bounds the number of non-blank lines before an agent is served, in total and
// in the functions that set it up.
func TestExamplesStayShort(t *testing.T) {
	whole := map[string]int{"examples/hello": 20, "examples/quickstart": 60, "examples/hello/page.html": 10}
	const wiring = 10
	lines, wires := map[string]int{}, map[string]int{}
	for _, f := range goFiles(t) {
		if f.test || !strings.HasPrefix(f.dir, "examples/") {
			continue
		}
		src, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		if path.Base(f.name) != "doc.go" {
			lines[f.dir] += written(src)
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && (fn.Name.Name == "main" || names(fn, "parley")) {
				wires[f.dir] += written(src[f.fset.Position(fn.Pos()).Offset:f.fset.Position(fn.End()).Offset])
			}
		}
	}
	page, err := os.ReadFile("examples/hello/page.html")
	if err != nil {
		t.Fatal(err)
	}
	lines["examples/hello/page.html"] = written(page)
	for dir, most := range whole {
		if got := lines[dir]; got == 0 || got > most {
			t.Errorf("%s has %d lines, want at most %d", dir, got, most)
		}
	}
	for dir, got := range wires {
		if got > wiring {
			t.Errorf("%s has %d lines that wire, want at most %d", dir, got, wiring)
		}
	}
	if len(wires) != 6 {
		t.Errorf("%d examples wire, want 6: %v", len(wires), wires)
	}
}

// written counts the non-blank lines of a source.
func written(src []byte) (n int) {
	for line := range bytes.Lines(src) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// names reports whether a function refers to a package.
func names(fn *ast.FuncDecl, pkg string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}

// The first program of the README and the page of docs/frontends.md equal the files of examples/hello,
// which are compiled and run, without the program's comment.
func TestPagesShowExamples(t *testing.T) {
	for _, of := range []struct{ page, language, name string }{
		{"README.md", "go", "examples/hello/main.go"},
		{"docs/frontends.md", "html", "examples/hello/page.html"},
	} {
		page, err := os.ReadFile(of.page)
		if err != nil {
			t.Fatal(err)
		}
		example, err := os.ReadFile(of.name)
		if err != nil {
			t.Fatal(err)
		}
		if of.language == "go" {
			_, example, _ = bytes.Cut(example, []byte("\n"))
		}
		block := regexp.MustCompile("(?s)```" + of.language + "\n(.*?)```").FindSubmatch(page)
		if block == nil || !bytes.Equal(block[1], example) {
			t.Errorf("%s: the first block of %s differs from %s:\n%s", of.page, of.language, of.name, example)
		}
	}
}

// pages returns the documentation pages, without CHANGELOG.md.
func pages(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	return append(names, "README.md", "CONTRIBUTING.md")
}

// Every test that a page names exists.
func TestPagesNameRealTests(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test {
				tests[fn.Name.Name] = true
			}
		}
	}
	name := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)`")
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(b, -1) {
			if !tests[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

func TestPagesStayShort(t *testing.T) {
	for _, name := range pages(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(b, []byte("\n")); got > maxPageLines {
			t.Errorf("%s has %d lines, want at most %d", name, got, maxPageLines)
		}
	}
}

// TestPagesAreWrapped bounds the line length of pages, so that diffs are small. Rows of tables and
// lines of code are exempt.
func TestPagesAreWrapped(t *testing.T) {
	for _, name := range allFiles(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		b, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(b), "\n") {
			start := strings.TrimSpace(line)
			if strings.HasPrefix(start, "```") {
				code = !code
			}
			if got := utf8.RuneCountInString(line); got > maxPageColumns && !code && !strings.HasPrefix(start, "|") {
				t.Errorf("%s:%d has %d characters, want at most %d", name, i+1, got, maxPageColumns)
			}
		}
		if code {
			t.Errorf("%s has a ``` that is not closed", name)
		}
	}
}

// TestLinksResolve checks the relative links of the pages, outside of code.
func TestLinksResolve(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```")
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for _, name := range allFiles(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		b, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(b, nil), -1) {
			target := string(m[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
			}
		}
	}
}

// TestGlossaryNames rejects names in declarations that were ambiguous or synonyms of a term in
// the glossary.
func TestGlossaryNames(t *testing.T) {
	for _, rule := range []struct{ below, word, use string }{
		{"", `^[tT]ell|^told$`, "what it does: send, emit, report, log"},
		{"actors/internal/machine", `^runs?$|^(find|ripe|end|continue|cancel|park|compact)Runs?$|^run(Of|For|At)$`, "work, or the attempt, turn or call that it is"},
		{"actors/internal/machine", `[pP]repar`, "the hook DeliveryStarted, and StartDelivery"},
		{"actors", `[wW]ake|[wW]oken`, "the timer that is checked or due, or a scan"},
		{"conversation", `^([lL]ast|[oO]pen)?[sS]teps?$`, "a turn; a step is a part of a durable tool"},
	} {
		word := regexp.MustCompile(rule.word)
		for _, f := range goFiles(t) {
			if f.test || f.generated || !strings.HasPrefix(f.dir+"/", rule.below) {
				continue
			}
			for name := range declared(f.syntax) {
				if word.MatchString(name.Name) {
					t.Errorf("%s: %s is ambiguous, want %s", f.fset.Position(name.Pos()), name.Name, rule.use)
				}
			}
		}
	}
}

// declared returns the names of the functions, types and fields of a file.
func declared(file *ast.File) map[*ast.Ident]bool {
	names := map[*ast.Ident]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names[n.Name] = true
		case *ast.TypeSpec:
			names[n.Name] = true
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, name := range field.Names {
					names[name] = true
				}
			}
		}
		return true
	})
	return names
}
