package config

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// appendJSON encodes a value as JSON, in the order of the file. Numbers that are valid JSON keep all
// their digits. It returns the first value without a JSON form and its fault. A value that was
// reported before has an empty fault.
func appendJSON(b []byte, v value) ([]byte, *value, fault) {
	switch v.node.kind {
	case null:
		return append(b, "null"...), nil, fault{}
	case text:
		return append(b, jsonString(v.node.text)...), nil, fault{}
	case boolean:
		truth, err := strconv.ParseBool(v.node.text)
		if err != nil { // an explicit tag
			return nil, &v, fault{quote(v.node.text) + " is neither true nor false", "write true or false"}
		}
		return strconv.AppendBool(b, truth), nil, fault{}
	case number:
		n := jsonNumber(v.node.text)
		if n == "" {
			return nil, &v, fault{quote(v.node.text) + " is not a number of JSON", "write a decimal number"}
		}
		return append(b, n...), nil, fault{}
	case list:
		return appendItems(b, v)
	case mapping:
		return appendPairs(b, v)
	}
	return nil, &v, fault{}
}

func appendItems(b []byte, v value) ([]byte, *value, fault) {
	b = append(b, '[')
	for i, n := range v.node.items {
		if i > 0 {
			b = append(b, ',')
		}
		var wrong *value
		var f fault
		if b, wrong, f = appendJSON(b, value{at: v.at.item(i), node: n}); wrong != nil {
			return nil, wrong, f
		}
	}
	return append(b, ']'), nil, fault{}
}

func appendPairs(b []byte, v value) ([]byte, *value, fault) {
	b = append(b, '{')
	for i, p := range v.node.pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonString(p.name)...), ':')
		var wrong *value
		var f fault
		if b, wrong, f = appendJSON(b, value{at: v.at.key(p.name), node: p.value}); wrong != nil {
			return nil, wrong, f
		}
	}
	return append(b, '}'), nil, fault{}
}

func jsonString(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("config: a string has no JSON form: " + err.Error())
	}
	return b
}

// jsonNumber converts a number of yaml to JSON, or returns "".
func jsonNumber(s string) string {
	// Valid JSON that begins like a number is a number.
	if s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s)) {
		return strings.TrimSpace(s)
	}
	plain := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if n, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return strconv.FormatUint(n, 10)
	}
	n, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return ""
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}
