package agent

import (
	"encoding"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/contain"
)

// maxSampleDepth bounds nested values of a sample.
const maxSampleDepth = 4

// Authors' methods are called here during the initialization of the program's variables, which may be
// unset. Their failures, including panics, are ignored.

// samples returns pointers to values of a type: the zero value, one with every field set, and for a
// struct one per field. whole reports whether all parts could be set: otherwise the samples do not
// cover all behavior of its methods.
func samples(t reflect.Type) (values []reflect.Value, whole bool) {
	full := reflect.New(t)
	whole = setSample(full.Elem(), 0)
	values = []reflect.Value{full, reflect.New(t)}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			one := reflect.New(t)
			if t.Field(i).IsExported() && t.NumField() > 1 {
				setSample(one.Elem().Field(i), 0)
				values = append(values, one)
			}
		}
	}
	return values, whole
}

// setSample sets a value to a non-zero one and reports whether all of it is set.
func setSample(v reflect.Value, depth int) bool {
	if depth > maxSampleDepth {
		return false
	}
	if at := reflect.ValueOf(time.Date(2006, 1, 2, 15, 4, 5, 123456789, time.FixedZone("", 2*60*60))); at.CanConvert(v.Type()) {
		v.Set(at.Convert(v.Type()))
		return true
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("a")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setSample(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return setSample(v.Index(0), depth+1)
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		whole := setSample(key, depth+1) && setSample(elem, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
		return whole
	case reflect.Array:
		whole := true
		for i := range min(v.Len(), 64) {
			whole = setSample(v.Index(i), depth+1) && whole
		}
		return whole
	case reflect.Struct:
		whole := true
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name != "_" {
				whole = f.IsExported() && setSample(v.Field(i), depth+1) && whole
			}
		}
		return whole
	default:
		return false
	}
	return true
}

// encoded returns the JSON of a pointer's target by the author's methods, or false.
func encoded(pointer reflect.Value) ([]byte, bool) {
	raw, err := contain.Encode("sample", pointer.Interface())
	return raw, err == nil
}

// decoded returns the value that the author's methods decode from JSON, or false.
func decoded(t reflect.Type, raw []byte) (pointer reflect.Value, ok bool) {
	pointer = reflect.New(t)
	return pointer, contain.Decode("sample", raw, pointer.Interface()) == nil
}

// jsonOf returns a schema with the JSON types that a type's MarshalJSON writes for samples and, if
// requested, that its UnmarshalJSON reads. If samples do not cover everything, the schema accepts
// everything.
func jsonOf(t reflect.Type, read bool) keywords {
	values, whole := samples(t)
	if !whole {
		return keywords{}
	}
	var types, texts []string
	add := func(raw []byte) {
		name := jsonType(raw)
		if !slices.Contains(types, name) {
			types = append(types, name)
		}
	}
	for _, v := range values {
		raw, ok := encoded(v)
		if !ok {
			continue
		}
		add(raw)
		var s string
		if contain.Decode("sample", raw, &s) == nil && jsonType(raw) == "string" {
			texts = append(texts, s)
		}
	}
	if read {
		for _, raw := range []string{`true`, `7`, `"a"`, `[]`, `{}`} {
			if _, ok := decoded(t, []byte(raw)); ok {
				add([]byte(raw))
			}
		}
	}
	slices.Sort(types)
	if i := slices.Index(types, "null"); i > 0 {
		types = slices.Insert(slices.Delete(types, i, i+1), 0, "null")
	}
	switch {
	case len(types) == 0, slices.Equal(types, []string{"null"}):
		return keywords{}
	case slices.Equal(types, []string{"string"}), slices.Equal(types, []string{"null", "string"}):
		return texted(types, texts)
	case len(types) == 1:
		return typed(types[0])
	}
	return keywords{"type": types}
}

// texted returns a schema of texts with their common format.
func texted(types, texts []string) keywords {
	s := keywords{"type": types}
	if len(types) == 1 {
		s["type"] = types[0]
	}
	if f := formatOf(texts); f != "" {
		s["format"] = f
	}
	return s
}

// jsonType returns the type of a valid JSON text.
func jsonType(raw []byte) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// textOf returns the schema of a type that is written or read as text.
func textOf(t reflect.Type) keywords {
	var texts []string
	values, whole := samples(t)
	for _, v := range values {
		m, ok := v.Interface().(encoding.TextMarshaler)
		if !ok || !whole {
			break
		}
		if out, err := contain.Do("encode a sample", m.MarshalText); err == nil {
			texts = append(texts, string(out))
		}
	}
	return texted([]string{"string"}, texts)
}

var (
	uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	dateText = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// formatOf returns the common format of several different texts, or "".
func formatOf(texts []string) string {
	if len(texts) < 2 || !slices.ContainsFunc(texts, func(s string) bool { return s != texts[0] }) {
		return ""
	}
	for _, f := range []struct {
		name string
		fits func(s string) bool
	}{
		{"date-time", func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil }},
		{"date", dateText.MatchString},
		{"uuid", func(s string) bool { return uuidText.MatchString(strings.ToLower(s)) }},
	} {
		if !slices.ContainsFunc(texts, func(s string) bool { return !f.fits(s) }) {
			return f.name
		}
	}
	return ""
}

// readsPlain reports whether a type with UnmarshalJSON but without MarshalJSON reads its own plain
// encoding.
func readsPlain(t reflect.Type) bool {
	values, _ := samples(t)
	return slices.ContainsFunc(values, func(v reflect.Value) bool {
		raw, ok := encoded(v)
		if ok {
			_, ok = decoded(t, raw)
		}
		return ok
	})
}

// lostField returns the name of a struct's field that is lost because the promoted methods of an
// embedded struct replace the struct's; "" if there is none.
func lostField(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	embeds := false
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			p := at(f.Type, true).elemOrSelf()
			embeds = embeds || p.written() > plain || p.read() > plain
		}
	}
	full := reflect.New(t)
	setSample(full.Elem(), 0)
	raw, ok := encoded(full)
	if !embeds || !ok {
		return ""
	}
	back, ok := decoded(t, raw)
	if !ok {
		return ""
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" && !reflect.DeepEqual(full.Elem().Field(i).Interface(), back.Elem().Field(i).Interface()) {
			return f.Name
		}
	}
	return ""
}
