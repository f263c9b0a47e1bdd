package channels_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
)

// covers: channels/65, channels/66
func TestSafe(t *testing.T) {
	for literal, want := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "0e999999999999": true, "1": true, "-1": true, "1.5": true, "1e2": true, "1E+2": true, "1e15": true, "9e15": true,
		"9007199254740991": true, "-9007199254740991": true, "9007199254740990.9": true, "9007199254740991.0": true, "9.007199254740991e15": true,
		"90071992547409910e-1": true, "0.9007199254740991e16": true, "5e-324": true, "4e-324": true, "1e-400": true, "1e-99999999999999999999": true,
		"0.1234567890123456789": true, "123456789.123456789": true, "1.23456789012345678": true, "0.00000000000000000001e20": true,

		"9007199254740992": false, "-9007199254740992": false, "9007199254740991.1": false, "9007199254740991.00000000000000000000001": false, "9007199254740992.0": false,
		"1e16": false, "9.1e15": false, "1e21": false, "1e308": false, "1e309": false, "1e99999999999999999999": false, "115310627314723954": false,
		"10000000000000000000000e-6": false, "0.00000000000000000001e36": false,
	} {
		if got := channels.Safe(literal); got != want {
			t.Errorf("Safe(%s): got %v, want %v", literal, got, want)
		}
	}
}

// covers: channels/65, channels/66
func TestParseLossless(t *testing.T) {
	n := func(s string) json.Number { return json.Number(s) }
	for text, want := range map[string]any{
		"1.50": n("1.50"), "9007199254740993": "9007199254740993", "-1e400": "-1e400", `"1"`: "1", "null": nil, "true": true, "[]": []any{}, "{}": map[string]any{},
		` {"a" : [1, {"b":12345678901234567890}], "a" : [1, {"b":12345678901234567890}]} `: map[string]any{"a": []any{n("1"), map[string]any{"b": "12345678901234567890"}}},
		`{"__proto__":1}`: map[string]any{"__proto__": n("1")}, "\ufeff[1]": []any{n("1")},
	} {
		got, err := channels.ParseLossless([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseLossless(%s): got %#v, %v, want %#v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "{", "[1", "1 2", "01", "+1", ".5", "5.", "1e", "e5", "-", "NaN", `{"a":1,"a":2}`, `{"a":1,"a":1.0}`, `[{"b":{"a":[1],"a":[2]}}]`, "'a'", "[1,]",
		"\xff", "\"\xed\xa0\x80\"", "\ufeff\ufeff1", strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	} {
		if v, err := channels.ParseLossless([]byte(text)); err == nil {
			t.Errorf("ParseLossless(%.40q): got %v, want an error", text, v)
		}
	}
}

// FuzzLossless verifies that parsing keeps all digits, and compares Safe with exact arithmetic.
// covers: channels/65, channels/66
func FuzzLossless(f *testing.F) {
	for _, s := range []string{"9007199254740991", "-9007199254740992.0", "1e16", "0.1e17", "123.456e-7", "1e1000"} {
		f.Add(s)
	}
	most := new(big.Rat).SetInt64(1<<53 - 1)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := channels.ParseLossless([]byte(text))
		if err != nil || len(text) > 400 {
			return
		}
		var literal string
		number := false
		switch v := v.(type) {
		case json.Number:
			literal, number = string(v), true
		case string:
			if literal = v; !json.Valid([]byte(v)) || strings.TrimSpace(text) != v {
				return
			}
		default:
			return
		}
		if i := strings.IndexAny(literal, "eE"); i >= 0 && len(literal)-i > 5 {
			return // too large for exact arithmetic
		}
		if literal != strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) {
			t.Errorf("ParseLossless(%q): got digits %q", text, literal)
		}
		exact, ok := new(big.Rat).SetString(literal)
		if ok && (exact.Abs(exact).Cmp(most) <= 0) != number {
			t.Errorf("ParseLossless(%s): got a number: %v, want %v by exact arithmetic", literal, number, !number)
		}
	})
}
