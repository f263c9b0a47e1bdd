package agent

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/contain"
)

// direction is the use of values of a type.
type direction int

const (
	reads   direction = 1 << iota // JSON becomes a value
	writes                        // a value becomes JSON
	objects                       // the JSON is an object, so a map is not null
)

// maxSchemaParts bounds a derived schema.
const maxSchemaParts = 10_000

// keywords are the members of a JSON schema.
type keywords map[string]any

// firstKeywords are written first, in this order; the others follow sorted by name.
func firstKeywords() []string {
	return []string{"$ref", "type", "title", "description", "format", "enum", "items", "properties", "required", "additionalProperties"}
}

// MarshalJSON implements json.Marshaler.
func (k keywords) MarshalJSON() ([]byte, error) {
	rank := func(name string) int {
		if i := slices.Index(firstKeywords(), name); i >= 0 {
			return i
		}
		return len(firstKeywords())
	}
	names := slices.Sorted(maps.Keys(k))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	members := make(members, len(names))
	for i, name := range names {
		members[i] = member{name, k[name]}
	}
	return members.MarshalJSON()
}

// members are encoded in their order, which models see.
type members []member

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, e := range m {
		value, err := contain.Encode("schema", e.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(appendString(out, e.name), ':'), value...)
	}
	return append(out, '}'), nil
}

// typed returns the schema of a JSON type.
func typed(name string) keywords { return keywords{"type": name} }

// types returns the types that a schema accepts, none if it names none.
func (k keywords) types() []string {
	switch t := k["type"].(type) {
	case string:
		return []string{t}
	case []string:
		return t
	}
	return nil
}

// orNull returns a schema that also accepts null.
func (k keywords) orNull() keywords {
	out := maps.Clone(k)
	switch types := k.types(); {
	case k["$ref"] != nil:
		return keywords{"anyOf": []keywords{k, typed("null")}}
	case len(types) > 0 && !slices.Contains(types, "null"):
		out["type"] = append([]string{"null"}, types...)
	}
	return out
}

// deriver derives the schema of one type, for reading by package encoding/json, writing, or both.
type deriver struct {
	does direction
	open bool // accept members that are not fields

	path  []string
	parts int
	under map[place]bool   // under derivation
	done  map[place]bool   // recursive ones in defs
	names map[place]string // under $defs; the same for addressable and other values
	defs  map[string]keywords
}

// derive returns the schema of a type. The error names the Go path of a type without a schema, and a
// remedy.
func derive(t reflect.Type, does direction, open bool) (keywords, error) {
	d := &deriver{does: does, open: open, under: map[place]bool{}, done: map[place]bool{}, names: map[place]string{}, defs: map[string]keywords{}}
	root := t
	for root.Name() == "" && root.Kind() == reflect.Pointer {
		root = root.Elem()
	}
	d.path = []string{bare(root)}
	if root.Name() == "" && root.Kind() == reflect.Struct {
		d.path = nil
	}
	s, err := d.schema(place{t, true, true})
	if err != nil {
		return nil, err
	}
	if name := d.names[place{t, true, true}]; name != "" { // The schema of the root type stays at the root.
		s = d.defs[name]
	}
	s = maps.Clone(s)
	if len(d.defs) > 0 {
		s["$defs"] = d.defs
	}
	if does&objects != 0 && t.Kind() == reflect.Map && slices.Contains(s.types(), "object") {
		s["type"] = "object"
	}
	return s, nil
}

// bare returns a type's name without its package.
func bare(t reflect.Type) string {
	if t.Name() == "" {
		return t.String()
	}
	name, arguments, generic := strings.Cut(t.Name(), "[")
	if generic {
		parts := strings.Split(strings.TrimSuffix(arguments, "]"), ",")
		for i, p := range parts {
			parts[i] = p[strings.LastIndexByte(p, '.')+1:]
		}
		name += "[" + strings.Join(parts, ",") + "]"
	}
	return name
}

// fail returns an error with the current Go path.
func (d *deriver) fail(format string, args ...any) error {
	path, problem := strings.TrimPrefix(strings.Join(d.path, ""), "."), fmt.Sprintf(format, args...)
	if path == "" {
		return errors.New(problem)
	}
	return fmt.Errorf("%s: %s", path, problem)
}

