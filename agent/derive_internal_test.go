package agent

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/internal/sample"
)

var (
	typeSeed  = flag.Uint64("typeseed", 1, "the first `seed` of TestRandomTypes")
	typeCount = flag.Int("types", sample.Of(1500, 200), "how many types TestRandomTypes draws")
)

// Types that random structs embed or contain.
type (
	Base struct {
		A int
		B string `json:"b"`
		C []int  `json:"c,omitempty"`
	}
	Other struct {
		A string
		X int8 `json:"x"`
		Base
	}
	Deep struct {
		*Other
		X bool `json:"x"`
	}
	Tree struct {
		V    int             `json:"v"`
		Kids []Tree          `json:"kids"`
		Next *Tree           `json:"next,omitempty"`
		By   map[string]Tree `json:"by"`
	}
	Left  struct{ Base }
	Right struct {
		*Base
		Z int
	}
	Word  string
	Digit uint8
	ID    [16]byte
	Shade int
	Day   time.Time
	When  struct{ time.Time }
)

func (id ID) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}

func (id *ID) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("no id: %q", text)
	}
	copy(id[:], raw)
	return nil
}

func (s Shade) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "shade-%d", int(s)), nil }

func (s *Shade) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "shade-%d", (*int)(s))
	return err
}

func (d Day) MarshalJSON() ([]byte, error) { return json.Marshal(time.Time(d).Format(time.DateOnly)) }

func (d *Day) UnmarshalJSON(raw []byte) error {
	var text string
	err := json.Unmarshal(raw, &text)
	if err == nil && text != "" {
		var at time.Time
		at, err = time.Parse(time.DateOnly, text)
		*d = Day(at)
	}
	return err
}

// draw generates random types and values of them.
type draw struct{ *rand.Rand }

// leaves are types without random components.
func leaves() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](),
		reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[any](), reflect.TypeFor[Word](), reflect.TypeFor[Digit](), reflect.TypeFor[[]Digit](), reflect.TypeFor[Base](),
		reflect.TypeFor[Other](), reflect.TypeFor[Tree](), reflect.TypeFor[ID](), reflect.TypeFor[Shade](), reflect.TypeFor[Day](),
		reflect.TypeFor[When](), reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[json.Number](),
		reflect.TypeFor[json.RawMessage](), reflect.TypeFor[net.IP](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[*big.Int](),
	}
}

func (r draw) typ(depth int) reflect.Type {
	if depth == 0 || r.IntN(3) == 0 {
		return leaves()[r.IntN(len(leaves()))]
	}
	switch r.IntN(8) {
	case 0:
		return reflect.SliceOf(r.typ(depth - 1))
	case 1:
		return reflect.ArrayOf(r.IntN(3), r.typ(depth-1))
	case 2:
		keys := []reflect.Type{
			reflect.TypeFor[string](), reflect.TypeFor[Word](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint32](),
			reflect.TypeFor[Shade](), reflect.TypeFor[ID](), reflect.TypeFor[netip.Addr](),
		}
		return reflect.MapOf(keys[r.IntN(len(keys))], r.typ(depth-1))
	case 3:
		return reflect.PointerTo(r.typ(depth - 1))
	}
	return r.structure(depth)
}

