package parley_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// A wordRule rejects a word that is not the term of the field.
type wordRule struct {
	word   string         // as printed in a failure
	write  string         // the term of the field
	match  *regexp.Regexp // ignores case; a space matches any white space
	except *regexp.Regexp // of the match with a word before and after it, nil if there is no exception
}

// wordRules is the list of rejected words. Backquoted and quoted text of comments and pages is exempt.
func wordRules() []wordRule {
	rule := func(word, match, except, write string) wordRule {
		compile := func(s string) *regexp.Regexp {
			if s == "" {
				return nil
			}
			return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(s, " ", `\s+`) + `)\b`)
		}
		return wordRule{word, write, compile(match), compile(except)}
	}
	const object = `(?:(?:it|them|him|this|that|these|one|all) )?`
	return []wordRule{
		rule("set aside", `(?:set|sets|setting|put|puts|lay|lays|laid|lie|lies) `+object+`aside`, "", "quarantine"),
		rule("owe", `owe|owes|owed`, "", "pending work"),
		rule("busy journal", `(?:busy|wake) journals?`, "", "pending-work journal"),
		rule("asleep", `asleep`, "", "suspended (durable, by timer) or idle (in memory)"),
		rule("rests", `rests|resting`, "", "suspended, idle, or depends on"),
		rule("parked", `parks?|parked|parking`, "", "suspended"),
		rule("wake", `wakes?|waking|woke|woken`, "", "resume"),
		rule("poke, nudge", `(?:poke|nudge)[sd]?|poking|nudging`, "", "resume or probe"),
		rule("let in", `(?:let|lets|letting) `+object+`in`, "", "authenticate or accept"),
		rule("guest, door", `(?:a|the|this|every|each|no) guests?|doors?`, "", "handshake or listener"),
		rule("give away", `(?:gives?|gave|given|giving) `+object+`away`, "", "forward or route"),
		rule("hand on, pass on", `(?:hand|hands|handed|handing|pass|passes|passed|passing) `+object+`on`, "", "forward or route"),
		rule("put away", `(?:put|puts|putting) `+object+`away`, "", "passivate or evict"),
		rule("given up", `(?:gives?|gave|given|giving) `+object+`up`, "", "stop, evict, or fail after the last attempt"),
		rule("forget", `forgets?|forgot|forgotten|forgetting`, "", "evict or expire"),
		rule("hasty, barren, blind, alarmed", `hasty|hastily|barren|blind|blindly|alarmed`, `blind spots?`, "the property itself"),
		rule("witness, bystander", `witness(?:es)?|bystanders?`, "", "the thing itself"),
		rule("dies, dead", `die|dies|died|dying|death|deaths|dead`, `dead[- ]+letters?`, "crash, crashed, or stopped"),
		rule("life of an address", `(?:first|second|earlier|later|last|next|new|old|other|another|previous|former) (?:life|lives)`, "", "incarnation"),
		rule("damage, mend", `damag(?:e|es|ed|ing)|mends?|mended|mending`, "", "corruption, corrupt, or repair"),
		rule("judge", `judge[sd]?|judging|judge?ments?`, "", "oracle or interoperability test"),
		rule("deed, fate, story", `deeds?|fates?|story|stories`, "", "event, outcome, or scenario"),
		rule("cast, player, theatre", `cast|players?|theat(?:re|er)s?`, `(?:type )?cast to`, "fixture or actor"),
		rule("seen running", `seen running|(?:is|are|was|were) shown by`, "", "covered or verified"),
		rule("take back", `(?:take|takes|took|taken|taking) `+object+`back`, "", "cancel or revoke"),
		rule("pass over", `(?:pass|passes|passed|passing) `+object+`over`, "", "skip"),
		rule("go ahead", `(?:go|goes|going|gone|went) ahead`, "", "overtake or continue"),
		rule("stranger", `strangers?|strangers?'s?`, "", "untrusted"),
		rule("leave out", `(?:leave|leaves|left|leaving) `+object+`out`, "", "omit"),
		rule("leave alone", `(?:leave|leaves|left|leaving) `+object+`alone`, "", "skip, or unchanged"),
		rule("bring along", `(?:bring|brings|brought|bringing) `+object+`along`, "", "include or deliver"),
		rule("figures", `figures`, "", "metrics, stats, or numbers"),
		rule("letter", `(?:a|the|this|that|one|its|each|every|no) letter (?:of|is|was|has|goes|to|holds|names)`, "", "dead letter"),
		rule("beside", `beside`, "", "next to, in addition to, or concurrently with"),
		rule("for good", `for good`, `for good (?:reason|measure)`, "permanently"),
		rule("turn away", `(?:turn|turns|turned|turning) `+object+`away`, "", "reject"),
		rule("furnish", `furnish(?:es|ed|ing)?`, "", "initialize"),
		rule("take stock, forgive", `takes?\s?stock|forgiv(?:e|es|en|ing)|forgave`, "", "scan, or expire"),
		rule("meanwhile", `meanwhile`, "", "concurrently, or until then"),
		rule("whoever", `whoever|whosoever|that which`, "", "a noun: the node, the writer, the caller"),
		rule("command groups", `(?:keep|look|talk) commands?`, "", "operator, analyst, client, or server commands"),
	}
}

