package providers

import (
	"encoding/json"
	"maps"
	"slices"
)

// Rewriting of the form of a schema, as opposed to its keywords: one object at the root, one type for
// each position, explicit items and properties.

// boundKeywords are stated in the description in dialects without them.
var boundKeywords = []string{
	"format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "contentEncoding",
}

// maxBound is the maximum size of a keyword's value in a description, in bytes.
const maxBound = 100

// appendBound appends the text for an omitted keyword.
func appendBound(bounds []string, m schemaMember) []string {
	value := string(appendSchema(nil, m.value))
	if !slices.Contains(boundKeywords, m.name) || len(value) > maxBound {
		return bounds
	}
	if s := jsonText(m.value); s != "" {
		value = s
	}
	return append(bounds, m.name+" "+value)
}

// describe appends a text to the description of a schema.
func describe(n schemaNode, description string) schemaNode {
	text := "(" + description + ")"
	if was := n.text("description"); was != "" {
		text = was + " " + text
	}
	return n.with("description", plainJSON(text))
}

// keepsDefault reports whether a dialect that restricts defaults accepts v: a plain value of the type
// of its schema.
func (w *schemaWriter) keepsDefault(n schemaNode, v any) bool {
	of, types := jsonTypeOf(v), n.texts("type")
	return w.to == SchemaMoonshot && len(types) == 1 && of != "object" && of != "array" &&
		(types[0] == of || types[0] == "number" && of == "integer")
}

// merged returns a schema that requires both schemas, as far as that is expressible. For a member of
// both that of over is used.
func merged(base, over schemaNode) schemaNode {
	out := base
	for _, m := range over {
		switch was := out.get(m.name); m.name {
		case "properties":
			both := asNode(was)
			for _, p := range asNode(m.value) {
				if len(asNode(p.value)) > 0 || !both.has(p.name) {
					both = both.with(p.name, p.value)
				}
			}
			m.value = both
		case "required":
			names := out.texts("required")
			for _, name := range over.texts("required") {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			m.value = jsonTexts(names)
		case "allOf":
			list, _ := was.([]any)
			m.value = append(slices.Clone(list), over.list("allOf")...)
		}
		out = out.with(m.name, m.value)
	}
	return out
}

// rootChoices are the keywords that servers reject at the root.
var rootChoices = []string{"allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else", "$ref", "dependentSchemas"}

// flat returns an object schema without choices that accepts at least the same values. Its properties
// are those of all branches; it requires those that all branches require.
func (w *schemaWriter) flat(n schemaNode) schemaNode {
	for hop := 0; hop < maxSchemaHops && n.has(rootChoices...); hop++ {
		depth := len(w.under)
		rest := n.without(rootChoices...)
		if n.has("$ref") {
			n = w.deref(n)
			w.under = w.under[:depth]
			continue
		}
		for _, v := range n.list("allOf") {
			rest = merged(rest, w.deref(v))
		}
		for _, keyword := range []string{"anyOf", "oneOf"} {
			rest = w.united(rest, n.list(keyword))
		}
		for _, keyword := range []string{"if", "then", "else"} {
			if n.has(keyword) {
				rest = merged(rest, w.flat(w.deref(n.get(keyword))).only("properties"))
			}
		}
		w.under = w.under[:depth]
		n = rest
	}
	return n.without(rootChoices...)
}

// united adds the properties of branches to a schema, and the requirements common to all of them. The
// schema's own properties take precedence.
func (w *schemaWriter) united(n schemaNode, branches []any) schemaNode {
	var properties schemaNode
	required, closed := []string(nil), len(branches) > 0
	for i, v := range branches {
		b := w.flat(w.deref(v))
		for _, p := range b.node("properties") {
			properties = properties.with(p.name, oneOrOther(properties.get(p.name), p.value))
		}
		if own := b.texts("required"); i == 0 {
			required = own
		} else {
			required = slices.DeleteFunc(slices.Clone(required), func(name string) bool { return !slices.Contains(own, name) })
		}
		allows, isBool := boolean(b.get("additionalProperties"))
		closed = closed && isBool && !allows
	}
	own := n.node("properties")
	properties = slices.DeleteFunc(properties, func(p schemaMember) bool { return len(asNode(own.get(p.name))) > 0 })
	if len(properties) > 0 {
		n = merged(n, schemaNode{{"properties", properties}})
	}
	if len(required) > 0 {
		n = merged(n, schemaNode{{"required", jsonTexts(required)}})
	}
	if closed && !n.has("additionalProperties") {
		n = n.with("additionalProperties", json.RawMessage("false"))
	}
	return n
}

// oneOrOther returns a schema that accepts the values of either.
func oneOrOther(a, b any) any {
	if a == nil || string(appendSchema(nil, a)) == string(appendSchema(nil, b)) {
		return b
	}
	first, second := asNode(a), asNode(b)
	if values, ok := valuesOf(first); ok {
		if more, ok := valuesOf(second); ok && first.text("type") == second.text("type") {
			return first.without("const").with("enum", append(slices.Clone(values), more...))
		}
	}
	choices := []any{a}
	if len(first) == 1 && first.has("anyOf") {
		choices = slices.Clone(first.list("anyOf"))
	}
	return schemaNode{{"anyOf", append(choices, b)}}
}

// valuesOf returns the values of a schema that is a plain enumeration.
func valuesOf(n schemaNode) ([]any, bool) {
	if len(n.without("const", "enum", "type", "description", "title")) > 0 {
		return nil, false
	}
	if c := n.get("const"); c != nil {
		return []any{c}, !n.has("enum")
	}
	return n.list("enum"), n.has("enum")
}

// arrange returns a schema in the forms that the dialect accepts. It does not change subschemas.
func (w *schemaWriter) arrange(n schemaNode, path string) schemaNode {
	n = exclusive(n)
	for hop := 0; n.has("allOf") && w.to.changes("allOf") && hop < maxSchemaHops; hop++ {
		parts := n.list("allOf")
		n = n.without("allOf")
		for _, v := range parts {
			n = merged(n, w.deref(v))
		}
	}
	if w.to.changes("allOf") {
		n = n.without("allOf")
	}
	if w.to.changes("oneOf") && n.has("oneOf") {
		choices := n.list("oneOf")
		if n = n.without("oneOf"); !n.has("anyOf") {
			n = n.with("anyOf", choices)
		}
	}
	if c := n.get("const"); c != nil && w.to.changes("const") {
		n = constant(n.without("const"), c)
	}
	n = w.tuple(n)
	if w.to.changes(formSiblings) {
		n = w.distributed(n)
	}
	return w.split(n)
}

// exclusive converts exclusive bounds of an early draft.
func exclusive(n schemaNode) schemaNode {
	for excludes, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		on, isBool := boolean(n.get(excludes))
		if !isBool {
			continue
		}
		limit := n.get(bound)
		n = n.without(excludes)
		if on && limit != nil {
			n = n.without(bound).with(excludes, limit)
		}
	}
	return n
}

