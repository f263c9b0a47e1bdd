package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// object is JSON whose keys come out sorted.
type object = map[string]any

// get returns what a value has at a path of names between dots, nil if there is nothing.
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

// text is also that of a number.
func text(v any, path string) string {
	switch v := get(v, path).(type) {
	case string:
		return v
	case float64:
		return strconv.Itoa(int(v))
	}
	return ""
}

// texts are those at the paths that a path stands for, in which * is every element of a list.
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

// fits finds what a value has of another type than an example, or, if strict, has alone.
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
		var flawed string // The first by its name, of whatever order.
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