func (r draw) structure(depth int) reflect.Type {
	var fields []reflect.StructField
	for i := range r.IntN(6) {
		f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: r.typ(depth - 1)}
		if r.IntN(4) == 0 {
			embedded := []reflect.Type{reflect.TypeFor[Base](), reflect.TypeFor[Other](), reflect.TypeFor[Deep](), reflect.TypeFor[Left](), reflect.TypeFor[Right]()}
			f.Type = embedded[r.IntN(len(embedded))]
			f.Name, f.Anonymous = f.Type.Name(), true
			if r.IntN(3) == 0 {
				f.Type = reflect.PointerTo(f.Type)
			}
			if slices.ContainsFunc(fields, func(o reflect.StructField) bool { return o.Name == f.Name }) {
				continue
			}
		}
		names := []string{"", "", "", "", "b", "x", "A", "F0", "f0", "ä", "a.b", "no\"quote", "-,", "-"}
		tag := names[r.IntN(len(names))]
		if tag != "-" && tag != "-," {
			tag += []string{"", "", "", ",omitempty", ",omitzero", ",string", ",omitempty,string", ",unknown"}[r.IntN(8)]
		}
		base := f.Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		if p := (place{base, true, true}); p.written() > plain {
			tag = strings.ReplaceAll(tag, ",string", "")
		}
		if tag != "" {
			f.Tag = reflect.StructTag(fmt.Sprintf("json:%q", tag))
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

func (r draw) set(v reflect.Value, depth int) {
	at := time.Date(r.IntN(9999), 3, 4, r.IntN(24), 5, 6, r.IntN(2)*1000, time.FixedZone("", (r.IntN(24)-12)*3600))
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(at))
		return
	case Day:
		v.Set(reflect.ValueOf(Day(time.Date(r.IntN(9999), 3, 4, 0, 0, 0, 0, time.UTC))))
		return
	case json.Number:
		v.SetString([]string{"0", "-1.5", "12345678901234567890", "1e5"}[r.IntN(4)])
		return
	case json.RawMessage:
		v.SetBytes([]byte([]string{"null", "[1,{}]", `{"a":"b"}`, "7"}[r.IntN(4)]))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf([]netip.Addr{{}, netip.MustParseAddr("::1"), netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fe80::1%eth0")}[r.IntN(4)]))
		return
	case net.IP:
		v.SetBytes([]net.IP{nil, net.ParseIP("10.0.0.7"), net.ParseIP("::1")}[r.IntN(3)])
		return
	case big.Int:
		v.Set(reflect.ValueOf(*new(big.Int).Lsh(big.NewInt(r.Int64N(9)-4), 70)))
		return
	}
	if r.IntN(5) == 0 {
		return
	}
	r.setKind(v, depth)
}

func (r draw) setKind(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{1, -1, 100, math.MaxInt64 >> (64 - v.Type().Bits()), math.MinInt64 >> (64 - v.Type().Bits())}[r.IntN(5)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{1, 100, math.MaxUint64 >> (64 - v.Type().Bits())}[r.IntN(3)])
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{1, -0.5, 1e30, 3}[r.IntN(4)])
	case reflect.String:
		v.SetString([]string{"a", `<&">`, "ä\u2028", "null", "7"}[r.IntN(5)])
	case reflect.Interface:
		values := []any{"a", true, json.Number("7"), []any{json.Number("1"), nil}, map[string]any{"k": "v"}}
		v.Set(reflect.ValueOf(values[r.IntN(len(values))]))
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.set(v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3)*max(0, min(depth, 1)), 2))
		for i := range v.Len() {
			r.set(v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			r.set(v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) * max(0, min(depth, 1)) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.set(key, depth-1)
			r.set(elem, depth-1)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				r.set(v.Field(i), depth-1)
			}
		}
	}
}

// mutated changes a JSON value at random.
func (r draw) mutated(v any) any {
	if r.IntN(3) == 0 {
		values := []any{nil, true, json.Number("0"), json.Number("300"), json.Number("1.5"), "", "x", "7", []any{}, map[string]any{}, []any{json.Number("1")}}
		return values[r.IntN(len(values))]
	}
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return []any{nil}
		}
		v[r.IntN(len(v))] = r.mutated(v[r.IntN(len(v))])
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(names) == 0 || r.IntN(5) == 0 {
			v[[]string{"zz", "A", "F0", "f0", "-1", "007"}[r.IntN(6)]] = json.Number("1")
			return v
		}
		name := names[r.IntN(len(names))]
		switch r.IntN(4) {
		case 0:
			delete(v, name)
		case 1:
			v[strings.ToUpper(name)] = v[name]
		default:
			v[name] = r.mutated(v[name])
		}
	}
	return v
}

// covers reports whether out has all data of in. Empty values may be omitted.
func covers(in, out any) bool {
	switch in := in.(type) {
	case map[string]any:
		o, ok := out.(map[string]any)
		for name, v := range in {
			other, has := o[name]
			for again := range o { // If a name occurs twice in different case, the last one counts.
				if !has && (len(name) == 36 || strings.Contains(name, ":")) && strings.EqualFold(again, name) {
					other, has = o[again], true
				}
			}
			if ok = ok && (has && covers(v, other) || !has && empty(v)); !ok {
				return false
			}
		}
		return ok
	case []any:
		o, ok := out.([]any)
		return ok && slices.EqualFunc(in, o, covers)
	case json.Number:
		o, ok := out.(json.Number)
		return ok && same(in, o)
	}
	return in == out
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !empty(v) })
	case []any:
		return !slices.ContainsFunc(v, func(v any) bool { return !empty(v) })
	case json.Number:
		return same(v, json.Number("0"))
	case string: // those of zero values
		return slices.Contains([]string{"", `""`, "0", "false", "shade-0", "0001-01-01", "0001-01-01T00:00:00Z", "00000000-0000-0000-0000-000000000000"}, v)
	}
	return v == nil || v == false
}

// alike reports whether two JSON texts have the same value.
func alike(a, b []byte) bool {
	var x, y any
	return contain.Decode("value", a, &x) == nil && contain.Decode("value", b, &y) == nil && covers(x, y) && covers(y, x)
}