// constant converts a constant to an enum of one value, or to its type.
func constant(n schemaNode, c any) schemaNode {
	switch of := jsonTypeOf(c); of {
	case "string", "integer", "number":
		return n.with("enum", []any{c})
	default:
		if !n.has("type") {
			n = n.with("type", plainJSON(of))
		}
		return describe(n, "always "+string(appendSchema(nil, c)))
	}
}

// tuple converts a list of item schemas to the keywords of the dialect.
func (w *schemaWriter) tuple(n schemaNode) schemaNode {
	if list, ok := n.get("items").([]any); ok {
		rest := n.get("additionalItems")
		n = n.without("items", "additionalItems").with("prefixItems", list)
		if rest != nil {
			n = n.with("items", rest)
		}
	}
	if !n.has("prefixItems") || !w.to.changes("prefixItems") {
		return n
	}
	var items any
	for _, v := range n.list("prefixItems") {
		items = oneOrOther(items, v)
	}
	if rest := n.get("items"); rest != nil && string(appendSchema(nil, rest)) != "false" {
		items = oneOrOther(items, rest)
	}
	return n.without("prefixItems").with("items", items)
}

// annotations are the keywords allowed next to choices.
var annotations = []string{"description", "title", "$defs", "definitions"}

// distributed moves the keywords next to anyOf into its branches.
func (w *schemaWriter) distributed(n schemaNode) schemaNode {
	if !n.has("anyOf") {
		return n
	}
	siblings := n.without(append(slices.Clone(annotations), "anyOf", "default", "examples")...)
	branches := n.list("anyOf")
	if len(branches) == 0 {
		return n.without("anyOf")
	}
	if len(siblings) > 0 {
		branches = slices.Clone(branches)
		for i, v := range branches {
			branches[i] = merged(siblings, w.deref(v))
		}
	}
	return n.only(annotations...).with("anyOf", branches)
}

// typeKeywords are the keywords that apply to values of a type.
var typeKeywords = map[string][]string{
	"object": {
		"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties",
		"dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
	},
	"array": {
		"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems",
	},
	"string":  {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"},
	"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}

// split converts several types to a choice of schemas with one type each, if the dialect requires it.
func (w *schemaWriter) split(n schemaNode) schemaNode {
	types := n.texts("type")
	values := map[string][]any{} // enum values by type
	for _, v := range n.list("enum") {
		of := jsonTypeOf(v)
		if of == "integer" && !slices.Contains(types, "integer") {
			of = "number"
		}
		values[of] = append(values[of], v)
	}
	mixed := len(values) > 1 && w.to.changes(formMixed)
	if len(types) == 0 {
		types = sortedKeys(values)
	} else if len(values) > 0 {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return values[t] == nil })
	}
	_, isList := n.get("type").([]any)
	if !mixed && !(isList && w.to.changes(formTypes)) || len(types) == 0 {
		return n
	}
	nullable := w.to == SchemaOpenAPI && slices.Contains(types, "null")
	if nullable {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	}
	var branches []any
	for _, t := range types {
		branches = append(branches, typedBranch(n, t, values[t]))
	}
	var out schemaNode
	switch len(branches) {
	case 0:
		return n.without("type", "enum").with("nullable", json.RawMessage("true"))
	case 1:
		out = merged(asNode(branches[0]), n.only(append(slices.Clone(annotations), "default")...))
	default:
		out = n.only(annotations...).with("anyOf", branches)
	}
	if nullable {
		out = out.with("nullable", json.RawMessage("true"))
	}
	return out
}

