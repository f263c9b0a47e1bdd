package parley_test

import (
	"go/ast"
	"path"
	"reflect"
	"slices"
	"testing"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
)

// authored lists the functions and methods of authors, and the packages that call them, each only
// inside a call of package contain. A new field or method of the types in givenByAuthors needs a row
// here, or in uncalled.
func authored() map[string][]string {
	host, work, vendors := list("agent/agenthost"), list("actors/internal/work"), list("providers")
	return map[string][]string{
		"InstructionsFunc": host, "Prepare": host,
		"DeliveryStarted": host, "ResponseStarted": host, "WouldStop": host, "ResponseFinished": host, "Settled": host,
		"Deliver": work, "Show": work,
		"Authorize": vendors, "Models": vendors, "IsKey": vendors, "FindCredentials": vendors,
		"Write":    list("observability", "actors/internal/export"),
		"Name":     list("observability", "actors/internal/export"),
		"Channels": list("internal/cli/server"),
		"Check":    list("outbox"),
	}
}

// uncalled lists the names that authored omits, with the reason.
func uncalled() map[string]string {
	return map[string]string{
		"Stream": "contain.Stream calls it: TestFaultyProtocol",
	}
}

// ownCalls lists calls of these names that call no author code, by file and name.
func ownCalls() []string {
	return list("providers/http.go Authorize", "providers/http.go FindCredentials", "providers/registry.go Models")
}

// givenByAuthors lists the types whose functions and methods authors implement.
func givenByAuthors() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[agent.Agent](), reflect.TypeFor[agent.Hooks](), reflect.TypeFor[outbox.Target](), reflect.TypeFor[outbox.Live](),
		reflect.TypeFor[outbox.URLs](), reflect.TypeFor[observability.Sink](), reflect.TypeFor[providers.Protocol](),
		reflect.TypeFor[providers.CredentialFinder](), reflect.TypeFor[providers.KeyChecker](), reflect.TypeFor[providers.Provider](),
		reflect.TypeFor[providers.CatalogProvider](), reflect.TypeFor[parley.Program](),
	}
}

// TestAuthorsAreCalledContained finds calls of authors' functions outside of package contain by the
// syntax tree. A call is inside if it is in an argument of a function of that package.
func TestAuthorsAreCalledContained(t *testing.T) {
	found := map[string]int{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		inside := map[ast.Node]bool{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if containing(f, call) {
				for _, arg := range call.Args {
					ast.Inspect(arg, func(n ast.Node) bool { inside[n] = true; return true })
				}
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(authored()[sel.Sel.Name], f.dir) || slices.Contains(ownCalls(), f.name+" "+sel.Sel.Name) && !inside[call] {
				return true
			}
			if found[sel.Sel.Name]++; !inside[call] && !ofThePackage(f, sel) {
				t.Errorf("%s: %s is an author's and is called outside of package contain; call it in a function that contain.Do or contain.Run is given",
					f.fset.Position(call.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
	for name := range authored() {
		if found[name] == 0 {
			t.Errorf("nothing calls %s: remove its row, or look for the name that is called", name)
		}
	}
	for _, given := range givenByAuthors() {
		for _, name := range functionsOf(given) {
			if authored()[name] == nil && uncalled()[name] == "" {
				t.Errorf("%s.%s is an author's: add its name to authored, or to uncalled with the reason", given, name)
			}
		}
	}
}

// containing reports whether a call runs its arguments contained: a call of package contain, or of the
// function of package work that calls targets.
func containing(f file, call *ast.CallExpr) bool {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && (x.Name == "contain" || f.dir == "actors/internal/work" && path.Base(f.name) == "post.go" && sel.Sel.Name == "call")
}

// ofThePackage reports whether a selector cannot refer to author code: members of a standard package,
// and the buffers and counters of observability, whose Name is stored.
func ofThePackage(f file, sel *ast.SelectorExpr) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains(list("b", "buf", "h", "o", "w"), x.Name) && sel.Sel.Name != "Deliver"
}

// functionsOf returns the functions of a type: the methods of an interface, or the fields of a struct.
func functionsOf(t reflect.Type) (names []string) {
	if t.Kind() == reflect.Interface {
		for m := range t.Methods() {
			names = append(names, m.Name)
		}
		return names
	}
	for f := range t.Fields() {
		if f.IsExported() && f.Type.Kind() == reflect.Func {
			names = append(names, f.Name)
		}
	}
	return names
}

// Packages that handle values of authors use encoding/json only for their own values.
func TestValuesOfAuthorsAreEncodedContained(t *testing.T) {
	own := list("agent/schema.go", "agent/check.go", "agent/value.go", "agent/output.go") // schemas, and decoded values
	functions := list("agent/tool.go newTool", "agent/sleep.go dueTime", "agent/workflow.go result", "agent/logvalue.go any")
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || f.dir != "agent" && f.dir != "agent/agenthost" || slices.Contains(own, f.name) {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains(list("Marshal", "MarshalIndent", "Unmarshal", "NewEncoder", "NewDecoder"), sel.Sel.Name) {
					return true
				}
				at := f.name + " " + fn.Name.Name
				if seen[at] = true; !slices.Contains(functions, at) {
					t.Errorf("%s: use contain.Encode or contain.Decode, because the methods of the value may be an author's", f.fset.Position(sel.Pos()))
				}
				return true
			})
		}
	}
	for _, at := range functions {
		if !seen[at] {
			t.Errorf("%s uses no function of encoding/json; remove it from the list", at)
		}
	}
}
