package googlegenerativeai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// jsonSchema returns a schema as the vendor takes JSON schemas: it knows no const, which an
// enum of one value says as well.
func jsonSchema(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(`"const"`)) {
		return raw, nil
	}
	return rewritten(raw, func(member string, v any, out map[string]any) {
		if member == "const" && enumerable(v) {
			out["enum"] = []any{v}
			return
		}
		out[member] = v
	})
}

// openAPISchema returns a schema with the members that the vendor has in common with OpenAPI
// 3.0, for models that take no other.
func openAPISchema(raw json.RawMessage) (json.RawMessage, error) {
	return rewritten(raw, func(member string, v any, out map[string]any) {
		switch types, list := v.([]any); {
		case member == "const" && enumerable(v):
			out["enum"] = []any{v}
		case member == "oneOf":
			out["anyOf"] = v
		case member == "type" && list:
			for _, t := range types {
				if t == "null" {
					out["nullable"] = true
				} else if out["type"] == nil {
					out["type"] = t
				}
			}
		case slices.Contains(openAPIMembers(), member):
			out[member] = v
		}
	})
}

func openAPIMembers() []string {
	return []string{
		"type", "format", "title", "description", "nullable", "default", "enum", "items", "minItems", "maxItems", "properties", "required",
		"minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
	}
}

func enumerable(v any) bool {
	switch v.(type) {
	case string, json.Number:
		return true
	}
	return false
}

// rewritten returns a schema with its members, and those of the schemas in it, as put says.
func rewritten(raw json.RawMessage, put func(member string, v any, out map[string]any)) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	out, err := json.Marshal(rewriteSchema(v, put))
	if err != nil {
		panic("googlegenerativeai: a JSON value has no JSON form: " + err.Error())
	}
	return out, nil
}

// rewriteSchema tells schemas from the values and names that stand beside them.
func rewriteSchema(v any, put func(member string, v any, out map[string]any)) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(object))
	for _, member := range slices.Sorted(maps.Keys(object)) {
		inner := object[member]
		switch member {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, ok := inner.(map[string]any)
			if !ok {
				break
			}
			schemas := make(map[string]any, len(named))
			for name, s := range named {
				schemas[name] = rewriteSchema(s, put)
			}
			inner = schemas
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames":
			inner = rewriteSchema(inner, put)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			list, ok := inner.([]any)
			if !ok {
				break
			}
			schemas := make([]any, len(list))
			for i, s := range list {
				schemas[i] = rewriteSchema(s, put)
			}
			inner = schemas
		}
		put(member, inner, out)
	}
	return out
}
