package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxSchemaDepth bounds the nesting of a schema.
const maxSchemaDepth = 256

// schemaNode is a JSON object that preserves the order of members, because models read them in order.
// It is immutable: with and without return copies.
type schemaNode []schemaMember

// schemaMember is a member of a JSON object. The value is a schemaNode, a []any, or a json.RawMessage.
type schemaMember struct {
	name  string
	value any
}

// parseSchema reads one JSON value.
func parseSchema(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readSchema(d, 0)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("read schema: more than one JSON value")
	}
	return v, nil
}

func readSchema(d *json.Decoder, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("nesting exceeds %d levels", maxSchemaDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		node, seen := schemaNode{}, map[string]int{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := readSchema(d, depth+1)
			if err != nil {
				return nil, err
			}
			if i, ok := seen[name.(string)]; ok {
				node[i].value = value
				continue
			}
			seen[name.(string)] = len(node)
			node = append(node, schemaMember{name.(string), value})
		}
		_, err := d.Token()
		return node, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := readSchema(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := d.Token()
		return list, err
	}
	return plainJSON(token), nil
}

// plainJSON returns the JSON of a value without HTML escapes.
func plainJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("providers: encode JSON value: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// appendSchema appends the JSON of a value returned by parseSchema.
func appendSchema(out []byte, v any) []byte {
	switch v := v.(type) {
	case schemaNode:
		out = append(out, '{')
		for i, m := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, plainJSON(m.name)...), ':')
			out = appendSchema(out, m.value)
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendSchema(out, item)
		}
		return append(out, ']')
	}
	return append(out, v.(json.RawMessage)...)
}

// get returns the value of a member, or nil.
func (n schemaNode) get(name string) any {
	for _, m := range n {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (n schemaNode) has(names ...string) bool {
	return slices.ContainsFunc(n, func(m schemaMember) bool { return slices.Contains(names, m.name) })
}

// with returns the node with a member replaced or appended.
func (n schemaNode) with(name string, value any) schemaNode {
	out := slices.Clone(n)
	for i := range out {
		if out[i].name == name {
			out[i].value = value
			return out
		}
	}
	return append(out, schemaMember{name, value})
}

func (n schemaNode) without(names ...string) schemaNode {
	if !n.has(names...) {
		return n
	}
	return slices.DeleteFunc(slices.Clone(n), func(m schemaMember) bool { return slices.Contains(names, m.name) })
}

// only returns the node with the named members.
func (n schemaNode) only(names ...string) schemaNode {
	return slices.DeleteFunc(slices.Clone(n), func(m schemaMember) bool { return !slices.Contains(names, m.name) })
}

// text returns a string member, or "".
func (n schemaNode) text(name string) string { return jsonText(n.get(name)) }

// jsonText returns a JSON string, or "" for other values.
func jsonText(v any) (s string) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 && raw[0] == '"' {
		_ = json.Unmarshal(raw, &s) // the value comes from a decoder
	}
	return s
}

// texts returns a member that is a string or a list of strings.
func (n schemaNode) texts(name string) []string {
	v := n.get(name)
	if s := jsonText(v); s != "" {
		return []string{s}
	}
	var out []string
	list, _ := v.([]any)
	for _, item := range list {
		if s := jsonText(item); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func jsonTexts(texts []string) []any {
	out := make([]any, len(texts))
	for i, s := range texts {
		out[i] = plainJSON(s)
	}
	return out
}

// node returns an object member, or nil.
func (n schemaNode) node(name string) schemaNode {
	v, _ := n.get(name).(schemaNode)
	return v
}

// list returns a list member, or nil.
func (n schemaNode) list(name string) []any {
	v, _ := n.get(name).([]any)
	return v
}

// at returns the value at a JSON pointer, or nil.
func (n schemaNode) at(pointer string) any {
	var v any = n
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := v.(type) {
		case schemaNode:
			v = at.get(part)
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// jsonTypeOf returns the JSON Schema type of a value.
func jsonTypeOf(v any) string {
	raw, ok := v.(json.RawMessage)
	switch {
	case !ok:
		if _, isList := v.([]any); isList {
			return "array"
		}
		return "object"
	case len(raw) == 0 || raw[0] == 'n':
		return "null"
	case raw[0] == '"':
		return "string"
	case raw[0] == 't' || raw[0] == 'f':
		return "boolean"
	case bytes.ContainsAny(raw, ".eE"):
		return "number"
	}
	return "integer"
}
