package parley_test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// link matches a reference in a comment: a name or the member of a type, here or in a package.
var link = regexp.MustCompile(`\[\*?((?:[a-z][a-z0-9]*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\]`)

// TestDocLinksResolve checks that references in comments resolve.
func TestDocLinksResolve(t *testing.T) {
	declared := map[string]map[string]bool{} // by folder
	for _, f := range goFiles(t) {
		if declared[f.dir] == nil {
			declared[f.dir] = map[string]bool{}
		}
		for _, d := range f.syntax.Decls {
			declare(d, declared[f.dir])
		}
	}
	for _, f := range goFiles(t) {
		imported := map[string]string{path.Base(f.dir): f.dir}
		for _, i := range f.syntax.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			name, ours := path.Base(p), strings.HasPrefix(p, module)
			if i.Name != nil {
				name = i.Name.Name
			}
			if ours {
				imported[name] = strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			} else {
				imported[name] = ""
			}
		}
		for _, c := range f.syntax.Comments {
			for _, m := range link.FindAllStringSubmatch(c.Text(), -1) {
				dir, name := f.dir, m[1]
				if pkg, rest, ok := strings.Cut(name, "."); ok && !ast.IsExported(pkg) {
					dir, name = folder(pkg, imported, declared), rest
				}
				if names := declared[dir]; names != nil && !names[name] && name != strings.ToUpper(name) {
					t.Errorf("%s: [%s] leads nowhere", f.fset.Position(c.Pos()), m[1])
				}
			}
		}
	}
}

// folder returns the folder of a package by its name, "" for a foreign one.
func folder(name string, imported map[string]string, declared map[string]map[string]bool) string {
	if dir, ok := imported[name]; ok {
		if dir == "" && name == "parley" {
			return "."
		}
		return dir
	}
	for dir := range declared {
		if path.Base(dir) == name && name != "http" { // "http" usually means the standard library
			return dir
		}
	}
	return ""
}

// declare adds the names of a declaration, and members of types after a dot.
func declare(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		names[receiver(d.Recv)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				for _, member := range members(s.Type) {
					names[s.Name.Name+"."+member] = true
				}
			}
		}
	}
}

// members returns the fields of a struct or the methods of an interface.
func members(e ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, typeName(f.Type))
		}
	}
	return names
}