// typedBranch returns the part of a schema that applies to values of one type.
func typedBranch(n schemaNode, of string, values []any) schemaNode {
	out := append(schemaNode{{"type", plainJSON(of)}}, n.only(typeKeywords[of]...)...)
	if len(values) > 0 && of != "null" {
		out = append(out, schemaMember{"enum", values})
	}
	return out
}

// finish completes a schema whose members are converted. n is the original.
func (w *schemaWriter) finish(out, n schemaNode, path string) schemaNode {
	types := out.texts("type")
	if w.to.changes(formMixed) {
		out = w.enumerated(out, types)
	}
	if slices.Contains(types, "object") || len(types) == 0 && out.has("properties", "required") && !out.has("$ref") {
		out = w.object(out, path)
	}
	if slices.Contains(types, "array") && !out.has("items") && w.to.changes(formNoItems) {
		out = out.with("items", schemaNode{})
	}
	if len(types) == 0 && w.to.changes(formTypeless) && !out.has("anyOf", "$ref") {
		out = w.typed(out, n)
	}
	return out
}

// enumerated removes enum values that the dialect does not accept: everything except strings, and
// numbers unless the dialect is OpenAPI.
func (w *schemaWriter) enumerated(n schemaNode, types []string) schemaNode {
	values := n.list("enum")
	odd := func(v any) bool {
		of := jsonTypeOf(v)
		return of != "string" && (of != "integer" && of != "number" || w.to == SchemaOpenAPI)
	}
	if !slices.ContainsFunc(values, odd) {
		return n
	}
	if len(types) == 0 {
		n = n.with("type", plainJSON(jsonTypeOf(values[0])))
	}
	description := string(appendSchema(nil, values))
	if n = n.without("enum"); len(description) <= maxBound {
		n = describe(n, "one of "+description)
	}
	return n
}

// object completes the properties of an object: every required property is listed, and none is listed
// if there are none.
func (w *schemaWriter) object(n schemaNode, path string) schemaNode {
	properties := n.node("properties")
	other, open := n.get("additionalProperties"), true
	if allows, isBool := boolean(other); isBool {
		open = allows
	}
	var required []string
	for _, name := range n.texts("required") {
		if !properties.has(name) {
			if !open {
				continue
			}
			s, _ := w.schema(asNode(other), path+"/properties/"+pointerEscapes.Replace(name))
			properties = properties.with(name, s)
		}
		required = append(required, name)
	}
	if !n.has("properties") || len(properties) != len(n.node("properties")) {
		n = n.with("properties", append(schemaNode{}, properties...))
	}
	if len(required) != len(n.list("required")) || w.to.changes(formRequired) && !n.has("required") {
		n = n.with("required", jsonTexts(required))
	}
	return n
}

// typed adds a type to a schema without one, derived from its keywords or values.
func (w *schemaWriter) typed(out, n schemaNode) schemaNode {
	for _, of := range []string{"object", "array", "string", "number"} {
		if n.has(typeKeywords[of]...) {
			return append(schemaNode{{"type", plainJSON(of)}}, out...)
		}
	}
	values := append(slices.Clone(n.list("enum")), n.list("examples")...)
	if v := n.get("default"); v != nil && jsonTypeOf(v) != "null" {
		values = append(values, v)
	}
	if len(values) == 0 {
		return w.anything(out)
	}
	out = append(schemaNode{{"type", plainJSON(jsonTypeOf(values[0]))}}, out...)
	if jsonTypeOf(values[0]) == "object" {
		return w.object(out, "")
	}
	return out
}

// anything returns a schema that accepts every value, with the description of another.
func (w *schemaWriter) anything(n schemaNode) schemaNode {
	if !w.to.changes(formTypeless) {
		return schemaNode{}
	}
	var branches []any
	for _, of := range []string{"string", "number", "boolean", "object", "array", "null"} {
		b := schemaNode{{"type", plainJSON(of)}}
		if of == "object" {
			b = w.object(b, "")
		}
		branches = append(branches, b)
	}
	return append(n.only("description", "title"), schemaMember{"anyOf", branches})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