// A prose is a text of the repository: a comment, a string, a test name, or a page.
type prose struct {
	name string
	line int // of the first line of text
	text string
	kind string // comment, string, name or page
}

// A finding is a rejected word.
type finding struct {
	name        string
	line        int
	word, write string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q is not a term of the field; write %s", f.name, f.line, f.word, f.write)
}

var (
	backquoted = regexp.MustCompile("`[^`\n]*`|\"[^\"\n]*\"")
	fenced     = regexp.MustCompile("(?s)```.*?```|<!--.*?-->")
	linked     = regexp.MustCompile(`\]\([^)\n]*\)`)
	subject    = regexp.MustCompile(`(?:^|[.;:]\s+)(What|Who|Nobody)\b[^.?]*(?:[.?]|$)`)
)

// blank replaces the matches by spaces, so that lines and offsets remain.
func blank(text string, match *regexp.Regexp) string {
	return match.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}

// check returns the rejected words of a text.
func (p prose) check(rules []wordRule) (found []finding) {
	text := p.text
	if p.kind == "comment" || p.kind == "page" {
		text = blank(text, backquoted)
	}
	at := func(i int, word, write string) {
		word = strings.Join(strings.Fields(word), " ")
		found = append(found, finding{p.name, p.line + strings.Count(text[:i], "\n"), word, write})
	}
	for _, rule := range rules {
		for _, m := range rule.match.FindAllStringIndex(text, -1) {
			if rule.except == nil || !rule.except.MatchString(around(text, m[0], m[1])) {
				at(m[0], text[m[0]:m[1]], rule.write)
			}
		}
	}
	for _, m := range subject.FindAllStringSubmatchIndex(text, -1) {
		if !strings.HasSuffix(text[m[0]:m[1]], "?") {
			at(m[2], text[m[2]:m[3]], "a noun as the subject of the sentence")
		}
	}
	return found
}

// around extends a part of a text by the word before and the word after it.
func around(text string, from, to int) string {
	fields := strings.Fields(text[:from])
	before := fields[max(0, len(fields)-1):]
	fields = strings.Fields(text[to:])
	after := fields[:min(1, len(fields))]
	return strings.Join(slices.Concat(before, []string{text[from:to]}, after), " ")
}

// proseOf returns the comments, the texts of errors, log messages and failures, and the names of the
// tests of a file.
func proseOf(name string, fset *token.FileSet, file *ast.File) (texts []prose) {
	add := func(pos token.Pos, kind, text string) {
		texts = append(texts, prose{name, fset.Position(pos).Line, text, kind})
	}
	for _, group := range file.Comments {
		add(group.Pos(), "comment", commentText(group))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasSuffix(name, "_test.go") && nameOfTest.MatchString(n.Name.Name) {
				add(n.Pos(), "name", splitWords(n.Name.Name))
			}
		case *ast.CallExpr:
			if reports(n) {
				for _, arg := range n.Args {
					for _, lit := range literals(arg) {
						if s, err := strconv.Unquote(lit.Value); err == nil {
							add(lit.Pos(), "string", strings.ReplaceAll(s, "\n", " "))
						}
					}
				}
			}
		}
		return true
	})
	return texts
}

