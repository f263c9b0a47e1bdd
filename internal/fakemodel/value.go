package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// object is a JSON object, encoded with sorted keys.
type object = map[string]any

// get returns the value at a path of dot-separated names, or nil.
func get(v any, path string) any {
	for more := path != ""; more; {
		var name string
		name, path, more = strings.Cut(path, ".")
		members, _ := v.(object)
		v = members[name]
	}
	return v
}

func has(v any, path string) bool { return get(v, path) != nil }

func list(v any, path string) []any {
	l, _ := get(v, path).([]any)
	return l
}

func number(v any, path string) int {
	n, _ := get(v, path).(float64)
	return int(n)
}

// text returns the text or number at a path as text.
func text(v any, path string) string {
	switch v := get(v, path).(type) {
	case string:
		return v
	case float64:
		return strconv.Itoa(int(v))
	}
	return ""
}

// texts returns the texts at a path in which * matches each element of a list.
func texts(v any, path string) []string {
	path, rest, lists := strings.Cut(path, ".*.")
	if !lists {
		if !has(v, path) {
			return nil
		}
		return []string{text(v, path)}
	}
	var all []string
	for _, element := range list(v, path) {
		all = append(all, texts(element, rest)...)
	}
	return all
}

// fits rejects values whose types differ from those of an example, and unknown members if strict.
func fits(v, example any, strict bool) (err error) {
	if v == nil || example == nil {
		return nil
	}
	switch example := example.(type) {
	case object:
		members, ok := v.(object)
		if !ok {
			return errors.New("want an object")
		}
		var flawed string // Report the first by name, so that errors are deterministic.
		for name, member := range members {
			of, known := example[name]
			flaw := fits(member, of, strict)
			switch {
			case !known && strict:
				flaw = fmt.Errorf("unknown field %q", name)
			case flaw != nil:
				flaw = fmt.Errorf("%s: %w", name, flaw)
			}
			if flaw != nil && (err == nil || name < flawed) {
				flawed, err = name, flaw
			}
		}
	case []any:
		elements, ok := v.([]any)
		if !ok {
			return errors.New("want a list")
		}
		for i, element := range elements {
			if err := fits(element, example[0], strict); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	default:
		if reflect.TypeOf(v) != reflect.TypeOf(example) {
			return fmt.Errorf("is %T, want %T", v, example)
		}
	}
	return err
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fakemodel: %T has no JSON form: %v", v, err))
	}
	return b
}
