package parley_test

import (
	"go/ast"
	"testing"
)

// A bucket decorator needs Unwrap. Otherwise it would hide whether the bucket is exclusive, its place
// and its clock.
func TestDecoratorsUnwrap(t *testing.T) {
	buckets := bucketsOf(t)
	for _, store := range list("internal/readsocket.Bucket", "storage/local.Store", "storage/s3.Bucket") {
		if _, ok := buckets[store]; !ok {
			t.Errorf("did not find %s", store)
		}
		delete(buckets, store)
	}
	if len(buckets) < 6 {
		t.Errorf("found %d decorators", len(buckets))
	}
	for name, unwraps := range buckets {
		if !unwraps {
			t.Errorf("%s is a storage.Bucket before another one and has no method Unwrap", name)
		}
	}
}

// bucketsOf lists the types of the module, without those of tests, that embed a Bucket or have its
// methods. The value reports whether they have Unwrap.
func bucketsOf(t *testing.T) map[string]bool {
	buckets, methods := map[string]bool{}, map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				of := f.dir + "." + receiver(fn.Recv)
				methods[of+"."+fn.Name.Name] = true
				if fn.Name.Name == "GetRange" {
					buckets[of] = false
				}
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && embedsBucket(s, f.dir == "storage") {
				buckets[f.dir+"."+spec.Name.Name] = false
			}
			return true
		})
	}
	for name := range buckets {
		buckets[name] = methods[name+".Unwrap"]
	}
	return buckets
}

func embedsBucket(s *ast.StructType, home bool) bool {
	for _, field := range s.Fields.List {
		if len(field.Names) > 0 {
			continue
		}
		switch e := field.Type.(type) {
		case *ast.SelectorExpr:
			pkg, ok := e.X.(*ast.Ident)
			if ok && pkg.Name == "storage" && e.Sel.Name == "Bucket" {
				return true
			}
		case *ast.Ident:
			if home && e.Name == "Bucket" {
				return true
			}
		}
	}
	return false
}
