package parley_test

import (
	"go/ast"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

const protocolPage = "docs/protocol.md"

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
