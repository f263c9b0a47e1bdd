package observability_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/sinktest"
)

// sameJSON checks that an encoder and encoding/json agree on a payload.
func sameJSON(t *testing.T, enc *observability.Encoder, p observability.Payload) {
	t.Helper()
	const before = "before"
	want, wantErr := observability.AppendPayload([]byte(before), p)
	got, err := enc.AppendPayload([]byte(before), p)
	if (err == nil) != (wantErr == nil) || string(got) != string(want) {
		t.Errorf("payload of %s is %s, %v; encoding/json makes it %s, %v", p.EventType(), got, err, want, wantErr)
	}
}

// TestEncoder compares with encoding/json: samples with all fields, with none, and with random edge
// cases.
func TestEncoder(t *testing.T) {
	enc := observability.NewEncoder()
	r := rand.New(rand.NewPCG(1, 2))
	for _, e := range sinktest.Sample() {
		sameJSON(t, enc, e.Payload)
		sameJSON(t, enc, bare(t, e).Payload)
		for range 300 {
			scramble(r, reflect.ValueOf(e.Payload).Elem())
			sameJSON(t, enc, e.Payload)
		}
	}
}

// scramble fills a value and everything within it at random, or leaves it zero.
func scramble(r *rand.Rand, v reflect.Value) {
	v.SetZero()
	if v.Kind() != reflect.Struct && r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			scramble(r, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		scramble(r, v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte([]string{` { "a" : [ 1, "<" ] }`, `null`, `{`, ``}[r.IntN(4)]))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			scramble(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.ValueOf([]map[string]any{{}, {"b": 1.5, "a": "<&>"}, {"bad": func() {}}}[r.IntN(3)]))
	case reflect.String:
		v.SetString([]string{"a", "<b>&\u2028\"\\\n\x00\x7f", "\xff\xfe", "日本語"}[r.IntN(4)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{1, -1, math.MaxInt64, math.MinInt64}[r.IntN(4)])
	case reflect.Float64:
		v.SetFloat([]float64{1, -0.5, 1e-6, 9.9e-7, 1e21, 9.99e20, 0.1, 1e-300, math.NaN(), math.Inf(1), math.Copysign(0, -1)}[r.IntN(11)])
	default:
		panic("a payload has a field of kind " + v.Kind().String())
	}
}

func FuzzEncoder(f *testing.F) {
	for _, e := range sinktest.Sample() {
		p, err := observability.AppendPayload(nil, e.Payload)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(e.Type), p)
	}
	enc := observability.NewEncoder()
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		if p, err := observability.DecodePayload(observability.Type(kind), data); err == nil {
			sameJSON(t, enc, p)
		}
	})
}
