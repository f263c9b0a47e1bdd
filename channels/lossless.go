package channels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxSafe are the digits of 2^53-1, the largest integer that every reader of JSON keeps.
const maxSafe = "9007199254740991"

// ParseLossless parses a JSON text without losing a digit of a number. A literal whose value
// lies within ±(2^53-1) is a json.Number with its text; one whose value lies outside, in
// whatever notation, is a string with its text, so that an identifier that no float64 keeps is
// never taken for another. An object whose repeated member has different values is an error.
// Objects are map[string]any, arrays []any.
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
			return nil, fmt.Errorf("member %.40q has two values", key)
		}
		members[key] = v
	}
	_, err := dec.Token()
	return members, err
}

// Safe reports whether the value of a literal of JSON lies within ±(2^53-1).
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
	// The value is 0.digits times ten to the power of point.
	point := len(digits) - len(fraction)
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return strings.HasPrefix(exponent, "-") // beyond a body's digits
		}
		point += int(e)
	}
	if point != len(maxSafe) {
		return point < len(maxSafe)
	}
	digits = strings.TrimRight(digits, "0")
	// As texts, a longer number of the same beginning is larger.
	return digits <= maxSafe
}
