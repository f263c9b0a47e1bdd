package agent

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a member of the JSON object that package encoding/json writes for a struct.
type field struct {
	name   string
	index  []int
	typ    reflect.Type // as declared
	tag    reflect.StructTag
	tagged bool // the name comes from the tag
	omit   bool // omitempty or omitzero
	quoted bool // the option "string" applies

	path     string       // of Go field names
	pointed  bool         // promoted through an embedded pointer, which may be nil
	unset    reflect.Type // an embedded pointer to an unexported struct on the path, which encoding/json cannot set
	unexport bool         // the field itself is an embedded struct of an unexported type
}

// level is a struct whose fields are promoted to the examined one.
type level struct {
	typ     reflect.Type
	index   []int
	path    string
	pointed bool
	unset   reflect.Type
}

// fieldsOf returns the fields of a struct by the rules of package encoding/json: unnamed embedded
// structs promote their fields; of several fields with one name the least nested counts, then the one
// with a tag, and none if that leaves several.
func fieldsOf(t reflect.Type) []field {
	var all []field
	visited := map[reflect.Type]bool{}
	counts := map[reflect.Type]int{}
	for next := []level{{typ: t}}; len(next) > 0; {
		current, above := next, counts
		next, counts = nil, map[reflect.Type]int{}
		for _, l := range current {
			if visited[l.typ] {
				continue
			}
			visited[l.typ] = true
			for i := range l.typ.NumField() {
				f, inner := l.field(i)
				if inner != nil {
					if counts[inner.typ]++; counts[inner.typ] == 1 {
						next = append(next, *inner)
					}
				}
				if f == nil {
					continue
				}
				all = append(all, *f)
				if above[l.typ] > 1 { // Embedded twice at this depth, so its fields hide each other.
					all = append(all, *f)
				}
			}
		}
	}
	return dominant(all)
}

// field returns the i-th field of a struct as a member, or as a struct whose fields are promoted, or
// neither if JSON ignores it.
func (l level) field(i int) (*field, *level) {
	sf := l.typ.Field(i)
	embedded := sf.Type
	if embedded.Kind() == reflect.Pointer {
		embedded = embedded.Elem()
	}
	tag := sf.Tag.Get("json")
	if tag == "-" || !sf.IsExported() && (!sf.Anonymous || embedded.Kind() != reflect.Struct) {
		return nil, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
	base := sf.Type
	if base.Name() == "" && base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	index, path := append(slices.Clone(l.index), i), l.path+"."+sf.Name
	if name == "" && sf.Anonymous && base.Kind() == reflect.Struct {
		inner := &level{typ: base, index: index, path: path, pointed: l.pointed || sf.Type != base, unset: l.unset}
		if sf.Type != base && !sf.IsExported() && inner.unset == nil {
			inner.unset = base
		}
		return nil, inner
	}
	return &field{
		name: cmp.Or(name, sf.Name), index: index, typ: sf.Type, tag: sf.Tag, tagged: name != "",
		omit: has("omitempty") || has("omitzero"), quoted: has("string") && quotable(base.Kind()),
		path: path, pointed: l.pointed, unset: l.unset, unexport: !sf.IsExported(),
	}, nil
}

// validName reports whether package encoding/json accepts a name in a tag.
func validName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// quotable reports whether the option "string" applies to a kind.
func quotable(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}

// dominant returns the fields that no other field of their name hides, in the order of the struct.
func dominant(all []field) []field {
	byName := map[string][]field{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	var out []field
	for _, same := range byName {
		rank := func(f field) int {
			if f.tagged {
				return 2 * len(f.index)
			}
			return 2*len(f.index) + 1
		}
		slices.SortStableFunc(same, func(a, b field) int { return rank(a) - rank(b) })
		if len(same) == 1 || rank(same[0]) != rank(same[1]) {
			out = append(out, same[0])
		}
	}
	slices.SortFunc(out, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return out
}

// place is a type together with the way in which package encoding/json reaches it, which decides which
// methods apply.
type place struct {
	typ reflect.Type
	// addr is true if a written value is addressable, so that methods with pointer receivers apply.
	// All values are, except those within maps.
	addr bool
	// methods is true if methods apply to reading: the promoted methods of an unnamed struct apply
	// only behind a pointer, and no methods apply behind a named pointer type.
	methods bool
}

// form is the encoding of values of a type.
type form int

const (
	none   form = iota
	plain       // by its kind
	text        // by MarshalText or UnmarshalText
	custom      // by MarshalJSON or UnmarshalJSON
)

// at returns the place of a type that is not a pointer, or of a field or element.
func at(t reflect.Type, addr bool) place { return place{t, addr, t.Name() != ""} }

// elem returns the place of the target of a pointer type.
func (p place) elem() place { return place{p.typ.Elem(), true, p.typ.Name() == ""} }

// written returns the form in which a value is written.
func (p place) written() form {
	return p.by(reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), p.addr)
}

// read returns the form in which a value is read.
func (p place) read() form {
	if !p.methods {
		return plain
	}
	return p.by(reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), true)
}

func (p place) by(json, texts reflect.Type, pointers bool) form {
	has := func(method reflect.Type) bool {
		return p.typ.Implements(method) || pointers && reflect.PointerTo(p.typ).Implements(method)
	}
	switch {
	case p.typ.Kind() == reflect.Interface:
		return plain
	case has(json):
		return custom
	case has(texts):
		return text
	}
	return plain
}
