package channels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxSafe is 2^53-1, the largest integer that every JSON reader represents exactly.
const maxSafe = "9007199254740991"

// ParseLossless parses a JSON text without losing digits of numbers. A number within ±(2^53-1) is a
// json.Number with its literal. A number outside is a string with its literal, so that ids that
// float64 cannot represent stay distinct. A repeated member with different values is an error. Objects
// are map[string]any, arrays []any.
func ParseLossless(text []byte) (any, error) {
	if _, err := Text(text); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte(bom))))
	dec.UseNumber()
	return parseValue(dec)
}

func parseValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		if Safe(string(t)) {
			return t, nil
		}
		return string(t), nil
	case json.Delim:
		if t == '[' {
			return parseArray(dec)
		}
		return parseObject(dec)
	}
	return token, nil
}

func parseArray(dec *json.Decoder) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := parseValue(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.Token()
	return list, err
}

func parseObject(dec *json.Decoder) (any, error) {
	members := map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := parseValue(dec)
		if err != nil {
			return nil, err
		}
		key := name.(string)
		if before, ok := members[key]; ok && !reflect.DeepEqual(before, v) {
			return nil, fmt.Errorf("member %.40q is repeated with another value", key)
		}
		members[key] = v
	}
	_, err := dec.Token()
	return members, err
}

// Safe reports whether a JSON number literal lies within ±(2^53-1).
func Safe(literal string) bool {
	mantissa, exponent := literal, ""
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], literal[i+1:]
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return true
	}
	// The value is 0.digits × 10^point.
	point := len(digits) - len(fraction)
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return strings.HasPrefix(exponent, "-") // the exponent exceeds the number of digits of any body
		}
		point += int(e)
	}
	if point != len(maxSafe) {
		return point < len(maxSafe)
	}
	digits = strings.TrimRight(digits, "0")
	// The digits have no leading zeros, so texts compare like fractions.
	return digits <= maxSafe
}