// within derives the schema of a part.
func (d *deriver) within(part string, p place) (keywords, error) {
	d.path = append(d.path, part)
	defer func() { d.path = d.path[:len(d.path)-1] }()
	return d.schema(p)
}

// schema returns the schema of a type, or a reference to it if it is recursive.
func (d *deriver) schema(p place) (keywords, error) {
	p.addr = p.addr || d.does&writes == 0 // It matters for writing only.
	if d.parts++; d.parts > maxSchemaParts {
		return nil, d.fail("the schema of the type has more than %d parts; use json.RawMessage or any for some of it", maxSchemaParts)
	}
	switch p.typ.Kind() {
	case reflect.Array, reflect.Map, reflect.Pointer, reflect.Slice, reflect.Struct:
	default:
		return d.form(p)
	}
	if p.typ.Name() == "" {
		return d.form(p)
	}
	key := place{p.typ, true, p.methods}
	if d.under[p] && d.names[key] == "" {
		d.names[key] = d.name(p.typ)
	}
	if !d.under[p] && !d.done[p] {
		d.under[p] = true
		s, err := d.form(p)
		delete(d.under, p)
		if err != nil || d.names[key] == "" {
			return s, err
		}
		d.done[p], d.defs[d.names[key]] = true, s
	}
	return keywords{"$ref": "#/$defs/" + d.names[key]}, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// name returns a free name under $defs.
func (d *deriver) name(t reflect.Type) string {
	base := strings.Trim(notInNames.ReplaceAllString(bare(t), "_"), "_")
	if base == "" {
		base = "T"
	}
	name := base
	for i := 2; slices.Contains(slices.Collect(maps.Values(d.names)), name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	return name
}

// form derives a schema by the methods of a type, or else by its kind.
func (d *deriver) form(p place) (keywords, error) {
	if p.typ.Kind() == reflect.Pointer {
		s, err := d.schema(p.elem())
		return s.orNull(), err
	}
	full := place{p.typ, true, true}
	if s := known(p.typ); s != nil && p.written() == full.written() && p.read() == full.read() {
		return s, nil
	}
	var written, read form
	if d.does&writes != 0 {
		if written = p.written(); written != full.written() {
			return nil, d.fail("%v is written without its Marshal method in a map, because the method has a pointer receiver; give it a value receiver, or use a map of pointers", p.typ)
		}
	}
	if d.does&reads != 0 {
		if read = p.read(); read != full.read() {
			return nil, d.fail("the methods by which %v is read do not count here; give the type a name, or use no named pointer type", p.typ)
		}
	}
	if written <= plain && read <= plain {
		return d.kind(p)
	}
	if lost := lostField(p.typ); lost != "" {
		return nil, d.fail("%v has the methods of a type that it embeds, which leave out the field %s; name the embedded field, or give %v methods of its own", p.typ, lost, p.typ)
	}
	return d.methods(p, written, read)
}

// methods derives the schema of a type that has methods for JSON or for text.
func (d *deriver) methods(p place, written, read form) (keywords, error) {
	mismatch := func(how, has, other, add string) error {
		return d.fail("%v is %s by its method %s and not %s so; add the method %s", p.typ, how, has, other, add)
	}
	isText := p.typ.Kind() == reflect.String
	if written == none && read == custom { // Its plain encoding shows what it reads.
		written = (place{p.typ, true, true}).written()
	}
	switch {
	case written == text && read == plain && !isText:
		return nil, mismatch("written", "MarshalText", "read", "UnmarshalText")
	case written == plain && read == text && !isText:
		return nil, mismatch("read", "UnmarshalText", "written", "MarshalText")
	case written == text || read == text:
		return textOf(p.typ), nil
	case written == plain && !readsPlain(p.typ):
		return keywords{}, nil
	}
	fields, err := d.kind(p)
	if err == nil && (written == plain || d.keeps(p, fields)) {
		return fields, nil
	}
	s := jsonOf(p.typ, read == custom)
	if read != plain || len(s.types()) == 0 {
		return s, nil
	}
	if err == nil && !slices.ContainsFunc(s.types(), func(t string) bool { return t != "null" && slices.Contains(fields.types(), t) }) {
		err = mismatch("written", "MarshalJSON", "read", "UnmarshalJSON")
	}
	return s, err
}

// keeps reports whether a type's MarshalJSON writes samples that fit the schema of its fields.
func (d *deriver) keeps(p place, fields keywords) bool {
	values, whole := samples(p.typ)
	doc, defs := maps.Clone(fields), maps.Clone(d.defs)
	if name := d.names[place{p.typ, true, p.methods}]; name != "" {
		defs[name] = fields
	}
	doc["$defs"] = defs
	source, err := contain.Encode("schema", doc)
	if err != nil || !whole {
		return false
	}
	s, err := NewSchema(source)
	if err != nil { // It refers to an unfinished definition.
		return false
	}
	fits := false
	for _, v := range values {
		raw, ok := encoded(v)
		if ok && s.Validate(context.Background(), raw) != nil {
			return false
		}
		fits = fits || ok
	}
	return fits
}

// known returns the schemas of standard library types that neither their kind nor a sample shows.
func known(t reflect.Type) keywords {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return keywords{}
	case reflect.TypeFor[json.Number]():
		return typed("number")
	case reflect.TypeFor[big.Int]():
		return typed("integer")
	case reflect.TypeFor[time.Time]():
		return keywords{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return keywords{"type": "integer", "description": "duration in nanoseconds"}
	}
	return nil
}

// kind derives a schema by the kind of a type.
func (d *deriver) kind(p place) (keywords, error) {
	switch t := p.typ; t.Kind() {
	case reflect.Bool:
		return typed("boolean"), nil
	case reflect.Int, reflect.Int64:
		return typed("integer"), nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		limit := int64(1) << (t.Bits() - 1)
		return keywords{"type": "integer", "minimum": -limit, "maximum": limit - 1}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return keywords{"type": "integer", "minimum": 0}, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return keywords{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxUint64) >> (64 - t.Bits())}, nil
	case reflect.Float32, reflect.Float64:
		return typed("number"), nil
	case reflect.String:
		return typed("string"), nil
	case reflect.Interface:
		if t.NumMethod() > 0 && d.does&reads != 0 {
			return nil, d.fail("a value of the interface %v cannot be read, because JSON does not name its Go type; use a struct, or any", t)
		}
		return keywords{}, nil
	case reflect.Map:
		return d.mapping(t)
	case reflect.Slice:
		if e := reflect.PointerTo(t.Elem()); t.Elem().Kind() == reflect.Uint8 && at(e, true).written() == plain {
			return keywords{"type": []string{"null", "string"}, "contentEncoding": "base64"}, nil
		}
		items, err := d.within("[]", at(t.Elem(), true))
		return keywords{"type": []string{"null", "array"}, "items": items}, err
	case reflect.Array:
		items, err := d.within("[]", at(t.Elem(), p.addr))
		return keywords{"type": "array", "items": items, "minItems": t.Len(), "maxItems": t.Len()}, err
	case reflect.Struct:
		return d.structure(p)
	}
	return nil, d.fail("%v has no JSON form; use another type, or leave the field out by the tag `json:\"-\"`", p.typ)
}

// mapping derives the schema of a map.
func (d *deriver) mapping(t reflect.Type) (keywords, error) {
	key := t.Key()
	written, read := keyForm(key, key, reflect.TypeFor[encoding.TextMarshaler]()), keyForm(key, reflect.PointerTo(key), reflect.TypeFor[encoding.TextUnmarshaler]())
	if d.does&writes == 0 {
		written = read
	}
	if d.does&reads == 0 {
		read = written
	}
	switch {
	case written == none || read == none:
		return nil, d.fail("%v is no key of a JSON object; use strings or integers, or give the type MarshalText and UnmarshalText", key)
	case written != read:
		return nil, d.fail("the key %v has one of MarshalText and UnmarshalText; give it both", key)
	}
	elem, err := d.within("["+key.String()+"]", at(t.Elem(), false))
	if err != nil {
		return nil, err
	}
	s := keywords{"type": []string{"null", "object"}, "additionalProperties": elem}
	if written == plain {
		s["propertyNames"] = keywords{"pattern": integerPattern(key.Kind())}
	}
	return s, nil
}

// keyForm returns the encoding of a key as a member's name: none if it has none.
func keyForm(key, receiver, method reflect.Type) form {
	switch {
	case receiver.Implements(method), key.Kind() == reflect.String:
		return text
	case key.Kind() >= reflect.Int && key.Kind() <= reflect.Uintptr:
		return plain
	}
	return none
}

// structure derives the schema of a struct.
func (d *deriver) structure(p place) (keywords, error) {
	if err := d.reachable(p.typ); err != nil {
		return nil, err
	}
	var properties members
	var required []string
	for _, f := range fieldsOf(p.typ) {
		s, err := d.field(p, f)
		if err != nil {
			return nil, err
		}
		properties = append(properties, member{f.name, s})
		if !f.omit && !f.pointed {
			required = append(required, f.name)
		}
	}
	s := typed("object")
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if !d.open {
		s["additionalProperties"] = false
	}
	return s, nil
}

// reachable returns an error for a struct that would lose values.
func (d *deriver) reachable(t reflect.Type) error {
	hidden, shown := 0, 0
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Anonymous, f.IsExported():
			shown++
		case f.Name != "_":
			hidden++
		}
		_, inner := level{typ: t}.field(i)
		if inner == nil {
			continue
		}
		if e := (place{inner.typ, true, true}); e.written() > plain || e.read() > plain {
			return d.fail("the embedded %v would be lost, because its methods for JSON are hidden by others; give the field a name", f.Type)
		}
	}
	if hidden > 0 && shown == 0 {
		return d.fail("%v has unexported fields alone, so its JSON is {}; export them, give the type MarshalJSON and UnmarshalJSON, or leave it out by the tag `json:\"-\"`", t)
	}
	return nil
}