// TestRandomTypes compares the schemas of random types with encoding/json. Encoded values conform and
// decode to the same value; conforming values decode without loss.
func TestRandomTypes(t *testing.T) {
	accepted := 0
	for seed := *typeSeed; seed < *typeSeed+uint64(*typeCount); seed++ {
		r := draw{rand.New(rand.NewPCG(seed, 0))}
		typ := r.typ(4)
		open := r.IntN(4) == 0
		s, err := schemaBy(typ, nil, reads|writes, open)
		if err != nil {
			t.Errorf("seed %d: %v: %v", seed, typ, err)
			continue
		}
		for range 4 {
			accepted += r.roundTrip(t, seed, s, typ)
		}
		if t.Failed() {
			return
		}
	}
	if accepted < *typeCount/4 {
		t.Errorf("got only %d conforming mutations", accepted)
	}
}

// roundTrip checks one value and mutations of it, and returns the number of mutations that conform.
func (r draw) roundTrip(t *testing.T, seed uint64, s *Schema, typ reflect.Type) (accepted int) {
	t.Helper()
	value := reflect.New(typ)
	r.set(value.Elem(), 4)
	raw, err := contain.Encode("value", value.Elem().Interface())
	if err != nil {
		t.Errorf("seed %d: encode a %v: %v", seed, typ, err)
		return 0
	}
	back := reflect.New(typ)
	if err := s.Validate(t.Context(), raw); err != nil {
		t.Errorf("seed %d: %v\nvalue  %s\nschema %s\ntype   %v", seed, err, raw, s.JSON(), typ)
	} else if err := s.read(t.Context(), raw, back.Interface()); err != nil {
		t.Errorf("seed %d: read %s as %v: %v", seed, raw, typ, err)
	} else if again, err := contain.Encode("value", back.Elem().Interface()); err != nil || !alike(raw, again) {
		t.Errorf("seed %d: %v: wrote %s, read %s, %v", seed, typ, raw, again, err)
	}
	for range 8 {
		var doc any
		if err := contain.Decode("value", raw, &doc); err != nil {
			t.Fatal(err)
		}
		changed, err := contain.Encode("value", r.mutated(doc))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(t.Context(), changed) != nil {
			continue
		}
		accepted++
		back := reflect.New(typ)
		if err := s.read(t.Context(), changed, back.Interface()); err != nil {
			t.Errorf("seed %d: %s conforms to the schema of %v; decode: %v", seed, changed, typ, err)
			continue
		}
		again, err := contain.Encode("value", back.Elem().Interface())
		var in, out any
		if err != nil || contain.Decode("value", changed, &in) != nil || contain.Decode("value", again, &out) != nil || !s.open && !covers(in, out) {
			t.Errorf("seed %d: %v\ngot  %s, %v\nwant all of %s\nschema %s", seed, typ, again, err, changed, s.JSON())
		}
	}
	return accepted
}

// FuzzTypes checks that values that conform to a type's schema decode without loss.
func FuzzTypes(f *testing.F) {
	type all struct {
		Other
		*Tree  `json:"tree,omitempty"`
		Shades map[Shade]ID      `json:"shades,omitempty"`
		Counts map[int8]*big.Int `json:"counts,omitempty"`
		Quoted uint16            `json:"quoted,string,omitempty"`
		At     When              `json:"at,omitzero"`
		Bytes  []byte            `json:"bytes,omitempty"`
		Pair   [2]float64        `json:"pair,omitzero"`
		Any    any               `json:"any,omitempty"`
	}
	base := `"A":"a","x":1,"b":"b"`
	for _, rest := range []string{
		``, `,"tree":{"v":1,"kids":[{"v":2,"kids":null,"by":{}}],"by":null}`, `,"shades":{"shade-1":"00000000-0000-0000-0000-000000000001"}`,
		`,"counts":{"-3":12345678901234567890,"300":1}`, `,"quoted":"65535","at":"2006-01-02T15:04:05Z"`, `,"bytes":"AQI=","pair":[0,1e3],"any":[{}]`,
		`,"c":[1,-0],"X":1`, `,"at":"2006-01-02T23:59:60Z"`,
	} {
		f.Add([]byte("{" + base + rest + "}"))
	}
	typ := reflect.TypeFor[all]()
	closed, err := schemaBy(typ, nil, reads|writes, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if closed.Validate(t.Context(), raw) != nil {
			return
		}
		var back all
		if err := closed.read(t.Context(), raw, &back); err != nil {
			t.Fatalf("%s conforms; decode: %v", raw, err)
		}
		again, err := contain.Encode("value", back)
		if err == nil {
			err = closed.Validate(t.Context(), again)
		}
		if err != nil {
			t.Fatalf("%s decodes as %+v, which encodes as %s: %v", raw, back, again, err)
		}
	})
}
