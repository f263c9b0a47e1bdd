// Command volumes prints the arguments of go test for the tests that use a sample under the race
// detector, as -run and packages, to run them at full volume. A test uses a sample by [sample.Of], in
// its body or transitively in its package. It runs in the module's folder. Make calls it, with the
// packages that start first.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type set map[string]bool

func main() {
	tests, err := find(".")
	var words []string
	if err == nil {
		words, err = arguments(tests, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "volumes:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(words, " "))
}

// arguments returns the arguments of go test, with some packages before all others.
func arguments(tests map[string]set, first []string) ([]string, error) {
	all := set{}
	for _, names := range tests {
		maps.Copy(all, names)
	}
	if len(all) == 0 {
		return nil, errors.New("no test uses a sample")
	}
	packages := slices.Sorted(maps.Keys(tests))
	for _, name := range first {
		if tests[name] == nil {
			return nil, fmt.Errorf("no test of %s uses a sample", name)
		}
		packages = slices.DeleteFunc(packages, func(p string) bool { return p == name })
	}
	return append([]string{"-run", "^(" + strings.Join(slices.Sorted(maps.Keys(all)), "|") + ")$"}, slices.Concat(first, packages)...), nil
}

// find returns the tests below a folder that use a sample, by package.
func find(root string) (map[string]set, error) {
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			files[filepath.Dir(path)] = append(files[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tests := map[string]set{}
	for dir, list := range files {
		uses, err := read(list)
		if err != nil {
			return nil, err
		}
		if names := sampled(uses); len(names) > 0 {
			tests["./"+filepath.ToSlash(dir)] = names
		}
	}
	return tests, nil
}

// read returns the names used by each top-level declaration of files. Names are not resolved: two of
// the same name count as one.
func read(files []string) (map[string]set, error) {
	uses := map[string]set{}
	add := func(name *ast.Ident, n ast.Node) {
		if uses[name.Name] == nil {
			uses[name.Name] = set{}
		}
		maps.Copy(uses[name.Name], names(n))
	}
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				add(n.Name, n)
				return false
			case *ast.ValueSpec:
				for _, name := range n.Names {
					add(name, n)
				}
			}
			return true
		})
	}
	return uses, nil
}

// names returns every name in a node; names of other packages have their package as a prefix.
func names(node ast.Node) set {
	all := set{}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				all[x.Name+"."+n.Sel.Name] = true
			}
		case *ast.Ident:
			all[n.Name] = true
		}
		return true
	})
	return all
}

// sampled returns the tests that use a sample, directly or transitively.
func sampled(uses map[string]set) set {
	asks := set{"sample.Of": true}
	for before := 0; before != len(asks); {
		before = len(asks)
		for name, used := range uses {
			for u := range used {
				if asks[u] {
					asks[name] = true
				}
			}
		}
	}
	maps.DeleteFunc(asks, func(name string, _ bool) bool { return !strings.HasPrefix(name, "Test") || name == "TestMain" })
	return asks
}