// field derives the schema of a struct's field and applies its tag.
func (d *deriver) field(p place, f field) (keywords, error) {
	d.path = append(d.path, f.path)
	defer func() { d.path = d.path[:len(d.path)-1] }()
	base := f.typ
	if base.Name() == "" && base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	methods := (place{base, true, true}).written() > plain || (place{base, true, true}).read() > plain
	switch {
	case f.unset != nil && d.does&reads != 0:
		return nil, d.fail("the embedded pointer to the unexported %v cannot be read; embed the struct itself, or export the type", f.unset)
	case f.unexport && (methods || base != f.typ && d.does&reads != 0):
		return nil, d.fail("the embedded unexported %v is out of reach of package encoding/json; export the type, or embed the struct itself", f.typ)
	case f.quoted && methods:
		return nil, d.fail("%v has methods for JSON, which the option \"string\" of the tag breaks; remove the option", base)
	}
	s, err := keywords(nil), error(nil)
	if f.quoted {
		if s = quotedSchema(base); base != f.typ {
			s = s.orNull()
		}
	} else {
		s, err = d.schema(at(f.typ, p.addr || f.pointed))
	}
	if err == nil {
		s, err = s.tagged(f.tag)
		if err != nil {
			err = d.fail("%v", err)
		}
	}
	return s, err
}

const (
	numberPattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	signedPattern = `^(0|-?[1-9][0-9]*)$`
	uintPattern   = `^(0|[1-9][0-9]*)$`
)

func integerPattern(k reflect.Kind) string {
	if k >= reflect.Uint {
		return uintPattern
	}
	return signedPattern
}

// quotedSchema returns the schema of a field with the option "string".
func quotedSchema(t reflect.Type) keywords {
	s := typed("string")
	switch k := t.Kind(); {
	case k == reflect.Bool:
		s["pattern"] = `^(true|false)$`
	case k >= reflect.Int && k <= reflect.Uintptr:
		s["pattern"] = integerPattern(k)
	case k == reflect.String && t != reflect.TypeFor[json.Number]():
		s["pattern"] = `^".*"$`
	default:
		s["pattern"] = numberPattern
	}
	return s
}
