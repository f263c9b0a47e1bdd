package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tagKeywords are the keywords of a tag `jsonschema:"minimum=1,enum=a,enum=b"`, each with the JSON
// types that it applies to; none means all.
func tagKeywords() map[string][]string {
	texts, numbers, arrays := []string{"string"}, []string{"integer", "number"}, []string{"array"}
	objects := []string{"object"}
	return map[string][]string{
		"title": nil, "description": nil, "default": nil, "example": nil,
		"enum":   {"string", "integer", "number", "boolean"},
		"format": texts, "pattern": texts, "minLength": texts, "maxLength": texts,
		"minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers, "multipleOf": numbers,
		"minItems": arrays, "maxItems": arrays, "uniqueItems": arrays,
		"minProperties": objects, "maxProperties": objects,
	}
}

var tagKeyword = regexp.MustCompile(`^([A-Za-z$_]+)=(.*)$`)

// tagged returns the schema of a field with the keywords of its tags. A tag that does not begin with
// "keyword=" is a description.
func (k keywords) tagged(tag reflect.StructTag) (keywords, error) {
	k = maps.Clone(k)
	if text, ok := tag.Lookup("jsonschema_description"); ok {
		k["description"] = text
	}
	text, ok := tag.Lookup("jsonschema")
	switch {
	case !ok:
		return k, nil
	case text == "-":
		return nil, errors.New("the tag jsonschema:\"-\" omits no field; use json:\"-\"")
	case text == "":
		return nil, errors.New("the tag jsonschema is empty; remove it")
	}
	parts := tagParts(text)
	if !tagKeyword.MatchString(parts[0]) && parts[0] != "required" {
		k["description"] = text
		return k, nil
	}
	for _, part := range parts {
		if part == "required" { // All fields are required except those with omitempty or omitzero.
			continue
		}
		m := tagKeyword.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("the part %q of the tag jsonschema is not keyword=value; write a comma within a value as %q", part, `\\,`)
		}
		if err := k.put(m[1], m[2]); err != nil {
			return nil, fmt.Errorf("the tag jsonschema has %s, %w", part, err)
		}
	}
	if values, ok := k["enum"].([]any); ok && slices.Contains(k.types(), "null") {
		k["enum"] = append(values, nil)
	}
	return k, nil
}

// tagParts splits a tag at its commas, except after a backslash.
func tagParts(text string) []string {
	const comma = "\x00"
	parts := strings.Split(strings.ReplaceAll(text, `\,`, comma), ",")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], comma, ",")
	}
	return parts
}

// put sets a keyword from its text, or sets it in the items of an array that has no such keyword
// itself.
func (k keywords) put(name, value string) error {
	types, ok := tagKeywords()[name]
	if !ok {
		return fmt.Errorf("which is not a keyword; use one of %s, or write a description that does not begin with \"word=\"", strings.Join(slices.Sorted(maps.Keys(tagKeywords())), ", "))
	}
	fits := func(t string) bool { return slices.Contains(types, t) }
	anything := len(k.types()) == 0 && k["$ref"] == nil && k["anyOf"] == nil
	if types != nil && !anything && !slices.ContainsFunc(k.types(), fits) {
		items, ok := k["items"].(keywords)
		if !ok {
			return fmt.Errorf("which is for the types %s; the type of the field is %s", strings.Join(types, ", "), cmp.Or(strings.Join(k.types(), " or "), "recursive"))
		}
		items = maps.Clone(items)
		k["items"] = items
		return items.put(name, value)
	}
	v, err := k.value(name, value)
	if err != nil {
		return err
	}
	switch name {
	case "enum":
		values, _ := k["enum"].([]any)
		k["enum"] = append(slices.Clone(values), v)
	case "example":
		values, _ := k["examples"].([]any)
		k["examples"] = append(slices.Clone(values), v)
	default:
		k[name] = v
	}
	return nil
}

// value returns the value of a keyword.
func (k keywords) value(name, value string) (any, error) {
	switch name {
	case "title", "description", "format":
		return value, nil
	case "pattern":
		if _, err := regexp.Compile(value); err != nil {
			return nil, fmt.Errorf("which cannot be compiled: %w", err)
		}
		return value, nil
	case "uniqueItems":
		unique, err := strconv.ParseBool(value)
		if err != nil {
			return nil, errors.New("which is neither true nor false")
		}
		return unique, nil
	case "enum", "default", "example":
		if types := k.types(); len(types) == 0 || slices.Contains(types, "string") {
			return value, nil
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) || !slices.Contains(k.types(), jsonType(raw)) && !(jsonType(raw) == "number" && slices.Contains(k.types(), "integer")) {
			return nil, fmt.Errorf("which is not of type %s", strings.Join(k.types(), " or "))
		}
		return raw, nil
	}
	if strings.HasPrefix(name, "min") && name != "minimum" || strings.HasPrefix(name, "max") && name != "maximum" {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return nil, errors.New("which is no count")
		}
		return n, nil
	}
	if raw := json.RawMessage(value); json.Valid(raw) && jsonType(raw) == "number" {
		return raw, nil
	}
	return nil, errors.New("which is no number")
}