var nameOfTest = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z_0-9]`)

// commentText returns the text of a comment, one line for each of its lines. Directives and code are empty lines.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		for line := range strings.SplitSeq(c.Text, "\n") {
			line = strings.TrimSuffix(line, "*/")
			line, slashes := strings.CutPrefix(line, "//")
			if !slashes {
				line = strings.TrimPrefix(line, "/*")
			}
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "   ") || slashes && line != "" && line[0] != ' ' {
				line = ""
			}
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// splitWords splits a name in camel case.
func splitWords(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) || r == '_' {
			b.WriteByte(' ')
		}
		if r != '_' {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// reports reports whether a call makes an error, a log line, the failure of a test or a subtest.
func reports(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		name, ok := call.Fun.(*ast.Ident)
		return ok && name.Name == "panic"
	}
	x, _ := sel.X.(*ast.Ident)
	method := strings.TrimSuffix(sel.Sel.Name, "Context")
	return method == "New" && x != nil && x.Name == "errors" ||
		method == "Run" && x != nil && list("t", "b")[0] == x.Name ||
		slices.Contains(list("Errorf", "Error", "Fatal", "Fatalf", "Log", "Logf", "LogAttrs", "Debug", "Info", "Warn"), method)
}

// literals returns the string literals that an argument concatenates.
func literals(e ast.Expr) []*ast.BasicLit {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return []*ast.BasicLit{e}
		}
	case *ast.BinaryExpr:
		return append(literals(e.X), literals(e.Y)...)
	case *ast.ParenExpr:
		return literals(e.X)
	}
	return nil
}

// pageText returns the prose of a page: without code, comments and the addresses of links.
func pageText(src string) string { return blank(blank(src, fenced), linked) }

func TestOneWordForOneThing(t *testing.T) {
	rules := wordRules()
	for _, f := range goFiles(t) {
		if f.generated {
			continue
		}
		for _, p := range proseOf(f.name, f.fset, f.syntax) {
			for _, found := range p.check(rules) {
				t.Error(found)
			}
		}
	}
	for _, name := range prosePages(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range (prose{name, 1, pageText(string(b)), "page"}).check(rules) {
			t.Error(found)
		}
	}
}

// prosePages returns the pages of prose.
func prosePages(t *testing.T) []string {
	t.Helper()
	return append(pages(t), "SECURITY.md", "CHANGELOG.md")
}

// TestRejectedWordsAreFound checks that each rule fails for a planted word and passes ordinary English.
func TestRejectedWordsAreFound(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want []string
	}{
		{"// F is set\n// aside here.\nfunc F() {}", []string{"3 set aside"}},
		{"// F sends what the node owes.\nfunc F() {}", []string{"3 owes"}},
		{"// What comes late is dropped.\nvar x int", []string{"3 What"}},
		{"// F returns. Nobody waits.\nfunc F() {}", []string{"3 Nobody"}},
		{"var err = errors.New(\"the node is asleep\")", []string{"3 asleep"}},
		{"var err = fmt.Errorf(\"a node\" + \" died: %w\", cause)", []string{"3 died"}},
		{"func f() { log.Warn(\"turned it away\", \"guest\", 1) }", []string{"3 turned it away"}},
		{"func f(t *testing.T) { t.Fatal(\"a stranger\") }", []string{"3 stranger"}},
		{"func f(t *testing.T) { t.Run(\"lost for good\", nil) }", []string{"3 for good"}},
		{"func TestNodeIsForgotten(t *testing.T) {}", []string{"3 forgotten"}},
		{"var s = \"a story\" // no error", nil},
		{"// A dead letter, a type cast to T, blind spots, `parked` and \"dead\" pass.\nvar x int", nil},
		{"// For good reason F begins with a letter, and is at rest.\nfunc F() {}", nil},
		{"//\tasleep is code\nvar x int", nil},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x_test.go", "package p\n\n"+tt.src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range proseOf("x_test.go", fset, file) {
			for _, f := range p.check(wordRules()) {
				got = append(got, fmt.Sprint(f.line, " ", f.word))
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q in\n%s", got, tt.want, tt.src)
		}
	}
}

// TestRatesOfWords bounds words that stand for a noun, per 10,000 words of comments and pages. Prose of comparable
// projects has at most a few of them.
func TestRatesOfWords(t *testing.T) {
	texts := map[string][]string{}
	for _, f := range goFiles(t) {
		kind := "product"
		if f.generated {
			continue
		}
		if strings.HasSuffix(f.name, "_test.go") {
			kind = "tests"
		}
		for _, p := range proseOf(f.name, f.fset, f.syntax) {
			if p.kind == "comment" {
				texts[kind] = append(texts[kind], p.text)
			}
		}
	}
	for _, name := range prosePages(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts["pages"] = append(texts["pages"], pageText(string(b)))
	}
	for kind, list := range texts {
		for _, found := range rates(strings.Join(list, " ")) {
			t.Errorf("%s: %s", kind, found)
		}
	}
}

// rates returns a sentence for each word that a text has too often.
func rates(text string) (found []string) {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	count := map[string]int{}
	for _, w := range words {
		count[w]++
	}
	for _, bound := range []struct {
		words []string
		most  float64
	}{
		{[]string{"what"}, 25}, {[]string{"who", "whoever", "whom"}, 3}, {[]string{"nobody"}, 2}, {[]string{"told", "tell", "tells"}, 2}, {[]string{"says", "say", "said"}, 5},
	} {
		n := 0
		for _, w := range bound.words {
			n += count[w]
		}
		if rate := float64(n) * 1e4 / float64(len(words)); rate > bound.most {
			found = append(found, fmt.Sprintf("got %.1f of %v per 10,000 words, want at most %g", rate, bound.words, bound.most))
		}
	}
	return found
}

func TestRates(t *testing.T) {
	filler := strings.Repeat("the node stores a batch ", 60)
	for text, want := range map[string]int{filler: 0, filler + "What who nobody told says": 5, filler + "says": 1, filler + "`what`": 0} {
		if got := rates(pageText(blank(text, backquoted))); len(got) != want {
			t.Errorf("got %q, want %d findings in the end of %q", got, want, text[max(0, len(text)-40):])
		}
	}
}

// TestGlossary checks that the project has at most ten words of its own, each defined in one row.
func TestGlossary(t *testing.T) {
	b, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), "\n## Glossary\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([a-z ]+) \| \S.*\|$`).FindAllStringSubmatch(section, -1)
	terms := map[string]bool{}
	for _, r := range rows {
		if r[1] != "term" {
			terms[r[1]] = true
		}
	}
	if !ok || len(terms) == 0 || len(terms) > 10 {
		t.Errorf("got terms %v in the glossary, want 1 to 10", terms)
	}
}
